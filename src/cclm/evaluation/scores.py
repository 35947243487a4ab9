"""BLEU and chrF per language with SacreBLEU: the content of `scores.json`, every number with its signature."""

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import sacrebleu
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

MetricName = Literal["bleu", "chrf"]
VERSION = 1
DIGITS = 10
"""Of a confidence interval: SacreBLEU gives it only as text."""


def score(
    systems: Mapping[str, tuple[list[str], list[str]]],
    *,
    high_resource: Collection[str],
    low_resource: Collection[str],
    bootstrap: int = 1000,
    seed: int = 12345,
) -> dict[str, Any]:
    """The content of `scores.json`, from the hypotheses and references of each language: raw, detokenised text.

    A language has `bleu`, its 95 % confidence interval (`bleu_low` to `bleu_high`, around the mean of `bootstrap`
    resamples) and `chrf`. `means` are of BLEU; that of a group without a language is None.
    """
    _check(systems, high_resource, low_resource, bootstrap)
    languages, signatures = {}, {}
    for lang, (hypotheses, references) in systems.items():
        languages[lang], signatures[lang] = _scores(hypotheses, references, bootstrap=bootstrap, seed=seed)
    bleu = {lang: scores["bleu"] for lang, scores in languages.items()}
    return {
        "version": VERSION,
        "signature": {"sacrebleu": sacrebleu.__version__, **next(iter(signatures.values()))},
        "languages": languages,
        "means": {
            "all": _mean(list(bleu.values())),
            "hrl": _mean([bleu[lang] for lang in bleu if lang in high_resource]),
            "lrl": _mean([bleu[lang] for lang in bleu if lang in low_resource]),
            "worst": min(bleu.values()),
        },
    }


def bleu(hypotheses: list[str], references: list[str]) -> float:
    """BLEU alone, computed as in `score`."""
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references")
    return float(metric_named("bleu").corpus_score(hypotheses, [references]).score)


def read_lines(path: Path) -> list[str]:
    """The lines of a text file. Only \\n ends a line: a sentence may well hold one of Unicode's other separators."""
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}, line {line}: not UTF-8 ({error.reason})") from None
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _scores(
    hypotheses: list[str], references: list[str], *, bootstrap: int, seed: int
) -> tuple[dict[str, float], dict[str, str]]:
    """The scores of one language, and the signatures of its metrics."""
    by_words, chrf = metric_named("bleu"), metric_named("chrf")
    with sacrebleu_seed(seed):
        bleu_score = by_words.corpus_score(hypotheses, [references], n_bootstrap=bootstrap)
    chrf_score = chrf.corpus_score(hypotheses, [references])
    signatures = {"bleu": str(by_words.get_signature()), "chrf": str(chrf.get_signature())}
    told = json.loads(bleu_score.format(width=DIGITS, signature=signatures["bleu"], is_json=True))
    # Nothing is told where every resample scores 0.
    mean, half = told.get("confidence_mean", 0.0), told.get("confidence_var", 0.0)
    scores = {
        "bleu": bleu_score.score,
        "bleu_low": mean - half,
        "bleu_high": mean + half,
        "chrf": chrf_score.score,
    }
    return scores, signatures


def metric_named(name: MetricName) -> Metric:
    """A metric of SacreBLEU's, with the settings of all our scores."""
    return BLEU(tokenize="13a", lowercase=False) if name == "bleu" else CHRF()


@contextmanager
def sacrebleu_seed(seed: int) -> Iterator[None]:
    """SacreBLEU takes the seed of its bootstrap from the environment alone."""
    before = os.environ.get("SACREBLEU_SEED")
    os.environ["SACREBLEU_SEED"] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SACREBLEU_SEED"]
        else:
            os.environ["SACREBLEU_SEED"] = before


def _check(
    systems: Mapping[str, tuple[list[str], list[str]]],
    high_resource: Collection[str],
    low_resource: Collection[str],
    bootstrap: int,
) -> None:
    if bootstrap < 2:
        raise ValueError(f"bootstrap must be at least 2 resamples; got {bootstrap}")
    if not systems:
        raise ValueError("there is no language to score")
    for lang, (hypotheses, references) in systems.items():
        if (lang in high_resource) == (lang in low_resource):
            both = "both high- and low-resource" if lang in high_resource else "neither high- nor low-resource"
            raise ValueError(f"{lang} is {both}: its scores belong to one of the two means")
        # SacreBLEU would score the shorter of the two and say nothing.
        if len(hypotheses) != len(references):
            raise ValueError(f"{lang}: {len(hypotheses)} hypotheses for {len(references)} references")
        if not any(reference.strip() for reference in references):
            raise ValueError(f"{lang}: no text among its {len(references)} references")


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
