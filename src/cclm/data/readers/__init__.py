"""Readers: streams of sentence pairs from parallel text in five file formats; `cclm.data.texts` adds the phrasebook.

    source = Source("ted", "data/ted", detokenize=True)
    drops = Counter()
    for number, english, azerbaijani in read(source, "aze", "train", drops):
        ...

File names may use any spelling of a language code, and files may be compressed. `source.LAYOUTS` lists the names.
"""

from collections import Counter
from pathlib import Path

from cclm.data.cleaning import detokenize
from cclm.data.readers.huggingface import hub_splits, on_the_hub, read_hub, read_local
from cclm.data.readers.moses import read_moses
from cclm.data.readers.source import SPLITS, Pairs, Source, check_pair, find, require
from cclm.data.readers.tables import read_ted, read_tsv
from cclm.data.readers.tmx import read_tmx
from cclm.errors import DataError

__all__ = ["DataError", "Source", "inputs", "read", "splits"]


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
    pairs = _read(source, lang, split, drops)
    return _detokenized(pairs, source.pivot, lang) if source.detokenize else pairs


def _read(source: Source, lang: str, split: str, drops: Counter[str]) -> Pairs:
    check_pair(source, lang, split)
    paths = () if _is_remote(source) else require(source, lang, split)
    match source.format:
        case "moses":
            return read_moses(paths[0], paths[1], source.on_bad_utf8, drops)
        case "tsv":
            return read_tsv(paths[0], source.columns, source.on_bad_utf8, drops)
        case "ted":
            return read_ted(paths[0], source.pivot, lang, source.on_bad_utf8, drops)
        case "tmx":
            return read_tmx(paths[0], source.pivot, lang, drops)
        case "huggingface":
            if paths:
                return read_local(paths[0], source, lang, drops)
            return read_hub(source, lang, split, drops)


def _is_remote(source: Source) -> bool:
    return source.format == "huggingface" and on_the_hub(source.path)


def _detokenized(pairs: Pairs, pivot: str, lang: str) -> Pairs:
    for number, pivot_text, other_text in pairs:
        yield number, detokenize(pivot_text, pivot), detokenize(other_text, lang)
