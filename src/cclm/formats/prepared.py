"""The JSON files of prepared data: manifest.json, the vocabularies, and counts.json."""

import hashlib
import json
from pathlib import Path, PurePosixPath
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, JsonValue, TypeAdapter, ValidationError

from cclm.errors import DataError
from cclm.formats.base import VERSION, FileFacts, JsonFile, Part, parse_json

ADVICE = "delete the folder and run `cclm prepare` again"


def _inside(name: str) -> str:
    """Refuses names outside the folder, because a manifest may come from an untrusted source."""
    if "\0" in name or PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise ValueError("the name of a file inside the folder")
    return name


FileName = Annotated[str, AfterValidator(_inside)]


class Settings(Part):
    """The settings that determine prepared data, as they were in the recipe when it was prepared."""

    data: dict[str, JsonValue]
    vocabulary: dict[str, JsonValue]


class MadeFrom(Part):
    """Everything that determines prepared data: settings, the content of the text, and program versions."""

    settings: Settings
    inputs: dict[str, list[str]]
    """SHA-256 of the input files by their use: `aze.train`, `phrasebook`."""
    path: str | None
    """The name of a dataset on the Hugging Face hub, which has no local files to hash."""
    cclm: str | None
    """The version of cclm that last changed the text of the phrasebook; None for other text."""
    sentencepiece: str


class SplitCounts(Part):
    """The number of pairs of one language and split, with those dropped and noted by reason."""

    pairs: int
    dropped: dict[str, int]
    noted: dict[str, int]


class Manifest(JsonFile):
    """The content of manifest.json."""

    advice: ClassVar[str] = ADVICE

    fingerprint: str
    settings: Settings
    sizes: dict[str, dict[str, int]]
    vocabularies: dict[str, int] = {}
    pieces: dict[str, int] = {}
    counts: dict[str, dict[str, SplitCounts]] = {}
    made_from: MadeFrom
    files: dict[FileName, FileFacts]
    texts: dict[FileName, FileFacts] = {}
    """The dev and test text, which version 0.1.0 did not write. It is not in `files`, so that the fingerprint does not
    depend on it."""

    @staticmethod
    def fingerprint_of(made_from: MadeFrom, files: dict[str, FileFacts]) -> str:
        """A hash that identifies the data. Runs compare it, so it must never change for the same text and settings."""
        facts = {name: file.plain() for name, file in files.items()}
        return hashlib.sha256(json.dumps([made_from.plain(), facts], sort_keys=True).encode()).hexdigest()


def added_files(folder: Path) -> list[Path]:
    """The files in a folder of prepared data that are not in its manifest: those of a user. None if it is damaged."""
    manifest = Manifest.find(folder / "manifest.json")
    if manifest is None:
        return []
    known = {folder / name for name in ("manifest.json", *manifest.files, *manifest.texts)}
    return [path for path in sorted(folder.rglob("*")) if path not in known and (path.is_symlink() or path.is_file())]


class Layout(Part):
    """How a pretrained model wants its sentences: the ids of its special symbols, and where language codes stand."""

    pad: int
    start: int
    """The first symbol of every input of the decoder."""
    end: int
    unknown: int
    codes: Literal["both", "source", "none"]
    """`both`: the source begins with its own code, and the model predicts the code of the target first. `source`: the
    source begins with the code of the target. `none`: the model has no codes."""
    new: dict[str, str] = {}
    """Language codes that the model did not have, and the code that the embedding of each starts from."""


class VocabularyFile(JsonFile):
    """The content of other.json, pivot.json or vocabulary.json."""

    advice: ClassVar[str] = ADVICE

    tags: dict[str, int]
    symbols: list[tuple[str, int]]
    """Each symbol with its count in the training text."""
    layout: Layout | None = None
    """Of a pretrained model, whose ids these are; None for our own vocabularies."""

    def text(self) -> str:
        """The content of the file, one symbol per line."""
        lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in self.symbols)
        layout = f'"layout": {json.dumps(self.layout.plain(), ensure_ascii=False)}, ' if self.layout else ""
        return f'{{"version": {VERSION}, "tags": {json.dumps(self.tags)}, {layout}"symbols": [\n{lines}\n]}}\n'


PieceCounts = dict[str, dict[str, int]]
"""The count of each subword in the training text, by language."""
_PIECE_COUNTS = TypeAdapter(PieceCounts)


def read_counts(path: Path) -> PieceCounts:
    """Reads counts.json. It has no version: version 0.1.0 wrote none, and the checksum is part of the fingerprint."""
    try:
        return _PIECE_COUNTS.validate_python(parse_json(path.read_bytes(), str(path), ADVICE))
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; {ADVICE}") from None
    except ValidationError:
        raise DataError(f"{path}: expected {{LANGUAGE: {{SUBWORD: COUNT}}}}; {ADVICE}") from None


def write_counts(path: Path, counts: PieceCounts) -> None:
    """Writes counts.json."""
    path.write_text(json.dumps(counts, ensure_ascii=False), encoding="utf-8")
