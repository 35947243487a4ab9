"""From text to ids: worker processes filter and segment chunks of pairs, which are written in order."""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from cclm.data.filtering import DUPLICATE, Rules, filter_pairs
from cclm.data.model_tokenizer import ModelTokenizer
from cclm.data.readers.source import Chunk
from cclm.data.vocabulary import Segmenter, SubwordModel, segmenter_of
from cclm.data.workers import Workers

PieceIds = NDArray[np.uint32]


@dataclass(frozen=True)
class EncodingTask:
    """A chunk of pairs and everything that a worker process needs to encode it."""

    chunk: Chunk
    language: str
    split: str
    rules: Rules
    other_model: SubwordModel
    pivot_model: SubwordModel


@dataclass
class Encoded:
    """A chunk as ids of the SentencePiece models, sentence after sentence: other, pivot, other, pivot, ..."""

    language: str
    split: str
    tokens: PieceIds
    lengths: NDArray[np.int64]
    digests: NDArray[np.uint64]
    drops: Counter[str]
    pairs: int
    text: list[str]
    """The lines `pivot<TAB>other` of a dev or test set. Empty for training text, which is not stored."""


@lru_cache(maxsize=64)
def _segmenter(model: SubwordModel) -> Segmenter | ModelTokenizer:
    return segmenter_of(model)


def encode(task: EncodingTask) -> Encoded:
    """Filters, cleans and segments the pairs of a chunk. Runs in a worker process."""
    kept, findings = filter_pairs(task.chunk, task.language, task.split, task.rules)
    others = _segmenter(task.other_model).encode([other for _, _, other in kept])
    pivots = _segmenter(task.pivot_model).encode([pivot for _, pivot, _ in kept])
    lengths = np.array([list(map(len, others)), list(map(len, pivots))], dtype=np.int64)
    limit = task.rules.settings.max_tokens
    fits = lengths.max(axis=0) <= limit if task.split == "train" else np.ones(len(kept), dtype=bool)
    if too_long := len(fits) - int(fits.sum()):
        findings.drops[f"over {limit} tokens"] += too_long
    digests = np.frombuffer(findings.digests, dtype=np.uint64)
    tokens = array("I")
    for other, pivot, fit in zip(others, pivots, fits.tolist(), strict=True):
        if fit:
            tokens.fromlist(other)  # four times as fast as NumPy takes numbers from Python
            tokens.fromlist(pivot)
    return Encoded(
        language=task.language,
        split=task.split,
        tokens=np.frombuffer(tokens, dtype=np.uint32),
        lengths=lengths[:, fits].T.ravel(),
        digests=digests[fits] if len(digests) else digests,
        drops=findings.drops,
        pairs=findings.pairs,
        # Cleaned text has neither tabs nor line breaks.
        text=[] if task.split == "train" else [f"{pivot}\t{other}\n" for _, pivot, other in kept],
    )


def encode_all(tasks: Iterable[EncodingTask], pool: Workers) -> Iterator[tuple[tuple[str, str], Iterator[Encoded]]]:
    """The encoded chunks of the tasks, by language and split, which are given one after the other.

    It is one stream, so that workers have something to do while the last chunks of a language are awaited.
    """
    return groupby(pool.map(encode, tasks), key=lambda chunk: (chunk.language, chunk.split))


class DuplicateFilter:
    """Drops pairs that occurred before, by the digests that occur more than once: nine bytes for each of these."""

    def __init__(self, repeated: NDArray[np.uint64]) -> None:
        self._repeated = repeated  # sorted, each one once
        self._seen = np.zeros(len(repeated), dtype=bool)

    def drop(self, chunk: Encoded) -> Encoded:
        """The chunk without pairs that occurred before, in it or in an earlier one."""
        if not len(self._repeated):
            return chunk
        places = np.searchsorted(self._repeated, chunk.digests).clip(max=len(self._repeated) - 1)
        occurs_again = np.flatnonzero(self._repeated[places] == chunk.digests)
        # Of each repeated pair, keep the first one of this chunk, unless an earlier chunk had one.
        distinct, first = np.unique(places[occurs_again], return_index=True)
        keep = np.ones(len(chunk.digests), dtype=bool)
        keep[occurs_again] = False
        keep[occurs_again[first[~self._seen[distinct]]]] = True
        self._seen[distinct] = True
        dropped = int(len(keep) - keep.sum())
        if not dropped:
            return chunk
        sentences = np.repeat(keep, 2)
        tokens = chunk.tokens[np.repeat(sentences, chunk.lengths)]
        drops = chunk.drops + Counter({DUPLICATE: dropped})
        lengths, digests = chunk.lengths[sentences], chunk.digests[keep]
        return replace(chunk, tokens=tokens, lengths=lengths, digests=digests, drops=drops)


class RawFile:
    """Encoded chunks on disk, before the vocabulary is known, and the count of each SentencePiece id."""

    def __init__(self, stem: Path, other_pieces: int, pivot_pieces: int) -> None:
        self._tokens_path, self._lengths_path = stem.with_suffix(".tokens"), stem.with_suffix(".lengths")
        self._text_path = stem.with_suffix(".tsv")
        stem.parent.mkdir(parents=True, exist_ok=True)
        for path in (self._tokens_path, self._lengths_path):
            path.touch()  # a text without sentences has no chunk that is written
        self.other_counts = np.zeros(other_pieces, dtype=np.int64)
        self.pivot_counts = np.zeros(pivot_pieces, dtype=np.int64)

    def write(self, chunks: Iterable[Encoded]) -> None:
        """Writes the chunks and counts their ids."""
        with self._tokens_path.open("wb") as tokens, self._lengths_path.open("wb") as lengths:
            for chunk in chunks:
                self._write_one(chunk, tokens, lengths)
                if chunk.text:
                    with self._text_path.open("ab") as text:
                        text.write("".join(chunk.text).encode())

    def _write_one(self, chunk: Encoded, tokens: BinaryIO, lengths: BinaryIO) -> None:
        chunk.tokens.tofile(tokens)
        chunk.lengths.astype(np.uint32).tofile(lengths)
        is_other = np.repeat(np.arange(len(chunk.lengths)) % 2 == 0, chunk.lengths)
        self.other_counts += np.bincount(chunk.tokens[is_other], minlength=len(self.other_counts))
        self.pivot_counts += np.bincount(chunk.tokens[~is_other], minlength=len(self.pivot_counts))

    def finish(self, stem: Path, other_table: PieceIds, pivot_table: PieceIds, dtype: type[np.unsignedinteger]) -> int:
        """Writes the final token and offset files, with ids of the vocabularies; returns the number of pairs.

        Files are processed in parts: the pages of a memory map would count as memory of this process and grow with
        the corpus.
        """
        sentences, tokens = (path.stat().st_size // 4 for path in (self._lengths_path, self._tokens_path))
        with (
            self._lengths_path.open("rb") as raw_lengths,
            self._tokens_path.open("rb") as raw_tokens,
            Path(f"{stem}.offsets.npy").open("wb") as offsets,
            Path(f"{stem}.tokens.npy").open("wb") as ids,
        ):
            _write_header(offsets, np.dtype(np.int64), sentences + 1)
            _write_header(ids, np.dtype(dtype), tokens)
            np.zeros(1, dtype=np.int64).tofile(offsets)
            start = 0
            while len(lengths := np.fromfile(raw_lengths, dtype=np.uint32, count=PART)):
                ends = start + np.cumsum(lengths, dtype=np.int64)
                ends.tofile(offsets)
                pieces = np.fromfile(raw_tokens, dtype=np.uint32, count=int(ends[-1]) - start)
                is_other = np.repeat(np.arange(len(lengths)) % 2 == 0, lengths)
                # Either table is asked for id 0, which both have, where the piece belongs to the other side.
                others = other_table[np.where(is_other, pieces, 0)]
                pivots = pivot_table[np.where(is_other, 0, pieces)]
                np.where(is_other, others, pivots).astype(dtype).tofile(ids)
                start = int(ends[-1])
        self._tokens_path.unlink()
        self._lengths_path.unlink()
        return sentences // 2


PART = 100_000
"""Sentences that are converted at a time. An even number, because the two sides alternate."""


def _write_header(file: BinaryIO, dtype: "np.dtype[Any]", count: int) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (count,)}
    np.lib.format.write_array_header_1_0(file, header)
