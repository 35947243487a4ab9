"""Translation memories (TMX), parsed as a stream. Document types and entities are refused: they can exhaust memory."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.parsers import expat

from cclm.data.readers.files import MAX_LINE, blocks
from cclm.data.readers.source import Pairs
from cclm.errors import DataError
from cclm.recipe.language_codes import canonical

_BREAK = re.compile(r"\s*[\t\r\n]\s*")
_CODES = {"bpt", "ept", "ph", "it", "ut"}  # their content is markup of the original document; that of <hi> is text
_READ = 1 << 16


def read_tmx(path: Path, pivot: str, lang: str, drops: Counter[str]) -> Pairs:
    """(unit number, pivot text, other text). Units that lack one of the languages are dropped and counted."""
    units = _Units(path)
    for number, texts in enumerate(_stream(path, units), start=1):
        pivot_text, other_text = _choose(texts, pivot), _choose(texts, lang)
        if pivot_text is None or other_text is None:
            drops["missing translation"] += 1
        else:
            yield number, pivot_text, other_text


def _choose(texts: list[tuple[str, str]], code: str) -> str | None:
    """The text in a language: that with exactly this code (pt-BR rather than pt-PT), otherwise the first match."""
    matching = [(name, text) for name, text in texts if canonical(name) == canonical(code)]
    exact = [text for name, text in matching if name.lower() == code.lower().replace("_", "-")]
    return next(iter(exact or [text for _, text in matching]), None)


def _stream(path: Path, units: "_Units") -> Iterator[list[tuple[str, str]]]:
    parser, fed = units.parser, 0
    try:
        for block in blocks(path):
            for start in range(0, len(block), _READ):
                part = block[start : start + _READ]
                parser.Parse(part, False)
                fed += len(part)
                units.check_size(fed)
                yield from units.take()
        parser.Parse(b"", True)
    except DataError:
        raise
    except (LookupError, ValueError):  # raised by expat for encodings that it does not support
        raise DataError(f"{path}: the encoding {units.encoding} is not supported; convert the file to UTF-8") from None
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise DataError(f"{path}, line {error.lineno}: not well-formed XML: {reason}") from None
    yield from units.take()


class _Units:
    """The handlers for expat: collects (language, text) of each translation unit."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.XmlDeclHandler = self._declared
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.EntityDeclHandler = self._refuse
        self._done: list[list[tuple[str, str]]] = []
        self._unit: list[tuple[str, str]] = []
        self._language = ""
        self._pieces: list[str] | None = None  # None outside <seg>
        self._codes = self._size = 0
        self._root_seen = False
        self.encoding = "UTF-8"

    def take(self) -> list[list[tuple[str, str]]]:
        """Returns the units completed since the last call."""
        done, self._done = self._done, []
        return done

    def check_size(self, fed: int) -> None:
        """Raises DataError for a very long tag or text, which expat would hold in memory and parse again per block."""
        if self._size > MAX_LINE or fed - self.parser.CurrentByteIndex > MAX_LINE:
            raise DataError(f"{self._here()}: a text or tag longer than {MAX_LINE:,} bytes; is this a TMX file?")

    def _declared(self, version: str, encoding: str | None, standalone: int) -> None:
        self.encoding = encoding or self.encoding

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._root_seen and name != "tmx":
            raise DataError(f"{self._here()}: expected <tmx> as the first element, got <{name}>")
        self._root_seen = True
        if self._pieces is not None:
            self._codes += name in _CODES
        elif name == "tu":
            self._unit = []
        elif name == "tuv":
            self._language = attributes.get("xml:lang", attributes.get("lang", ""))
        elif name == "seg":
            self._pieces, self._codes, self._size = [], 0, 0

    def _end(self, name: str) -> None:
        if self._pieces is not None and name == "seg":
            self._unit.append((self._language, _BREAK.sub(" ", "".join(self._pieces))))
            self._pieces, self._size = None, 0
        elif self._pieces is not None:
            self._codes -= name in _CODES
        elif name == "tu":
            self._done.append(self._unit)
            self._unit = []

    def _text(self, text: str) -> None:
        if self._pieces is not None and not self._codes:
            self._pieces.append(text)
            self._size += len(text)

    def _refuse(self, name: str, *_: object) -> None:
        raise DataError(f"{self._here()}: document type and entity declarations ({name}) are not allowed; remove it")

    def _here(self) -> str:
        return f"{self.path}, line {self.parser.CurrentLineNumber}"
