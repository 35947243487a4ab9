"""Filters pairs of sentences: cleans them, drops some by the rules of the recipe, and counts the reasons.

Duplicates and pairs of too many tokens are dropped later, in `cclm.data.encode`: the first need a scan of all text, the
others its subwords.
"""

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cclm.data.cleaning import clean
from cclm.data.language_identification import Identifier
from cclm.data.readers.source import Chunk, Pair
from cclm.data.texts import Texts, digest, folded
from cclm.data.workers import Workers
from cclm.errors import DataError
from cclm.progress_bar import Progress
from cclm.recipe.schema import DataSection

# Reasons are keys in the manifest of prepared data: changing one would change its bytes.
EMPTY = "empty side"
COPY = "copy of the source"
LEAKED = "stands in a dev or test set"
DUPLICATE = "duplicate"
LENGTH_RATIO = "length ratio"
WRONG_LANGUAGE = "wrong language"


@dataclass(frozen=True)
class Rules:
    """The rules that pairs are filtered by."""

    settings: DataSection
    leaked: frozenset[int] = frozenset()
    """Digests of the folded pivot sentences of all dev and test sets."""
    thorough: bool = True
    """Whether to count everything. The second reading of the text only needs to know which pairs are dropped."""


@dataclass
class Findings:
    """The statistics of one language and split. Those of chunks can be added up."""

    pairs: int = 0
    kept: int = 0
    drops: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    """Number of pairs that were cleaned or are worth a warning but were not dropped, by reason."""
    words: Counter[str] = field(default_factory=Counter)
    """Number of words of each side, split at spaces."""
    characters: Counter[str] = field(default_factory=Counter)
    """Count of each character on the side of the other language."""
    digests: "array[int]" = field(default_factory=lambda: array("Q"))
    """One hash per kept pair."""

    @property
    def is_empty(self) -> bool:
        """Whether no pair has text on both sides. Dev and test sets keep pairs with an empty side."""
        return self.kept <= self.notes[EMPTY]

    def add(self, other: "Findings") -> None:
        """Adds the findings of another chunk."""
        self.pairs += other.pairs
        self.kept += other.kept
        self.drops.update(other.drops)
        self.notes.update(other.notes)
        self.words.update(other.words)
        self.characters.update(other.characters)
        self.digests.extend(other.digests)


def filter_pairs(chunk: Chunk, language: str, split: str, rules: Rules) -> tuple[list[Pair], Findings]:
    """The cleaned pairs that are kept, and the findings. Dev and test sets keep every pair, even empty ones."""
    kept: list[Pair] = []
    findings = Findings()
    for number, raw_pivot, raw_other in chunk.pairs(findings.drops):
        findings.pairs += 1
        pivot, pivot_notes = clean(raw_pivot)
        other, other_notes = clean(raw_other)
        if pivot_notes or other_notes:
            findings.notes.update(pivot_notes + other_notes)
        reason = _drop_reason(pivot, other, language, split, number, rules, findings)
        if reason:
            findings.drops[reason] += 1
            continue
        kept.append((number, pivot, other))
    findings.kept = len(kept)
    if rules.thorough:
        findings.words.update(pivot=_words(p for _, p, _ in kept), other=_words(o for _, _, o in kept))
        findings.characters.update(_characters("".join(other for _, _, other in kept)))
    if rules.thorough or rules.settings.duplicates == "drop":
        findings.digests.extend(digest(f"{pivot}\t{other}") for _, pivot, other in kept)
    return kept, findings


def _characters(text: str) -> dict[str, int]:
    """The count of each character; a tenth of the time that a Counter takes."""
    counts = np.bincount(np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32))
    return {chr(code): int(counts[code]) for code in np.flatnonzero(counts).tolist()}


def _words(texts: Iterable[str]) -> int:
    return sum(text.count(" ") + 1 for text in texts)


def _drop_reason(
    pivot: str, other: str, language: str, split: str, number: int, rules: Rules, findings: Findings
) -> str | None:
    """Why the pair is dropped, or None if it is kept."""
    settings = rules.settings
    longest = max(len(pivot), len(other))
    if longest > settings.max_characters:
        if split != "train":
            raise DataError(
                f"{split} set of {language}, pair {number}: {longest:,} characters; data.max_characters is"
                f" {settings.max_characters:,}: shorten it or raise the limit"
            )
        return f"over {settings.max_characters:,} characters"
    if not pivot or not other:
        findings.notes[EMPTY] += split != "train"
        return EMPTY if split == "train" else None
    if split == "train" and settings.length_ratio and longest > settings.length_ratio * min(len(pivot), len(other)):
        return LENGTH_RATIO
    if pivot == other:
        findings.notes[COPY] += 1
        if split == "train" and settings.copies == "drop":
            return COPY
    checks_leakage = split == "train" and (rules.thorough or settings.leakage == "drop")
    if checks_leakage and digest(folded(pivot)) in rules.leaked:
        findings.notes[LEAKED] += 1
        if settings.leakage == "drop":
            return LEAKED
    if split == "train" and settings.wrong_language == "drop":
        identifier = _identifier((*settings.languages, settings.pivot))
        if language in identifier.languages and identifier.identify(other) != language:
            return WRONG_LANGUAGE
    return None


def empty_set(language: str, split: str) -> str:
    """The error message for a dev or test set without a complete pair."""
    return (
        f"the {split} set of {language} has no pair with text on both sides:"
        f" add some, or remove the file and set data.cut.{split}=500"
    )


def refuse_empty_sets(texts: Texts, languages: Iterable[str]) -> None:
    """Raises DataError for a dev or test set without a complete pair. Reads each up to its first one."""
    for lang in languages:
        for split in texts.splits(lang):
            pairs = texts.read(lang, split, Counter())
            if split != "train" and not any(clean(pivot)[0] and clean(other)[0] for _, pivot, other in pairs):
                raise DataError(empty_set(lang, split))


@lru_cache(maxsize=4)
def _identifier(languages: tuple[str, ...]) -> Identifier:
    return Identifier(languages)


@dataclass(frozen=True)
class Scanned:
    """The result of the first reading of a language's text."""

    findings: dict[str, Findings]
    """The findings per split."""
    repeated: NDArray[np.uint64]
    """Digests of the training pairs that occur more than once, in ascending order."""


def evaluation_digests(texts: Texts, languages: Iterable[str]) -> frozenset[int]:
    """Digests of the folded pivot sentences in the dev and test sets of these languages."""
    digests: set[int] = set()
    for lang in languages:
        for split in set(texts.splits(lang)) - {"train"}:
            digests |= {digest(folded(pivot)) for _, pivot, _ in texts.read(lang, split, Counter())}
    return frozenset(digests - {digest("")})


def scan_language(texts: Texts, lang: str, rules: Rules, workers: Workers, progress: Progress) -> Scanned:
    """Reads all splits of a language once and counts duplicates."""
    findings: dict[str, Findings] = {}
    repeated = np.zeros(0, dtype=np.uint64)
    for split in texts.splits(lang):
        found = findings[split] = _scan(texts, lang, split, rules, workers, progress)
        digests = np.frombuffer(found.digests, dtype=np.uint64)
        digests.sort()  # in place: the digests are all that grows with the corpus
        again = digests[1:][digests[1:] == digests[:-1]]
        found.notes[DUPLICATE] += len(again)
        if split == "train":
            repeated = np.unique(again)
        del digests
        found.digests = array("Q")  # frees the memory
    return Scanned(findings, repeated)


def _scan(texts: Texts, lang: str, split: str, rules: Rules, workers: Workers, progress: Progress) -> Findings:
    total = Findings()
    tasks = ((chunk, lang, split, rules) for chunk in texts.chunks(lang, split))
    for found in workers.map(_findings, tasks):
        total.add(found)
        progress("reading", found.pairs)
    return total


def _findings(task: tuple[Chunk, str, str, Rules]) -> Findings:
    return filter_pairs(*task)[1]
