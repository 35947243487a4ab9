"""What stands beside BLEU and chrF in scores.json: the off-target rate, and the scores of programs of one's own."""

import re
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any

from cclm.data.examine import Identifier
from cclm.errors import ConfigError, DataError
from cclm.evaluation.external import segment_scores
from cclm.evaluation.off_target import off_target
from cclm.recipe.schema import DataSection
from cclm.training.tasks import Task

ALWAYS = ("bleu", "bleu_low", "bleu_high", "chrf")
"""What every language has."""
OURS = (*ALWAYS, "off_target", "off_target_references")
"""Names of scores that no scorer can have."""
Texts = Mapping[str, tuple[list[str], list[str], list[str]]]
"""Translations, references and sources of each task."""


def add_off_target(scores: dict[str, Any], data: DataSection, tasks: Mapping[str, Task], texts: Texts) -> None:
    """Adds `off_target`, and that of the references, to every language whose target py3langid knows.

    Into one language alone it is not measured: there is no other to take by mistake. Without the extra a line says what
    to install.
    """
    if data.direction == "many-to-one":
        return
    try:
        identifier = Identifier((*data.languages, data.pivot))
    except DataError as error:
        print(f"no off-target rates: {error}", file=sys.stderr, flush=True)
        return
    among = ", ".join(sorted(identifier.languages))
    scores["signature"]["off_target"] = f"py3langid {version('py3langid')} among {among}"
    for name, (translations, references, _) in texts.items():
        target = tasks[name].target
        if target in identifier.languages:
            for key, lines in (("off_target", translations), ("off_target_references", references)):
                share = off_target(lines, target, identifier.identify)
                scores["languages"][name] |= {} if share is None else {key: share}


def add_external(scores: dict[str, Any], scorers: Mapping[str, str], tasks: Mapping[str, Task], texts: Texts) -> None:
    """Adds to every language what each scorer gives it: the mean over its sentences."""
    segments = [
        {
            "language": name,
            "source_language": tasks[name].source,
            "target_language": tasks[name].target,
            "source": source,
            "hypothesis": translation,
            "reference": reference,
        }
        for name, lines in texts.items()
        for translation, reference, source in zip(*lines, strict=True)
    ]
    for scorer, command in scorers.items():
        try:
            found = iter(segment_scores(command, segments))
        except ValueError as error:
            raise DataError(f"scorer {scorer} ({command}): {error}") from None
        for name, (translations, _, _) in texts.items():
            scores["languages"][name][scorer] = sum(next(found) for _ in translations) / len(translations)
        scores["signature"].setdefault("scorers", {})[scorer] = command


def keep_external(scores: dict[str, Any], before: Mapping[str, Any]) -> None:
    """Takes over what scorers gave to the same translations before."""
    for scorer, command in before.get("signature", {}).get("scorers", {}).items():
        found = {name: before["languages"].get(name, {}).get(scorer) for name in scores["languages"]}
        if None not in found.values():
            scores["signature"].setdefault("scorers", {})[scorer] = command
            for name, value in found.items():
                scores["languages"][name][scorer] = value


def scorers_of(given: Iterable[str]) -> dict[str, str]:
    """The scorers of a command line: NAME=COMMAND each."""
    scorers: dict[str, str] = {}
    for text in given:
        name, _, command = text.partition("=")
        if not re.fullmatch(r"[A-Za-z][\w.-]*", name) or not command.strip():
            raise ConfigError(f"--scorer {text}: write NAME=COMMAND, the name of letters, digits, '-', '_' and '.'")
        if name in OURS or name in scorers:
            raise ConfigError(f"--scorer {text}: {name!r} is taken; give the scorer another name")
        scorers[name] = command
    return scorers
