"""Readers: streams of sentence pairs from parallel text in five file formats; `cclm.data.texts` adds the phrasebook.

    source = Source("ted", "data/ted", detokenize=True)
    drops = Counter()
    for number, english, azerbaijani in read(source, "aze", "train", drops):
        ...

File names may use any spelling of a language code, and files may be compressed. `source.LAYOUTS` lists the names.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cclm.data.cleaning import detokenize
from cclm.data.readers.huggingface import hub_splits, on_the_hub, read_hub, read_local
from cclm.data.readers.moses import read_moses
from cclm.data.readers.source import SPLITS, Chunk, Pairs, Source, check_pair, find, in_chunks, require
from cclm.data.readers.tables import read_ted, read_tsv
from cclm.data.readers.tmx import read_tmx
from cclm.errors import DataError

__all__ = ["DataError", "Source", "chunks", "inputs", "read", "splits"]


def splits(source: Source, lang: str) -> tuple[str, ...]:
    """The splits that have files. "valid" and "validation" in a file name mean dev."""
    check_pair(source, lang, "train")
    if _is_remote(source):
        available = hub_splits(source, lang)
        return tuple(split for split in SPLITS if split in available)
    return tuple(split for split in SPLITS if find(source, lang, split))


def inputs(source: Source, lang: str, split: str) -> tuple[Path, ...]:
    """The files that `read` reads; none for a dataset on the hub."""
    check_pair(source, lang, split)
    if _is_remote(source):
        return ()
    paths = require(source, lang, split)
    return tuple(sorted(paths[0].iterdir())) if paths[0].is_dir() else paths


def read(source: Source, lang: str, split: str, drops: Counter[str]) -> Pairs:
    """(number, pivot text, other text) of each pair, decoded but not cleaned.

    The number is that of the line, row or unit. `drops` counts lines that are not a pair, by reason. Files are located
    immediately and read lazily.
    """
    return (pair for chunk in chunks(source, lang, split) for pair in chunk.pairs(drops))


def chunks(source: Source, lang: str, split: str) -> Iterator[Chunk]:
    """The same pairs in chunks. Those of line-based formats are not decoded yet."""
    found = _chunks(source, lang, split)
    return (_Detokenized(chunk, source.pivot, lang) for chunk in found) if source.detokenize else found


def _chunks(source: Source, lang: str, split: str) -> Iterator[Chunk]:
    check_pair(source, lang, split)
    paths = () if _is_remote(source) else require(source, lang, split)
    drops: Counter[str] = Counter()
    match source.format:
        case "moses":
            return read_moses(paths[0], paths[1], source.on_bad_utf8)
        case "tsv":
            return read_tsv(paths[0], source.columns, source.on_bad_utf8)
        case "ted":
            return read_ted(paths[0], source.pivot, lang, source.on_bad_utf8)
        case "tmx":
            return in_chunks(read_tmx(paths[0], source.pivot, lang, drops), drops)
        case "huggingface":
            if paths:
                return in_chunks(read_local(paths[0], source, lang, drops), drops)
            return in_chunks(read_hub(source, lang, split, drops), drops)


def _is_remote(source: Source) -> bool:
    return source.format == "huggingface" and on_the_hub(source.path)


@dataclass(frozen=True)
class _Detokenized:
    """A chunk without the tokenisation of its corpus."""

    chunk: Chunk
    pivot: str
    lang: str

    def pairs(self, drops: Counter[str]) -> Pairs:
        for number, pivot_text, other_text in self.chunk.pairs(drops):
            yield number, detokenize(pivot_text, self.pivot), detokenize(other_text, self.lang)
