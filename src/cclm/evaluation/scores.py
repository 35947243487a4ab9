"""Computes BLEU and chrF with SacreBLEU, off-target rates, and the signature of the scores."""

import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import sacrebleu
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from cclm.data.language_identification import Identifier
from cclm.errors import DataError
from cclm.formats.base import read_regular
from cclm.formats.scores import METRICS, Means, MetricName, Row, Scores, Signature
from cclm.recipe.schema import DataSection

ALWAYS = (*METRICS, "bleu_low", "bleu_high")
"""The scores that every language has."""
RESERVED = (*ALWAYS, "off_target", "off_target_references")
"""Names that external scorers cannot have."""
BOOTSTRAP, SEED = 1000, 12345
"""The number of resamples of a confidence interval, and their seed."""
DIGITS = 10
"""Digits of a confidence interval, which SacreBLEU returns only as text."""


class Sentences(NamedTuple):
    """The test sentences of one task or zero-shot pair."""

    translations: list[str]
    references: list[str]
    sources: list[str]


def score(
    systems: Mapping[str, tuple[list[str], list[str]]],
    *,
    high_resource: Collection[str],
    low_resource: Collection[str],
    bootstrap: int = BOOTSTRAP,
    seed: int = SEED,
) -> Scores:
    """The content of scores.json, from (hypotheses, references) of each language as raw, detokenised text.

    Each language gets `bleu`, its 95 % confidence interval (`bleu_low` to `bleu_high`, around the mean of `bootstrap`
    resamples) and `chrf`. `means` are means of BLEU; the mean of a group without languages is None.
    """
    _check(systems, high_resource, low_resource, bootstrap)
    rows = {}
    for lang, (hypotheses, references) in systems.items():
        rows[lang], signature = _scores(hypotheses, references, bootstrap=bootstrap, seed=seed)
    bleu = {lang: row["bleu"] for lang, row in rows.items()}
    means = Means(
        all=_mean(list(bleu.values())),
        hrl=_mean([bleu[lang] for lang in bleu if lang in high_resource]),
        lrl=_mean([bleu[lang] for lang in bleu if lang in low_resource]),
        worst=min(bleu.values()),
    )
    return Scores(signature=signature, languages=rows, means=means)


def row_of(hypotheses: list[str], references: list[str]) -> Row:
    """The scores of a single language, computed as in `score`."""
    return _scores(hypotheses, references, bootstrap=BOOTSTRAP, seed=SEED)[0]


def bleu(hypotheses: list[str], references: list[str]) -> float:
    """BLEU without confidence interval, computed as in `score`."""
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references")
    return float(metric_named("bleu").corpus_score(hypotheses, [references]).score)


def read_lines(path: Path) -> list[str]:
    """The lines of a text file. Only \\n ends a line: sentences may contain the other line separators of Unicode."""
    try:
        text = read_regular(path).decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}, line {line}: not UTF-8 ({error.reason})") from None
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _scores(hypotheses: list[str], references: list[str], *, bootstrap: int, seed: int) -> tuple[Row, Signature]:
    """The scores of one language, and the signature, which is the same for every language."""
    bleu_metric, chrf = metric_named("bleu"), metric_named("chrf")
    with sacrebleu_seed(seed):
        bleu_score = bleu_metric.corpus_score(hypotheses, [references], n_bootstrap=bootstrap)
    chrf_score = chrf.corpus_score(hypotheses, [references])
    # Text of SacreBLEU, hence json.loads. It has no interval if every resample scores 0.
    content = json.loads(bleu_score.format(width=DIGITS, signature=str(bleu_metric.get_signature()), is_json=True))
    mean, half = content.get("confidence_mean", 0.0), content.get("confidence_var", 0.0)
    scores = {
        "bleu": bleu_score.score,
        "bleu_low": max(0.0, mean - half),  # a symmetric interval may leave 0 to 100
        "bleu_high": min(100.0, mean + half),
        "chrf": chrf_score.score,
    }
    signatures = {"bleu": str(bleu_metric.get_signature()), "chrf": str(chrf.get_signature())}
    return scores, Signature(sacrebleu=sacrebleu.__version__, bleu=signatures["bleu"], chrf=signatures["chrf"])


def metric_named(name: MetricName) -> Metric:
    """A metric of SacreBLEU with the settings that all scores of cclm use."""
    made: dict[MetricName, Callable[[], Metric]] = {"bleu": lambda: BLEU(tokenize="13a", lowercase=False), "chrf": CHRF}
    return made[name]()


@contextmanager
def sacrebleu_seed(seed: int) -> Iterator[None]:
    """Sets the seed of SacreBLEU's bootstrap, which reads it from the environment."""
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
        raise ValueError("no language to score")
    for lang, (hypotheses, references) in systems.items():
        if (lang in high_resource) == (lang in low_resource):
            group = "both high- and low-resource" if lang in high_resource else "neither high- nor low-resource"
            raise ValueError(f"{lang} is {group}; it must be exactly one of the two")
        # SacreBLEU would silently score as many lines as the shorter of the two has.
        if len(hypotheses) != len(references):
            raise ValueError(f"{lang}: {len(hypotheses)} hypotheses for {len(references)} references")
        if not any(reference.strip() for reference in references):
            raise ValueError(f"{lang}: all {len(references)} references are empty")


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


# --- off-target rate --------------------------------------------------------------------------------------------------


def off_target_rates(
    data: DataSection, targets: Mapping[str, str], texts: Mapping[str, Sentences]
) -> tuple[str, dict[str, Row]] | None:
    """A description of the language identifier, and the off-target rates of each task's translations and references.

    `targets` maps tasks to target languages. None for many-to-one models: with one target language, no translation is
    off-target. Also None if the extra is not installed; a line on stderr says what to install. Target languages that
    py3langid does not know have no rates.
    """
    if data.direction == "many-to-one":
        return None
    try:
        identifier = Identifier((*data.languages, data.pivot))
    except DataError as error:
        print(f"no off-target rates: {error}", file=sys.stderr, flush=True)
        return None
    rates: dict[str, Row] = {}
    for name, lines in texts.items():
        target = targets[name]
        if target in identifier.languages:
            texts_by_key = {"off_target": lines.translations, "off_target_references": lines.references}
            shares = {key: off_target(text, target, identifier.identify) for key, text in texts_by_key.items()}
            rates[name] = {key: share for key, share in shares.items() if share is not None}
    candidates = ", ".join(sorted(identifier.languages))
    return f"py3langid {version('py3langid')} among {candidates}", rates


def off_target(lines: Iterable[str], language: str, identify: Callable[[str], str]) -> float | None:
    """The share of lines that are identified as a language other than `language`; None if all lines are empty.

    Empty lines are ignored; BLEU penalises them already. Identifiers make mistakes, above all on short lines and
    between related languages: the share among the references is their error rate.
    """
    wrong = [identify(line) != language for line in lines if line.strip()]
    return sum(wrong) / len(wrong) if wrong else None
