"""benchmark.json: the reference losses L* that competence is measured against."""

from typing import Annotated, ClassVar

from pydantic import Field

from cclm.formats.base import JsonFile

Loss = Annotated[float, Field(gt=0)]


class Benchmark(JsonFile):
    """The dev loss of each task's bitext model, in bits per token. A user's own file may lack the fingerprint."""

    advice: ClassVar[str] = 'expected {"version": 1, "losses": {LANGUAGE: BITS}}'
    losses: dict[str, Loss]
    fingerprint: str | None = None
