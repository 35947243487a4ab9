"""What the data can have wrong with it, said so that it can be mended."""


class DataError(ValueError):
    """Text that cannot be read as it is; the message is for people and complete."""
