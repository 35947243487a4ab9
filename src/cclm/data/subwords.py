"""Where the subwords of prepared data come from: learnt from the text, or those of the model that training starts from.

A pretrained model has a tokenizer, and ids of its own. A run of ours has SentencePiece models and vocabularies: for
languages that it does not know, models are learnt, and the vocabularies grow.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from cclm.data.filtering import Rules
from cclm.data.model_tokenizer import Code, ModelTokenizer, TokenizerSide, codes_of, most_similar
from cclm.data.prepared import Prepared
from cclm.data.pretrained import PretrainedFolder, find_pretrained, is_run
from cclm.data.vocabulary import Segmenter, SubwordModel, Vocabulary, learn_models, segmenter_of
from cclm.data.work_folder import WorkFolder
from cclm.data.workers import Workers
from cclm.errors import ConfigError, DataError
from cclm.formats.checkpoint import MODEL
from cclm.formats.run import MADE_FROM, MadeFrom
from cclm.formats.run_folder import best_of, weights_of, work_of
from cclm.progress_bar import Progress
from cclm.recipe.model import ModelSection
from cclm.recipe.schema import DataSection, VocabularySection

PieceCounts = dict[str, dict[str, int]]
"""The count of each piece by language."""
MOST_UNKNOWN = 0.2
"""The largest share of unknown subwords in the training text of a language that a tokenizer can be said to know."""
SIMILAR = 8000
"""The most frequent subwords by which the most similar language is chosen."""


class Subwords(Protocol):
    """The subwords of a recipe."""

    def settings(self) -> dict[str, JsonValue]:
        """The settings that decide them, as a part of the settings of prepared data."""

    def inputs(self) -> list[str]:
        """Checksums of the files that they come from."""

    def models(
        self, folder: Path, rules: Rules, sizes: dict[str, int], workers: Workers, progress: Progress
    ) -> dict[str, SubwordModel]:
        """Writes the models that split text into the folder; returns the model of each language."""

    def vocabularies(self, others: PieceCounts, pivots: PieceCounts) -> dict[str, Vocabulary]:
        """The vocabularies, given the counts of the pieces in the training text of each language."""

    def table(self, vocabulary: Vocabulary, model: SubwordModel) -> NDArray[np.uint32]:
        """Maps ids of the model to ids of the vocabulary."""


def subwords_of(data: DataSection, vocabulary: VocabularySection, model: ModelSection) -> Subwords:
    """The subwords that a recipe asks for."""
    if model.pretrained is None:
        return LearntSubwords(data, vocabulary)
    if is_run(model.pretrained):
        return SubwordsOfRun(data, vocabulary, Path(model.pretrained))
    return PretrainedSubwords(data, model)


@dataclass(frozen=True)
class LearntSubwords:
    """One SentencePiece model per language, or one for all, and one vocabulary per side."""

    data: DataSection
    vocabulary: VocabularySection

    def settings(self) -> dict[str, JsonValue]:
        """The section of the recipe."""
        return self.vocabulary.model_dump(mode="json")

    def inputs(self) -> list[str]:
        """Empty, because these subwords come from the text alone."""
        return []

    def models(
        self, folder: Path, rules: Rules, sizes: dict[str, int], workers: Workers, progress: Progress
    ) -> dict[str, SubwordModel]:
        """Learns all models."""
        return {**learn_models(folder, self.vocabulary, rules, sizes, workers, progress)}

    def vocabularies(self, others: PieceCounts, pivots: PieceCounts) -> dict[str, Vocabulary]:
        """The vocabulary of each side: the union of the pieces of its models."""
        languages = (*self.data.languages, self.data.pivot)
        if self.vocabulary.joint:
            return {"vocabulary": Vocabulary.join([*others.values(), *pivots.values()], languages)}
        return {
            "other": Vocabulary.join(others.values(), languages),
            "pivot": Vocabulary.join(pivots.values(), languages),
        }

    def table(self, vocabulary: Vocabulary, model: SubwordModel) -> NDArray[np.uint32]:
        """Maps ids by their pieces."""
        assert isinstance(model, Path)
        return vocabulary.table(Segmenter(model))


@dataclass(frozen=True)
class PretrainedSubwords:
    """The tokenizer of a pretrained model; ids are the model's own."""

    data: DataSection
    model: ModelSection

    @cached_property
    def folder(self) -> PretrainedFolder:
        """The folder of the pretrained model."""
        return find_pretrained(str(self.model.pretrained))

    @cached_property
    def tokenizer(self) -> ModelTokenizer:
        """Its tokenizer."""
        return ModelTokenizer(self.folder.path)

    @cached_property
    def codes(self) -> dict[str, Code]:
        """The code of every language that needs one."""
        if self.tokenizer.kind != "marian":
            languages = (*self.data.languages, self.data.pivot)
        else:
            self._refuse_for_marian()
            to_pivot = self.data.direction == "many-to-one"
            languages = (self.data.pivot,) if to_pivot else self.data.languages
            if to_pivot and not self.tokenizer.codes:
                return {}
        return codes_of(self.tokenizer, languages, self.model.codes or {})

    def _refuse_for_marian(self) -> None:
        if self.data.direction == "many-to-many":
            raise ConfigError(
                f"model.pretrained {self.folder.name}: Marian has other subwords on each side, so that it cannot"
                " be trained with data.direction many-to-many; use many-to-one or one-to-many"
            )
        if self.data.direction == "one-to-many" and not self.tokenizer.codes and len(self.data.languages) > 1:
            raise ConfigError(
                f"model.pretrained {self.folder.name}: its tokenizer has no codes of target languages, so that it"
                f" translates into one language alone, and data has {', '.join(self.data.languages)}"
            )

    def settings(self) -> dict[str, JsonValue]:
        """The size of the vocabulary and the codes; for Marian, whose subwords differ by side, also the direction."""
        codes: dict[str, JsonValue] = {lang: code.symbol for lang, code in self.codes.items()}
        found: dict[str, JsonValue] = {"joint": True, "pieces": self.folder.symbols, "codes": codes}
        return found | ({"direction": self.data.direction} if self.tokenizer.kind == "marian" else {})

    def inputs(self) -> list[str]:
        """The model's files, weights included: a run is not continued from other weights."""
        return self.folder.checksums()

    def models(
        self, folder: Path, rules: Rules, sizes: dict[str, int], workers: Workers, progress: Progress
    ) -> dict[str, SubwordModel]:
        """Copies the files of the tokenizer: translation later needs no other."""
        copied = folder / "tokenizer"
        copied.mkdir(parents=True)
        for path in self.folder.tokenizer_files:
            shutil.copyfile(path, copied / path.name)
        to_pivot = self.data.direction == "many-to-one"
        sides = {target: TokenizerSide(copied, target) for target in (False, True)}
        return {**{lang: sides[not to_pivot] for lang in sizes}, self.data.pivot: sides[to_pivot]}

    def vocabularies(self, others: PieceCounts, pivots: PieceCounts) -> dict[str, Vocabulary]:
        """All symbols of the model, then new language codes."""
        self._refuse_unknown_text(others)
        counts: dict[str, int] = {}
        for table in (*others.values(), *pivots.values()):
            for piece, count in table.items():
                counts[piece] = counts.get(piece, 0) + count
        of_pivot: dict[str, int] = {}
        for table in pivots.values():
            for piece, count in table.items():
                of_pivot[piece] = of_pivot.get(piece, 0) + count
        new = self._starting_points({**others, self.data.pivot: of_pivot})
        symbols = (*self.tokenizer.symbols, *new)
        tags = {lang: code.id for lang, code in self.codes.items()}
        layout = self.tokenizer.layout(self.folder.config, new)
        made = Vocabulary(symbols, tags, tuple(counts.get(symbol, 0) for symbol in symbols), layout)
        return {"vocabulary": made}

    def _starting_points(self, counts: PieceCounts) -> dict[str, str]:
        """The known code that each new one starts from: of the most similar language of the recipe."""
        known = {lang: code for lang, code in self.codes.items() if not code.is_new}
        others = [lang for lang in known if lang != self.data.pivot]
        seen = {lang: {p: n for p, n in table.items() if p and n} for lang, table in counts.items()}
        found = {}
        for lang, code in self.codes.items():
            if code.is_new:
                nearest = most_similar(lang, seen, others or list(known), SIMILAR)
                found[code.symbol] = known[nearest].symbol if nearest else ""
        return found

    def _refuse_unknown_text(self, others: PieceCounts) -> None:
        for lang, counts in others.items():
            total, unknown = sum(counts.values()), counts.get("", 0)
            if total and unknown / total > MOST_UNKNOWN:
                raise DataError(
                    f"model.pretrained {self.folder.name}: {unknown / total:.0%} of the subwords in the training"
                    f" text of {lang} are unknown to its tokenizer, which does not know that language or its script;"
                    " take another model, or leave the language out"
                )

    def table(self, vocabulary: Vocabulary, model: SubwordModel) -> NDArray[np.uint32]:
        """The identity, because the ids of the tokenizer are those of the vocabulary."""
        return np.arange(len(self.tokenizer.symbols), dtype=np.uint32)


@dataclass(frozen=True)
class SubwordsOfRun:
    """The subwords of a finished run of ours, and new ones for the languages that it does not know."""

    data: DataSection
    vocabulary: VocabularySection
    run: Path

    @cached_property
    def before(self) -> Prepared:
        """The data that the run was trained on."""
        made = MadeFrom.find(self.run / MADE_FROM)
        return WorkFolder(work_of(self.run)).data_of_run(self.run, made.data if made else None)

    @property
    def new(self) -> list[str]:
        """The languages that the run does not know."""
        return [lang for lang in self.data.languages if lang not in self.before.languages]

    def settings(self) -> dict[str, JsonValue]:
        """As in the run; new languages have subwords of the size that this recipe asks for."""
        found: dict[str, JsonValue] = {**self.before.manifest.settings.vocabulary}
        new: list[JsonValue] = [*self.new]
        return found | {"new": new, "new_pieces": self.vocabulary.pieces}

    def inputs(self) -> list[str]:
        """The run's data and its best weights."""
        if self.before.pivot.layout:
            raise ConfigError(
                f"model.pretrained {self.run}: that run started from a pretrained model itself, which cannot be done"
                " twice; start from that model"
            )
        pivot = self.before.manifest.settings.data.get("pivot")
        if pivot != self.data.pivot:
            raise ConfigError(f"model.pretrained {self.run}: its pivot is {pivot}, that of data {self.data.pivot}")
        return [self.before.fingerprint, weights_of(best_of(self.run), MODEL)]

    def models(
        self, folder: Path, rules: Rules, sizes: dict[str, int], workers: Workers, progress: Progress
    ) -> dict[str, SubwordModel]:
        """The models of the run, and one per new language."""
        alone = self.vocabulary.model_copy(update={"joint": False})
        new = {lang: size for lang, size in sizes.items() if lang in self.new}
        learnt = learn_models(folder, alone, rules, new, workers, progress) if new else {}
        folder.mkdir(exist_ok=True)
        (folder / f"{self.data.pivot}.model").unlink(missing_ok=True)  # the pivot keeps the model of the run
        for path in sorted((self.before.folder / "models").iterdir()):
            shutil.copyfile(path, folder / path.name)
        known = {lang: folder / self.before.model_file(lang) for lang in (*sizes, self.data.pivot) if lang not in new}
        return {**{lang: learnt[lang] for lang in new}, **known}

    def vocabularies(self, others: PieceCounts, pivots: PieceCounts) -> dict[str, Vocabulary]:
        """The vocabularies of the run, with the tags and pieces of new languages at the end."""
        languages = (*self.before.other.tags, *self.new)
        new = [others[lang] for lang in self.new]
        if self.before.joint:
            return {"vocabulary": self.before.other.grown(new, languages)}
        return {"other": self.before.other.grown(new, languages), "pivot": self.before.pivot.grown([], languages)}

    def table(self, vocabulary: Vocabulary, model: SubwordModel) -> NDArray[np.uint32]:
        """Maps ids by their pieces."""
        assert isinstance(model, Path)
        return vocabulary.table(Segmenter(model))


def piece_counts(models: Mapping[str, SubwordModel], languages: Sequence[str], counts: Mapping[str, NDArray[np.int64]],
                 model_of: str | None = None) -> PieceCounts:  # fmt: skip
    """The count of every piece of each language, by the ids of its model or of that of `model_of`."""
    found = {}
    for lang in languages:
        pieces = segmenter_of(models[model_of or lang]).pieces
        table: dict[str, int] = {}
        for piece, count in zip(pieces, counts[lang].tolist(), strict=True):
            table[piece] = table.get(piece, 0) + count
        found[lang] = table
    return found
