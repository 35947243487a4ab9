"""`cclm prepare`: checks the text, learns subwords, encodes, and writes prepared data.

Text is processed as a stream, in chunks that worker processes filter and encode; `workers.py` limits how many are in
memory. What grows with the corpus is eight bytes per pair of the language that is read, to find duplicates, and then
nine bytes per pair that occurs more than once.
"""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import sentencepiece

from cclm.atomic import atomic_folder, refuse_foreign, restore
from cclm.data.encode import DuplicateFilter, Encoded, EncodingTask, RawFile, encode_all
from cclm.data.filtering import Findings, Rules, Scanned, evaluation_digests, refuse_empty_sets, scan_language
from cclm.data.prepared import Prepared
from cclm.data.subwords import Subwords, piece_counts, subwords_of
from cclm.data.texts import Texts
from cclm.data.vocabulary import Segmenter, SubwordModel, Vocabulary, segmenter_of
from cclm.data.workers import Workers
from cclm.errors import DataError
from cclm.formats.base import FileFacts, parse_json, sha256
from cclm.formats.prepared import MadeFrom, Manifest, Settings, SplitCounts, added_files, write_counts
from cclm.phrasebook import CORPUS_VERSION
from cclm.progress_bar import Progress
from cclm.recipe.model import ModelSection
from cclm.recipe.schema import DataSection, VocabularySection


@dataclass(frozen=True)
class Plan:
    """The sections of a recipe that prepared data depends on."""

    data: DataSection
    vocabulary: VocabularySection
    model: ModelSection = field(default_factory=ModelSection)
    """Decides the subwords if it is a pretrained one."""

    @cached_property
    def subwords(self) -> Subwords:
        """Where the subwords come from."""
        return subwords_of(self.data, self.vocabulary, self.model)

    def settings(self) -> Settings:
        """The settings that determine the result. The path is not one of them, so text can be moved."""
        data = self.data.model_dump(mode="json", exclude={"path", "direction"})
        return Settings(data=data, vocabulary=self.subwords.settings())


class Preparation:
    """Prepares the data of a plan into a folder, or finds it there. Input files are hashed at most once."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan, self.folder = plan, folder
        self._texts = Texts(plan.data)

    def without(self, split: str) -> list[str]:
        """The languages that have no text for a split, and none that is cut off for it."""
        return [lang for lang in self.plan.data.languages if split not in self._texts.splits(lang)]

    def existing(self, folder: Path | None = None) -> Prepared | None:
        """The prepared data in the folder, by default its own, if it matches the plan and is undamaged."""
        folder = folder or Path(os.path.realpath(self.folder))
        restore(folder)
        try:
            manifest = Manifest.read(folder / "manifest.json")
        except DataError:
            return None  # missing, damaged, or of another version
        if manifest.made_from.settings != self.plan.settings() or manifest.made_from != self.made_from:
            return None
        try:
            return Prepared.open(folder)
        except DataError:
            return None

    def make(
        self, folder: Path | None = None, *, workers: int | None = None, progress: Progress = lambda stage, pairs: None
    ) -> Prepared:
        """Prepares the data into the folder, by default its own, replacing earlier prepared data."""
        folder = folder or self.folder
        try:
            self.check_folder()
            _refuse_added_files(folder)
            made_from = self.made_from
            with atomic_folder(folder, is_ours=_is_prepared) as staging, Workers(workers) as pool:
                _Builder(staging, self.plan, self._texts, pool, progress).build(made_from)
                self._refuse_changed_text(made_from)
        except OSError as error:
            raise DataError(f"{error.filename or folder}: {error.strerror or error}") from None
        return Prepared.open(folder, verify=False)

    def check_folder(self) -> None:
        """Raises an error if the folder has other content or contains the input text: both would be replaced."""
        refuse_foreign(self.folder, _is_prepared)
        folder = os.path.realpath(self.folder)
        for paths in self._texts.inputs().values():
            for path in paths:
                if os.path.commonpath([folder, os.path.realpath(path)]) == folder:
                    raise DataError(
                        f"{path}: this text is inside {self.folder}, which `cclm prepare` would replace; change work"
                    )

    def _refuse_changed_text(self, made_from: MadeFrom) -> None:
        """Raises DataError if a file is no longer what it was when its checksum was computed: it is read later, so that
        the prepared data may have been made from other text than they say."""
        for use, files in self._inputs().items():
            for path, checksum in files:
                if checksum not in made_from.inputs.get(use, ()):
                    raise DataError(f"{path}: was changed while it was read; run the same command again")

    def _inputs(self) -> dict[str, list[tuple[Path, str]]]:
        """The input files and their checksums, by their use."""
        return {use: [(path, sha256(path)) for path in paths] for use, paths in self._texts.inputs().items()}

    @cached_property
    def made_from(self) -> MadeFrom:
        """Everything that determines the result: settings, the content of the text, and program versions."""
        # Files are identified by content, so that they can be moved. A dataset on the hub has no local files.
        try:
            inputs = {use: [checksum for _, checksum in files] for use, files in self._inputs().items()}
            pretrained = self.plan.subwords.inputs()
        except OSError as error:
            raise DataError(f"{error.filename}: {error.strerror or error}") from None
        return MadeFrom(
            settings=self.plan.settings(),
            inputs=inputs | ({"pretrained": pretrained} if pretrained else {}),
            path=None if any(inputs.values()) else self.plan.data.path,
            cclm=CORPUS_VERSION if self.plan.data.format == "phrasebook" else None,
            sentencepiece=sentencepiece.__version__,
        )


def prepare(
    plan: Plan, folder: Path, *, workers: int | None = None, progress: Progress = lambda stage, pairs: None
) -> Prepared:
    """The prepared data of the plan. It is prepared only if the folder does not have it already."""
    preparation = Preparation(plan, folder)
    try:
        preparation.check_folder()
        existing = preparation.existing()
    except OSError as error:
        raise DataError(f"{error.filename or folder}: {error.strerror or error}") from None
    return existing or preparation.make(workers=workers, progress=progress)


def differing_text(before: MadeFrom, now: MadeFrom) -> list[str]:
    """The input files that differ, by their use (`aze.train`), and the versions that do; none for other settings."""
    if before.settings != now.settings:
        return []
    uses = sorted(before.inputs.keys() | now.inputs.keys())
    changed = [use for use in uses if before.inputs.get(use) != now.inputs.get(use)]
    versions = {name: (getattr(before, name), getattr(now, name)) for name in ("path", "cclm", "sentencepiece")}
    return changed + [f"{name} ({old} -> {new})" for name, (old, new) in versions.items() if old != new]


def _refuse_added_files(folder: Path) -> None:
    """Raises DataError if a user has put files into prepared data that is about to be replaced."""
    if added := added_files(folder):
        raise DataError(
            f"{added[0]}: was not made by cclm, and would be removed with the data in {folder}, which is to be made"
            " again; nothing was changed: move it"
        )


def _is_prepared(folder: Path) -> bool:
    """Whether the folder is prepared data, judged by its manifest alone: it may be damaged or of another version."""
    try:
        manifest = parse_json((folder / "manifest.json").read_bytes(), "manifest.json", "")
    except (OSError, DataError):
        return False
    return isinstance(manifest, dict) and {"version", "fingerprint", "made_from", "files"} <= set(manifest)


@dataclass(frozen=True)
class _Builder:
    """Writes prepared data into an empty folder."""

    staging: Path
    plan: Plan
    texts: Texts
    pool: Workers
    progress: Progress

    def build(self, made_from: MadeFrom) -> None:
        """Reads the text twice: first to check it and to learn subwords, then to encode it."""
        languages = self.plan.data.languages
        refuse_empty_sets(self.texts, languages)  # before any training text is read
        rules = Rules(self.plan.data, evaluation_digests(self.texts, languages))
        scans = {lang: scan_language(self.texts, lang, rules, self.pool, self.progress) for lang in languages}
        drops_leaked = self.plan.data.leakage == "drop"
        rules = replace(rules, thorough=False, leaked=rules.leaked if drops_leaked else frozenset())
        kept = {lang: scan.findings["train"].kept for lang, scan in scans.items()}
        models = self.plan.subwords.models(self.staging / "models", rules, kept, self.pool, self.progress)
        encoded = _Encoded(models, *self._encode_all(rules, scans, models))
        vocabularies = self.plan.subwords.vocabularies(encoded.others(), encoded.pivots(self.plan.data.pivot))
        sizes = self._write_ids(encoded, vocabularies)
        write_counts(self.staging / "counts.json", encoded.piece_counts())
        for name, vocabulary in vocabularies.items():
            (self.staging / f"{name}.json").write_text(vocabulary.file().text(), encoding="utf-8")
        self._write_manifest(made_from, sizes, scans, encoded, vocabularies)

    def _encode_all(
        self, rules: Rules, scans: dict[str, Scanned], models: dict[str, SubwordModel]
    ) -> tuple[dict[str, dict[str, RawFile]], dict[str, dict[str, Counter[str]]]]:
        splits = {lang: list(scanned.findings) for lang, scanned in scans.items()}
        pieces = {name: len(segmenter_of(model).pieces) for name, model in models.items()}
        pivot = self.plan.data.pivot
        raw = {
            lang: {split: RawFile(self.staging / lang / split, pieces[lang], pieces[pivot]) for split in own}
            for lang, own in splits.items()
        }
        drops: dict[str, dict[str, Counter[str]]] = {
            lang: {split: Counter() for split in own} for lang, own in splits.items()
        }
        tasks = (
            EncodingTask(chunk, lang, split, rules, models[lang], models[pivot])
            for lang, own in splits.items()
            for split in own
            for chunk in self.texts.chunks(lang, split)
        )
        for (lang, split), chunks in encode_all(tasks, self.pool):
            drop = self.plan.data.duplicates == "drop" and split == "train"
            repeats = DuplicateFilter(scans[lang].repeated) if drop else None
            raw[lang][split].write(self._counted(chunks, repeats, drops[lang][split]))
        return raw, drops

    def _counted(
        self, chunks: Iterator[Encoded], repeats: DuplicateFilter | None, drops: Counter[str]
    ) -> Iterator[Encoded]:
        for chunk in chunks:
            kept = repeats.drop(chunk) if repeats else chunk
            drops.update(kept.drops)
            self.progress("encoding", chunk.pairs)
            yield kept

    def _write_ids(self, encoded: "_Encoded", vocabularies: dict[str, Vocabulary]) -> dict[str, dict[str, int]]:
        """Writes the token files with vocabulary ids; returns the number of pairs per language and split."""
        other = vocabularies.get("other") or vocabularies["vocabulary"]
        pivot = vocabularies.get("pivot") or vocabularies["vocabulary"]
        dtype = np.uint16 if max(len(other), len(pivot)) <= 1 << 16 else np.uint32
        pivot_table = self.plan.subwords.table(pivot, encoded.models[self.plan.data.pivot])
        sizes: dict[str, dict[str, int]] = {}
        for lang, splits in encoded.raw.items():
            other_table = self.plan.subwords.table(other, encoded.models[lang])
            sizes[lang] = {
                split: file.finish(self.staging / lang / split, other_table, pivot_table, dtype)
                for split, file in splits.items()
            }
            if not sizes[lang]["train"]:
                raise DataError(f"no training text of {lang} is left: `cclm doctor` shows the reasons")
        return sizes

    def _write_manifest(
        self,
        made_from: MadeFrom,
        sizes: dict[str, dict[str, int]],
        scans: dict[str, Scanned],
        encoded: "_Encoded",
        vocabularies: dict[str, Vocabulary],
    ) -> None:
        paths = sorted(path for path in self.staging.rglob("*") if path.is_file())
        facts = {path.relative_to(self.staging).as_posix(): FileFacts.of(path) for path in paths}
        texts = {name: file for name, file in facts.items() if name.endswith(".tsv")}
        files = {name: file for name, file in facts.items() if name not in texts}
        manifest = Manifest(
            fingerprint=Manifest.fingerprint_of(made_from, files),
            settings=made_from.settings,
            sizes=sizes,
            vocabularies={name: len(vocabulary) for name, vocabulary in vocabularies.items()},
            pieces={
                path.stem: len(Segmenter(path).pieces) for path in sorted((self.staging / "models").glob("*.model"))
            },
            counts={
                lang: {split: _counts(found, encoded.drops[lang][split]) for split, found in scan.findings.items()}
                for lang, scan in scans.items()
            },
            made_from=made_from,
            files=files,
            texts=texts,
        )
        (self.staging / "manifest.json").write_text(manifest.text(), encoding="utf-8")


@dataclass(frozen=True)
class _Encoded:
    """The corpus as ids of the SentencePiece models, before the vocabularies are known."""

    models: dict[str, SubwordModel]
    raw: dict[str, dict[str, RawFile]]
    drops: dict[str, dict[str, Counter[str]]]

    def others(self) -> dict[str, dict[str, int]]:
        """The count of every piece in the training text of each language."""
        return piece_counts(
            self.models, list(self.raw), {lang: s["train"].other_counts for lang, s in self.raw.items()}
        )

    def pivots(self, pivot: str) -> dict[str, dict[str, int]]:
        """The same for the pivot side of each language."""
        counts = {lang: splits["train"].pivot_counts for lang, splits in self.raw.items()}
        return piece_counts(self.models, list(self.raw), counts, model_of=pivot)

    def piece_counts(self) -> dict[str, dict[str, int]]:
        """The count of each piece in the training text of each language, without pieces that do not occur."""
        return {
            lang: {piece: count for piece, count in table.items() if count and piece}
            for lang, table in self.others().items()
        }


def _counts(found: Findings, drops: Counter[str]) -> SplitCounts:
    """The counts for the manifest. Pairs that were dropped while reading count as dropped."""
    return SplitCounts(pairs=found.pairs, dropped=dict(sorted(drops.items())), noted=dict(sorted(found.notes.items())))
