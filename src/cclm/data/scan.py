"""The first reading of all text: findings by language and split, and what is shared between them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cclm.data.examine import DUPLICATE, Findings, Rules, examine
from cclm.data.texts import Pair, Texts, digest, folded
from cclm.data.workers import Workers, chunked
from cclm.progress_bar import Progress

CHUNK = 10_000
"""Pairs that a worker takes at a time."""


@dataclass(frozen=True)
class Scanned:
    """What the first reading found in a language."""

    findings: dict[str, Findings]
    """By split."""
    repeated: frozenset[int]
    """Digests of the training pairs that stand there more than once."""


def evaluation_digests(texts: Texts, languages: Iterable[str]) -> frozenset[int]:
    """The pivot sentences of these languages' dev and test sets, folded: training in no language may hold them."""
    digests: set[int] = set()
    for lang in languages:
        for split in set(texts.splits(lang)) - {"train"}:
            digests |= {digest(folded(pivot)) for _, pivot, _ in texts.read(lang, split, Counter())}
    return frozenset(digests - {digest("")})


def scan_language(texts: Texts, lang: str, rules: Rules, workers: Workers, progress: Progress) -> Scanned:
    """Reads all splits of a language once."""
    findings: dict[str, Findings] = {}
    repeated: frozenset[int] = frozenset()
    for split in texts.splits(lang):
        found = findings[split] = _scan(texts, lang, split, rules, workers, progress)
        values, counts = np.unique(np.frombuffer(found.digests, dtype=np.uint64), return_counts=True)
        found.notes[DUPLICATE] += int(found.kept - len(values))
        if split == "train":
            repeated = frozenset(values[counts > 1].tolist())
        found.forget_digests()
    return Scanned(findings, repeated)


def _scan(texts: Texts, lang: str, split: str, rules: Rules, workers: Workers, progress: Progress) -> Findings:
    total = Findings()
    tasks = ((chunk, lang, split, rules) for chunk in chunked(texts.read(lang, split, total.drops), CHUNK))
    for found in workers.map(_findings, tasks):
        total.add(found)
        progress("reading", found.pairs)
    return total


def _findings(task: tuple[list[Pair], str, str, Rules]) -> Findings:
    return examine(*task)[1]
