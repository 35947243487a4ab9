"""The scores of a run: BLEU and chrF with SacreBLEU, off-target rates, and the signature of every number."""

import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Literal, NamedTuple

import sacrebleu
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from cclm.data.examine import Identifier
from cclm.errors import DataError
from cclm.formats.scores import Means, Row, Scores, Signature
from cclm.recipe.schema import DataSection

MetricName = Literal["bleu", "chrf"]
ALWAYS = ("bleu", "bleu_low", "bleu_high", "chrf")
"""The scores that every language has."""
OURS = (*ALWAYS, "off_target", "off_target_references")
"""Names that no external scorer may have."""
BOOTSTRAP, SEED = 1000, 12345
"""Resamples of a confidence interval, and their seed."""
DIGITS = 10
"""Digits of a confidence interval: SacreBLEU returns it only as text."""


class Lines(NamedTuple):
    """The sentences of one task."""

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
    """The content of `scores.json`, from the hypotheses and references of each language: raw, detokenised text.

    A language has `bleu`, its 95 % confidence interval (`bleu_low` to `bleu_high`, around the mean of `bootstrap`
    resamples) and `chrf`. `means` are of BLEU; the mean of a group without languages is None.
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
    """The scores of one language alone, computed as in `score`."""
    return _scores(hypotheses, references, bootstrap=BOOTSTRAP, seed=SEED)[0]


def bleu(hypotheses: list[str], references: list[str]) -> float:
    """BLEU alone, computed as in `score`."""
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} references")
    return float(metric_named("bleu").corpus_score(hypotheses, [references]).score)


def read_lines(path: Path) -> list[str]:
    """The lines of a text file. Only \\n ends a line: a sentence may contain one of Unicode's other separators."""
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}, line {line}: not UTF-8 ({error.reason})") from None
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _scores(hypotheses: list[str], references: list[str], *, bootstrap: int, seed: int) -> tuple[Row, Signature]:
    """The scores of one language, and the signatures of the metrics, which are the same for every language."""
    by_words, chrf = metric_named("bleu"), metric_named("chrf")
    with sacrebleu_seed(seed):
        bleu_score = by_words.corpus_score(hypotheses, [references], n_bootstrap=bootstrap)
    chrf_score = chrf.corpus_score(hypotheses, [references])
    # json.loads: SacreBLEU's text. It has no interval if every resample scores 0.
    content = json.loads(bleu_score.format(width=DIGITS, signature=str(by_words.get_signature()), is_json=True))
    mean, half = content.get("confidence_mean", 0.0), content.get("confidence_var", 0.0)
    scores = {
        "bleu": bleu_score.score,
        "bleu_low": max(0.0, mean - half),  # the half-width is that of both sides
        "bleu_high": min(100.0, mean + half),
        "chrf": chrf_score.score,
    }
    signatures = {"bleu": str(by_words.get_signature()), "chrf": str(chrf.get_signature())}
    return scores, Signature(sacrebleu=sacrebleu.__version__, bleu=signatures["bleu"], chrf=signatures["chrf"])


def metric_named(name: MetricName) -> Metric:
    """One of SacreBLEU's metrics, with the settings of all our scores."""
    return BLEU(tokenize="13a", lowercase=False) if name == "bleu" else CHRF()


@contextmanager
def sacrebleu_seed(seed: int) -> Iterator[None]:
    """Sets the seed of SacreBLEU's bootstrap, which it reads only from the environment."""
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
            group = "both high- and low-resource" if lang in high_resource else "neither high- nor low-resource"
            raise ValueError(f"{lang} is {group}: its scores belong to one of the two means")
        # SacreBLEU would silently score as many lines as the shorter of the two has.
        if len(hypotheses) != len(references):
            raise ValueError(f"{lang}: {len(hypotheses)} hypotheses for {len(references)} references")
        if not any(reference.strip() for reference in references):
            raise ValueError(f"{lang}: no text among its {len(references)} references")


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


# --- off-target rate --------------------------------------------------------------------------------------------------


def off_target_rates(
    data: DataSection, targets: Mapping[str, str], texts: Mapping[str, Lines]
) -> tuple[str, dict[str, Row]] | None:
    """How off-target translations were identified, and the rates of each task: of its translations and references.

    `targets` has the target language of each task. Not measured with a single target language: there is no other
    language to take by mistake. A target language that py3langid does not know has no rates. Without the extra, a line
    on stderr says what to install.
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
            sides = {"off_target": lines.translations, "off_target_references": lines.references}
            shares = {key: off_target(side, target, identifier.identify) for key, side in sides.items()}
            rates[name] = {key: share for key, share in shares.items() if share is not None}
    among = ", ".join(sorted(identifier.languages))
    return f"py3langid {version('py3langid')} among {among}", rates


def off_target(lines: Iterable[str], language: str, identify: Callable[[str], str]) -> float | None:
    """The share of lines that are identified as another language.

    Empty lines are in no language: they are left out (BLEU has counted them). The share of no lines is None. An
    identifier makes mistakes, above all on short lines and between related languages; the share among the references
    is its error rate.
    """
    found = [identify(line) != language for line in lines if line.strip()]
    return sum(found) / len(found) if found else None
