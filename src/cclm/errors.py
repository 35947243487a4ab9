"""What can go wrong that a user can mend. Every message names the place, the value and the way out.

ValueError
  ConfigError        settings that cannot be: the recipe, a study, an option; exit code 2
  DataError          text or files that cannot be used as they are; exit code 1
RuntimeError
  TrainingError      a training that cannot start or continue; exit code 1
Exception
  Interrupted        a signal has arrived; exit code 128 + signal
"""


class ConfigError(ValueError):
    """Settings that cannot be; the message is complete and for people."""


class DataError(ValueError):
    """Text or files that cannot be used as they are; the message is complete and for people."""


class TrainingError(RuntimeError):
    """A training that cannot start or continue; the message names the place, the value and the way out."""


EXPLAINED = (ConfigError, DataError, TrainingError, OSError)
"""Errors that `explain` has a message for."""


def explain(error: Exception) -> str:
    """The message for an error that a user can mend."""
    return explain_os_error(error) if isinstance(error, OSError) else str(error)


def explain_os_error(error: OSError) -> str:
    """The message for a file that cannot be read or written: its name, and what is wrong with it."""
    name = error.filename2 or error.filename  # of a rename, the file that was to be written
    if "AF_UNIX path too long" in str(error):  # sockets of Python's processes are there; a path may have 100 bytes
        return "TMPDIR is too long for sockets; set it to a shorter path, as in TMPDIR=/tmp"
    return f"{name}: {error.strerror or error}" if name else error.strerror or str(error)


class Interrupted(Exception):
    """A signal has arrived. A training that is interrupted saves its state and ends."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.number = number
