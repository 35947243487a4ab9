"""One translation model, many languages, unequal data: a curriculum driven by measured competence."""

TYPE_CHECKING = False  # as in `typing`, whose import takes longer than everything else here
if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike
    from typing import Literal

    from torch import Tensor

    from cclm.curriculum import (
        AllAtOnce,
        BatchSampler,
        ChiSquare,
        CompetenceGate,
        Curriculum,
        FixedWeights,
        IndexSampler,
        InverseCompetence,
        LanguageGraph,
        RewardActor,
        SizeAndCompetence,
        StepGate,
        Temperature,
        UniMax,
    )
    from cclm.translation.model import Model

__version__ = "0.1.0"

__all__ = [
    "AllAtOnce",
    "BatchSampler",
    "ChiSquare",
    "CompetenceGate",
    "Curriculum",
    "FixedWeights",
    "IndexSampler",
    "InverseCompetence",
    "LanguageGraph",
    "RewardActor",
    "SizeAndCompetence",
    "StepGate",
    "Temperature",
    "UniMax",
    "bits_per_token",
    "load",
]


def bits_per_token(batches: "Iterable[tuple[Tensor, Tensor]]", *, shift: bool = False) -> float:
    """The mean loss over all target tokens of all (logits, labels), in bits: what `observe` takes as dev_loss.

    `shift=True` is for decoder-only models, whose logits at a position predict the next label. Positions with label
    -100 are no targets. Needs torch, which is imported here.
    """
    try:
        from cclm.integrations.bits import bits_per_token as measure
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            f"cclm.bits_per_token needs {missing.name}: pip install 'ccl-m[train]'", name=missing.name
        ) from None
    return measure(batches, shift=shift)


def __getattr__(name: str) -> object:
    """The curriculum, imported at its first use: the `cclm` command handles signals before it imports NumPy."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from cclm import curriculum

    return getattr(curriculum, name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]


def load(
    run: "str | PathLike[str]",
    *,
    quantization: "Literal['float32', 'int8'] | None" = None,
    threads: int | None = None,
) -> "Model":
    """A trained run, or an export of one to CTranslate2, to translate with; all that is heavy is imported here.

    cclm.load("runs/x").translate(["..."], source="aze", target="eng")
    """
    from cclm.translation.model import load as load_run

    return load_run(run, quantization=quantization, threads=threads)
