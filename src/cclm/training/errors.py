"""What ends a training before its time, told to people."""


class TrainingError(RuntimeError):
    """A training that cannot start or go on; the message names the place, the value and the way out."""


class Interrupted(Exception):
    """A signal has come; the training saved and is about to leave."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.number = number
