"""Writing pairs in every format and compression, for the tests of reading."""

import gzip
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import zstandard

from cclm.data.readers import Source, read

Pair = tuple[str, str]

COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda content: content,
    ".gz": gzip.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


def put(folder: Path, name: str, content: str | bytes, compression: str = "") -> Path:
    path = folder / (name + compression)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(COMPRESSIONS[compression](content.encode() if isinstance(content, str) else content))
    return path


def put_moses(folder: Path, pairs: Sequence[Pair], compression: str = "") -> Source:
    for side, code in enumerate(("eng", "aze")):
        put(folder, f"train.aze-eng.{code}", "".join(f"{pair[side]}\n" for pair in pairs), compression)
    return Source("moses", str(folder))


def put_tsv(folder: Path, pairs: Sequence[Pair], compression: str = "") -> Source:
    put(folder, "aze.train.tsv", "".join(f"{one}\t{two}\n" for one, two in pairs), compression)
    return Source("tsv", str(folder))


def put_ted(folder: Path, pairs: Sequence[Pair], compression: str = "") -> Source:
    rows = "".join(f"{one}\t__NULL__\t{two}\ttalk_1\n" for one, two in pairs)
    put(folder, "all_talks_train.tsv", "en\tbe\taz\ttalk_name\n" + rows, compression)
    return Source("ted", str(folder))


def tmx(units: str) -> str:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4"><header/><body>\n{units}</body></tmx>\n'


def unit(**texts: str) -> str:
    tuvs = "".join(f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in texts.items())
    return f"<tu>{tuvs}</tu>\n"


def put_tmx(folder: Path, pairs: Sequence[Pair], compression: str = "") -> Source:
    put(folder, "aze.train.tmx", tmx("".join(unit(en=escape(a), az=escape(b)) for a, b in pairs)), compression)
    return Source("tmx", str(folder))


PUT = {"moses": put_moses, "tsv": put_tsv, "ted": put_ted, "tmx": put_tmx}


def pairs_of(source: Source, lang: str = "aze", split: str = "train", drops: Counter[str] | None = None) -> list[Pair]:
    return [(one, two) for _, one, two in read(source, lang, split, Counter() if drops is None else drops)]
