"""How far a training has come: everything that changes and is neither model, optimizer nor curriculum."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

ALL_STEPS = "all steps are done"
"""The end that is none when more steps are asked for."""


@dataclass
class Progress:
    """Plain numbers, saved as progress.json."""

    step: int = 0
    micro: int = 0
    """Micro-batches so far, over the whole run and all ranks: their global number."""
    counters: dict[str, int] = field(default_factory=dict)
    """Batches drawn of each task."""
    phase: int = 1
    stop_best: float | None = None
    """Best value of the stop metric since the last admission."""
    stop_waited: int = 0
    """Validations without improvement."""
    selected: float | None = None
    """Best value of the select metric ever."""
    selected_step: int | None = None
    last_admission: int = 0
    skipped: int = 0
    """Steps not taken because a loss or gradient was not finite; `skipped_in_a_row` of them just now."""
    skipped_in_a_row: int = 0
    scale: float = 1.0
    """What losses are multiplied by, in fp16, and updates since it last changed."""
    scale_age: int = 0
    train_nats: dict[str, float] = field(default_factory=dict)
    """Since the last round: summed training loss of each task, and its target tokens."""
    train_tokens: dict[str, int] = field(default_factory=dict)
    shown: dict[str, Any] = field(default_factory=dict)
    """Since the last train event: what it will sum up."""
    due: list[str] = field(default_factory=list)
    """What is still to be done after the last step: show, probe, validate, save."""
    log_bytes: int = 0
    finished: str | None = None
    """Why the training ended, once it has."""

    def is_over(self, max_steps: int) -> bool:
        """Whether the training has ended, even if it may now take so many steps."""
        return self.finished is not None and not (self.finished == ALL_STEPS and self.step < max_steps)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"version": 1, **asdict(self)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "Progress":
        """The progress that `to_dict` gave."""
        return cls(**{name: value for name, value in content.items() if name != "version"})
