"""benchmark.json: the reference losses L* that competence is measured against."""

from typing import Annotated, ClassVar

from pydantic import Field

from cclm.formats.base import JsonFile

Loss = Annotated[float, Field(gt=0)]


class Benchmark(JsonFile):
    """A reference loss for each task, in bits per token. A user's own file may lack everything else."""

    advice: ClassVar[str] = 'expected {"version": 1, "losses": {LANGUAGE: BITS}}'
    losses: dict[str, Loss]
    fingerprint: str | None = None
    method: str | None = None
    """Where the losses come from, as in `benchmark.method`; unknown in files of version 0.1.0."""
    target_tokens: int | None = Field(default=None, ge=0)
    """Target tokens that were trained on to get them."""
