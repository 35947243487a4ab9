"""What a system under measurement tells: after every update the time, and the real target tokens trained on so far."""

import ctypes
import signal
import time
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1


class Events:
    """A file of lines `seconds tokens`; the clock is the machine's, the same in every process."""

    def __init__(self, path: Path) -> None:
        # Stopped processes must not outlive the one that would wake them, however that ends.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        self._file = path.open("w", encoding="utf-8")
        self.tokens = 0.0

    def tell(self, *_: object) -> None:
        """An update is done."""
        self._file.write(f"{time.monotonic():.6f} {self.tokens:.0f}\n")
        self._file.flush()

    def tell_updates(self) -> None:
        """Tells of every step of every optimizer of torch's from now on."""
        from torch.optim.optimizer import register_optimizer_step_post_hook

        register_optimizer_step_post_hook(self.tell)

    def tell_after(self, owner: Any, method: str) -> None:
        """Tells after every call of a method from now on."""
        original = getattr(owner, method)

        def told(*arguments: Any, **named: Any) -> Any:
            result = original(*arguments, **named)
            self.tell()
            return result

        setattr(owner, method, told)


def counting(events: Events, owner: Any, method: str, tokens: Any) -> None:
    """Lets a method count: `tokens(arguments, result)` gives the real target tokens of the batch that passes."""
    original = getattr(owner, method)

    def counted(*arguments: Any, **named: Any) -> Any:
        result = original(*arguments, **named)
        events.tokens += tokens(arguments, result)
        return result

    setattr(owner, method, counted)
