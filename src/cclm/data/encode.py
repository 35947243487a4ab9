"""From text to numbers: chunks of pairs, filtered and segmented by worker processes, written as they come."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from cclm.data.examine import DUPLICATE, Rules, examine
from cclm.data.texts import Pair
from cclm.data.vocabulary import Segmenter

Numbers = NDArray[np.uint32]


@dataclass(frozen=True)
class Task:
    """A chunk of pairs and all that is needed to encode it."""

    pairs: list[Pair]
    language: str
    split: str
    rules: Rules
    other_model: Path
    pivot_model: Path


@dataclass
class Encoded:
    """A chunk as numbers of the SentencePiece models, sentence after sentence: other, pivot, other, pivot ..."""

    tokens: Numbers
    lengths: NDArray[np.int64]
    digests: NDArray[np.uint64]
    drops: Counter[str]
    pairs: int


@lru_cache(maxsize=64)
def _segmenter(path: Path) -> Segmenter:
    return Segmenter(path)


def encode(task: Task) -> Encoded:
    """The numbers of the pairs that are kept."""
    kept, findings = examine(task.pairs, task.language, task.split, task.rules)
    others = _segmenter(task.other_model).encode([other for _, _, other in kept])
    pivots = _segmenter(task.pivot_model).encode([pivot for _, pivot, _ in kept])
    limit = task.rules.settings.max_tokens
    fits = [task.split != "train" or max(len(o), len(p)) <= limit for o, p in zip(others, pivots, strict=True)]
    if not all(fits):
        findings.drops[f"over {limit} tokens"] += len(fits) - sum(fits)
    digests = np.frombuffer(findings.digests, dtype=np.uint64)
    sentences = [s for o, p, fit in zip(others, pivots, fits, strict=True) if fit for s in (o, p)]
    return Encoded(
        tokens=np.fromiter(chain.from_iterable(sentences), dtype=np.uint32),
        lengths=np.array([len(sentence) for sentence in sentences], dtype=np.int64),
        digests=digests[np.array(fits, dtype=bool)] if len(digests) else digests,
        drops=findings.drops,
        pairs=len(task.pairs),
    )


def drop_repeated(chunk: Encoded, repeated: frozenset[int], seen: set[int]) -> Encoded:
    """The chunk without pairs that have come before; only digests known to repeat are remembered."""
    keep = np.ones(len(chunk.digests), dtype=bool)
    for place, value in enumerate(chunk.digests.tolist()):
        if value in repeated:
            keep[place] = value not in seen
            seen.add(value)
    dropped = int(len(keep) - keep.sum())
    if not dropped:
        return chunk
    sentences = np.repeat(keep, 2)
    tokens = chunk.tokens[np.repeat(sentences, chunk.lengths)]
    drops = chunk.drops + Counter({DUPLICATE: dropped})
    return Encoded(tokens, chunk.lengths[sentences], chunk.digests[keep], drops, chunk.pairs)


class RawFile:
    """Encoded chunks on disk, before the vocabulary is known; and how often each number stands in them."""

    def __init__(self, stem: Path, other_pieces: int, pivot_pieces: int) -> None:
        self._tokens_path, self._lengths_path = stem.with_suffix(".tokens"), stem.with_suffix(".lengths")
        stem.parent.mkdir(parents=True, exist_ok=True)
        self.other_counts = np.zeros(other_pieces, dtype=np.int64)
        self.pivot_counts = np.zeros(pivot_pieces, dtype=np.int64)

    def write(self, chunks: Iterable[Encoded]) -> None:
        """Appends the chunks as they come."""
        with self._tokens_path.open("wb") as tokens, self._lengths_path.open("wb") as lengths:
            for chunk in chunks:
                self._write_one(chunk, tokens, lengths)

    def _write_one(self, chunk: Encoded, tokens: BinaryIO, lengths: BinaryIO) -> None:
        chunk.tokens.tofile(tokens)
        chunk.lengths.astype(np.uint32).tofile(lengths)
        is_other = np.repeat(np.arange(len(chunk.lengths)) % 2 == 0, chunk.lengths)
        self.other_counts += np.bincount(chunk.tokens[is_other], minlength=len(self.other_counts))
        self.pivot_counts += np.bincount(chunk.tokens[~is_other], minlength=len(self.pivot_counts))

    def finish(self, stem: Path, other_table: Numbers, pivot_table: Numbers, dtype: type[np.unsignedinteger]) -> int:
        """Writes the final token and offset files with ids of the vocabularies; gives the number of pairs."""
        lengths = np.fromfile(self._lengths_path, dtype=np.uint32)
        offsets = np.lib.format.open_memmap(f"{stem}.offsets.npy", "w+", np.int64, (len(lengths) + 1,))
        offsets[0] = 0
        np.cumsum(lengths, out=offsets[1:])
        total = int(offsets[-1])
        tokens = np.lib.format.open_memmap(f"{stem}.tokens.npy", "w+", dtype, (total,))
        raw = np.memmap(self._tokens_path, np.uint32, "r") if total else np.zeros(0, np.uint32)
        step = 100_000
        for first in range(0, len(lengths), step):
            part = lengths[first : first + step]
            start, end = int(offsets[first]), int(offsets[first + len(part)])
            is_other = np.repeat(np.arange(first, first + len(part)) % 2 == 0, part)
            numbers = raw[start:end]
            tokens[start:end] = np.where(
                is_other,
                other_table[np.where(is_other, numbers, 0)],
                pivot_table[np.where(is_other, 0, numbers)],
            )
        tokens.flush()
        offsets.flush()
        del raw
        self._tokens_path.unlink()
        self._lengths_path.unlink()
        return len(lengths) // 2
