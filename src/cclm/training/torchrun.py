"""The environment variables that torchrun sets. No torch."""

import os

from cclm.errors import ConfigError


def world_size() -> int:
    """How many ranks torchrun has started; 1 without it."""
    return _number("WORLD_SIZE", 1, least=1)


def local_rank() -> int:
    """The number of this rank on its machine: which GPU is its own."""
    return _number("LOCAL_RANK", 0, least=0)


def _number(name: str, default: int, *, least: int) -> int:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise ConfigError(f"environment variable {name} is {text!r}: a whole number of at least {least}, or not set")
    return int(text)
