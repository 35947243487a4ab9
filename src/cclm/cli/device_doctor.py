"""`cclm doctor --device`: whether training works on this machine's GPU or CPU, and how fast."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from importlib.util import find_spec

from cclm import __version__
from cclm.experiments.cost import symbols_of
from cclm.model.transformer import Shape
from cclm.recipe.model import ModelSection
from cclm.recipe.schema import Recipe, TrainingSection
from cclm.training.device_check import DeviceReport, check_device

PIECES = 8000
"""Symbols per side of the model that is tried without a recipe; its sizes are the defaults of `model`."""


def run(name: str, recipe: Recipe | None, *, as_json: bool) -> bool:
    """Prints what was found; gives whether all is well."""
    settings = recipe.training if recipe else TrainingSection()
    report = check_device(name, settings, _shape(recipe))
    gpus = _gpus_of_ctranslate2()
    if as_json:
        facts = {"cclm": __version__, "passed": report.passed, **asdict(report), "ctranslate2_gpus": gpus}
        print(json.dumps(facts, allow_nan=False))
    else:
        print("\n".join(_lines(report, name, gpus)))
    return report.passed


def _shape(recipe: Recipe | None) -> Shape:
    """The shape of our model, as far as a recipe decides it without its text; a pretrained model is not loaded."""
    model = recipe.model if recipe else ModelSection()
    source, target = symbols_of(recipe) if recipe else (PIECES, PIECES)
    rates = (model.attention_dropout, model.activation_dropout)
    attention, activation = (model.dropout if rate is None else rate for rate in rates)
    sizes = (model.layers, model.heads, model.width, model.feed_forward)
    return Shape(source or target, target, *sizes, model.dropout, attention, activation, joint=not source)


def _gpus_of_ctranslate2() -> int | None:
    """How many GPUs CTranslate2 can translate on; None where it is not installed."""
    if find_spec("ctranslate2") is None:
        return None
    import ctranslate2  # type: ignore[import-untyped]

    count: int = ctranslate2.get_cuda_device_count()
    return count


def _lines(report: DeviceReport, asked: str, gpus: int | None) -> Iterator[str]:
    if asked == "auto" and report.device == "cpu":
        yield "no GPU was found: the CPU was tried (`cclm doctor --device cuda` says why there is none)"
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items() if version)
    yield f"{'device':<10} {report.device}: {report.hardware}"
    yield f"{'versions':<10} cclm {__version__}, {versions}"
    yield f"{'model':<10} {report.parameters:,} parameters, {report.precision}"
    for check in report.checks:
        yield f"{'ok' if check.passed else 'FAILED':<10} {check.name}: {check.found}"
    for speed in report.speeds:
        how = f"training.batch_tokens={speed.batch_tokens} training.accumulate={speed.accumulate}"
        yield f"{'speed':<10} {speed.tokens_per_second:,.0f} target tokens/s with {how}"
    if len(report.speeds) > 1:
        yield from _advice(report)
    if report.peak_memory is not None:
        yield f"{'memory':<10} {report.peak_memory / 1e9:.1f} GB of the GPU at most"
    if gpus is not None:
        where = f"on {gpus} GPU{'s' if gpus > 1 else ''}" if gpus else "on the CPU: CTranslate2 finds no GPU"
        yield f"{'translate':<10} {where}"
    yield (
        "training works on this device"
        if report.passed
        else "training does not work on this device as it should; please report the output of the same command with"
        " --json, and what kind of machine it is"
    )


def _advice(report: DeviceReport) -> Iterator[str]:
    """Whether the tokens of an update are better computed in one batch."""
    apart, together = report.speeds
    gain = together.tokens_per_second / apart.tokens_per_second - 1
    if gain > 0.05:
        yield (
            f"{'advice':<10} the second is {gain:.0%} faster with as many tokens per update; an update then has one"
            f" language per process instead of up to {apart.accumulate}"
        )
