"""`cclm doctor`: reads all text of a recipe, changes nothing, and reports problems before training."""

import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from cclm.data.cleaning import clean
from cclm.data.filtering import (
    COPY,
    DUPLICATE,
    EMPTY,
    LEAKED,
    Findings,
    Rules,
    empty_set,
    evaluation_digests,
    scan_language,
)
from cclm.data.language_identification import Identifier
from cclm.data.scripts import is_without_spaces
from cclm.data.texts import Texts
from cclm.data.workers import Workers
from cclm.errors import DataError
from cclm.progress_bar import Progress
from cclm.recipe.schema import DataSection

SAMPLE = 300
"""Number of lines per split whose language is identified."""


@dataclass(frozen=True)
class Problem:
    """An error or a warning about the text."""

    level: Literal["error", "warning"]
    message: str


@dataclass(frozen=True)
class Row:
    """The findings about one language and split."""

    language: str
    split: str
    pairs: int
    dropped: dict[str, int]
    noted: dict[str, int]
    words: dict[str, int]
    """Number of words of the pivot and of the other language, split at spaces."""
    ratio: float | None
    """Words of the other language per word of the pivot. None if it is written without spaces between words."""
    unknown_characters: float
    """Fraction of characters that do not occur in the training text."""
    languages: dict[str, dict[str, float]] = field(default_factory=dict)
    """Per side, the fractions of lines identified as each language. Empty without py3langid."""


@dataclass(frozen=True)
class Diagnosis:
    """The report of `cclm doctor`."""

    rows: list[Row]
    problems: list[Problem]

    @property
    def healthy(self) -> bool:
        """Whether there are no errors. There may be warnings."""
        return all(problem.level != "error" for problem in self.problems)

    def as_json(self) -> dict[str, object]:
        """The content of `cclm doctor --json`."""
        return {
            "version": 1,
            "healthy": self.healthy,
            "rows": [vars(row) for row in self.rows],
            "problems": [vars(problem) for problem in self.problems],
        }


SMALL_DEV = 256
"""Dev sets with fewer pairs are reported."""


def diagnose(
    data: DataSection,
    *,
    probe: int | None = None,
    pieces: int | None = None,
    workers: int | None = None,
    progress: Progress = lambda stage, pairs: None,
) -> Diagnosis:
    """Checks all text of a recipe. A language that cannot be read is reported, and the others are still checked.

    `probe` is `curriculum.dev_sample`, `pieces` the maximum number of subwords per model.
    """
    texts = Texts(data)
    rows: list[Row] = []
    problems: list[Problem] = []
    identifier = _identifier(data, problems)
    readable = [lang for lang in data.languages if _is_readable(texts, lang, problems)]
    rules = Rules(data, evaluation_digests(texts, readable))
    with Workers(workers) as pool:
        for lang in readable:
            try:
                findings = scan_language(texts, lang, rules, pool, progress).findings
            except DataError as error:
                problems.append(Problem("error", str(error)))
                continue
            new_rows = [_row(texts, lang, split, findings, identifier) for split in findings]
            rows += new_rows
            problems += _split_problems(lang, findings, probe)
            problems += _piece_problems(lang, findings["train"], pieces)
            problems += [problem for row in new_rows for problem in _row_problems(row, data)]
    return Diagnosis(rows, problems)


def _identifier(data: DataSection, problems: list[Problem]) -> Identifier | None:
    try:
        return Identifier((*data.languages, data.pivot))
    except DataError as error:
        problems.append(Problem("warning", f"{error}; lines in a wrong language are not detected"))
        return None


def _is_readable(texts: Texts, lang: str, problems: list[Problem]) -> bool:
    """Whether the dev and test sets can be read. They are compared with the training text of every language."""
    try:
        evaluation_digests(texts, [lang])
    except DataError as error:
        problems.append(Problem("error", str(error)))
        return False
    return True


def _row(texts: Texts, lang: str, split: str, findings: dict[str, Findings], identifier: Identifier | None) -> Row:
    found = findings[split]
    known = findings["train"].characters.keys()
    characters = found.characters.total()
    unknown = sum(count for char, count in found.characters.items() if char not in known)
    return Row(
        language=lang,
        split=split,
        pairs=found.pairs,
        dropped=dict(found.drops),
        noted={name: count for name, count in found.notes.items() if count},
        words=dict(found.words),
        ratio=None if is_without_spaces(found.characters) else found.words["other"] / max(1, found.words["pivot"]),
        unknown_characters=unknown / max(1, characters),
        languages=_identified(texts, lang, split, identifier),
    )


def _identified(texts: Texts, lang: str, split: str, identifier: Identifier | None) -> dict[str, dict[str, float]]:
    if identifier is None:
        return {}
    lines = [(clean(p)[0], clean(o)[0]) for _, p, o in islice(texts.read(lang, split, Counter()), SAMPLE)]
    sides = {"pivot": [p for p, _ in lines if p], "other": [o for _, o in lines if o]}
    expected = {"pivot": texts.settings.pivot, "other": lang}
    # Results for languages that the identifier does not support would be meaningless.
    return {side: identifier.shares(sides[side]) for side in sides if expected[side] in identifier.languages}


def _split_problems(lang: str, findings: dict[str, Findings], probe: int | None) -> Iterator[Problem]:
    if "dev" not in findings:
        yield Problem(
            "error", f"{lang} has no dev set: add one, or set data.cut.dev=500 to take it from the training text"
        )
    elif findings["dev"].is_empty:
        yield Problem("error", empty_set(lang, "dev"))
    elif (size := findings["dev"].kept) < (probe or SMALL_DEV):
        effect = f"a probe uses all of them instead of {probe}" if probe else "dev losses of so few are uncertain"
        yield Problem("warning", f"dev set of {lang}: {size} pairs; {effect}")
    if "test" not in findings:
        yield Problem("warning", f"{lang} has no test set: it is not scored and not part of any mean")
    elif findings["test"].is_empty:
        yield Problem("error", empty_set(lang, "test"))
    if not findings["train"].kept:
        yield Problem("error", f"no training text of {lang} is left: every pair was dropped")


def _piece_problems(lang: str, found: Findings, pieces: int | None) -> Iterator[Problem]:
    """Warns about models that exceed `pieces`: every distinct character, after NFKC, needs its own subword."""
    characters = {part for char in found.characters for part in unicodedata.normalize("NFKC", char)}
    needed = len(characters) + 2  # the space and the unknown piece
    if pieces is not None and pieces < needed:
        yield Problem(
            "warning",
            f"training text of {lang}: about {needed:,} different characters, more than vocabulary.pieces={pieces:,};"
            " its model will have one subword for each",
        )


def _row_problems(row: Row, data: DataSection) -> Iterator[Problem]:
    where, kept = f"{row.split} set of {row.language}", max(1, row.pairs - sum(row.dropped.values()))
    leaked = row.noted.get(LEAKED, 0)
    if leaked and data.leakage == "keep":
        yield Problem(
            "warning",
            f"{where}: {leaked:,} pairs whose {data.pivot} side occurs in a dev or test set"
            " of some language; data.leakage=drop removes them",
        )
    for name, key in ((DUPLICATE, "duplicates"), (COPY, "copies")):
        count = row.noted.get(name, 0)
        if row.split == "train" and count > 0.01 * kept and getattr(data, key) == "keep":
            yield Problem(
                "warning",
                f"{where}: {count:,} pairs ({count / kept:.1%}) are a {name}; data.{key}=drop removes them",
            )
    if row.noted.get(EMPTY):
        yield Problem("warning", f"{where}: {row.noted[EMPTY]:,} pairs with an empty side, which are kept")
    if row.ratio is not None and not 1 / 3 <= row.ratio <= 3:
        yield Problem("warning", f"{where}: {row.ratio:.2f} words per word of {data.pivot}: are the files parallel?")
    if row.unknown_characters > 0.01:
        yield Problem(
            "warning", f"{where}: {row.unknown_characters:.1%} of the characters do not occur in the training text"
        )
    yield from _language_problems(row, where, data)


def _language_problems(row: Row, where: str, data: DataSection) -> Iterator[Problem]:
    pivot, other = row.languages.get("pivot", {}), row.languages.get("other", {})
    if not pivot or not other:
        return
    if pivot.get(data.pivot, 0) < 0.5 < other.get(data.pivot, 0):
        flipped = "other-first" if data.columns == "pivot-first" else "pivot-first"
        hint = f"; try data.columns={flipped}" if data.format == "tsv" else ""
        yield Problem("warning", f"{where}: the sides look swapped{hint}")
        return
    for side, expected, shares in (("pivot", data.pivot, pivot), ("other", row.language, other)):
        top = next(iter(shares))
        if shares.get(expected, 0) < 0.5 and top != expected and shares[top] > 0.5:
            yield Problem(
                "warning",
                f"{where}: {shares[top]:.0%} of the {side} lines look like {top},"
                f" {shares.get(expected, 0):.0%} like {expected}",
            )
