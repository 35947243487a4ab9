"""A gate and a sampler of one's own. A recipe beside this file names them by their import path:

curriculum:
  gate: {name: "my_module:OneByOne", rounds: 3}
  sampler: {name: "my_module:Loudest", strength: 2}
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from cclm.curriculum import Situation


@dataclass(frozen=True)
class Loudest:
    """Draws a language by its training loss: the higher the loss, the more often."""

    strength: float = 1.0

    needs: ClassVar[frozenset[str]] = frozenset({"train_loss"})  # every observation has it

    def __post_init__(self) -> None:
        if self.strength < 0:
            raise ValueError(f"strength must be at least 0; got {self.strength}")

    def weights(self, now: Situation) -> dict[str, float]:
        losses = now.memory.setdefault("losses", {})  # plain JSON: saved and restored with the curriculum
        losses.update(now.signals.get("train_loss", {}))
        average = sum(losses.values()) / len(losses) if losses else 1.0
        return {lang: losses.get(lang, average) ** self.strength for lang in now.admitted}


@dataclass(frozen=True)
class OneByOne:
    """Admits the largest language first, and another one every few rounds."""

    rounds: int = 1

    def admit(self, now: Situation) -> dict[str, dict[str, Any]]:
        if now.round % self.rounds or not now.waiting:
            return {}
        largest = max(now.waiting, key=now.sizes.__getitem__)
        return {largest: {"reason": f"the largest language in round {now.round}"}}
