"""Text in, text out: an exported model with its subwords and its beam search."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Literal

from cclm.data.cleaning import clean
from cclm.data.model_tokenizer import ModelTokenizer
from cclm.data.prepared import Prepared
from cclm.data.vocabulary import Segmenter
from cclm.data.workers import available_cores, chunked
from cclm.errors import ConfigError, DataError
from cclm.formats.base import sha256
from cclm.formats.export import MANIFEST, Export, Pair, Search
from cclm.formats.run import MADE_FROM, MadeFrom
from cclm.formats.run_folder import best_of, is_bitext, weights_of
from cclm.messages import announce
from cclm.recipe.language_codes import canonical
from cclm.recipe.schema import Recipe
from cclm.training.lock import Lock
from cclm.training.run_inputs import recipe_of
from cclm.translation.translator import VOCABULARY_MAP, Translator

CHUNK = 2048
"""Texts per chunk. Two chunks are in memory: one is translated while the next is read."""


class UnknownPair(ConfigError):
    """A pair of languages that a model does not translate; the message lists the pairs that it knows."""


@dataclass(frozen=True)
class Hypothesis:
    """A translation with its score: log-probability over length to the power of the length penalty; 0 is the best."""

    text: str
    score: float


class Model:
    """A trained model, to translate with.

    model = cclm.load("work/phrasebook/runs/phrasebook")
    model.translate(["Bu mənim kitabımdır."], source="aze", target="eng")
    """

    def __init__(
        self, folder: Path, *, beam: int, length_penalty: float, restrict: bool = False, threads: int | None = None
    ) -> None:
        manifest = Export.read(folder / MANIFEST)
        self.pairs = tuple(manifest.pairs)
        self.beam = beam
        self._folder, self._length_penalty, self._restrict = folder, length_penalty, restrict
        self._threads = threads or available_cores()
        self._segmenters: dict[str, tuple[Segmenter | ModelTokenizer, list[str]]] = {}
        self._reserved, self._positions = manifest.reserved, manifest.positions

    def translate(self, texts: Sequence[str], source: str | None = None, target: str | None = None) -> list[str]:
        """The translation of each text, in their order; a language may be left out where there is only one."""
        if isinstance(texts, str):
            raise TypeError("translate takes a list of texts; got one text")
        return list(self.stream(texts, self.pair(source, target)))

    def pair(self, source: str | None = None, target: str | None = None) -> Pair:
        """The one pair with this source and target, under any spelling of their codes: "az" is "aze"."""
        fitting = self.pairs
        for side, code in (("source", source), ("target", target)):
            if code is not None:
                exact = [pair for pair in fitting if getattr(pair, side) == code]
                fitting = tuple(
                    exact or [pair for pair in fitting if canonical(getattr(pair, side)) == canonical(code)]
                )
        if len(fitting) == 1:
            return fitting[0]
        if not fitting and (pair := self._zero_shot(source, target)):
            return pair
        known = ", ".join(f"{pair.source}-{pair.target}" for pair in fitting or self.pairs)
        asked = f"{source or 'any language'} to {target or 'any language'}"
        if fitting:
            raise UnknownPair(f"from {asked} there are {known}: say which")
        raise UnknownPair(f"this model does not translate from {asked}; it translates {known}")

    def _zero_shot(self, source: str | None, target: str | None) -> Pair | None:
        """A pair that was not trained, of a language that is translated into the pivot and one translated from it."""
        if source is None or target is None:
            return None
        into = next((pair for pair in self.pairs if canonical(pair.source) == canonical(source)), None)
        out_of = next((pair for pair in self.pairs if canonical(pair.target) == canonical(target)), None)
        if into is None or out_of is None or into.target != out_of.source or into.source == out_of.target:
            return None
        tag = into.tag if into.own_tag else out_of.tag
        return out_of.model_copy(
            update={"source": into.source, "subwords": into.subwords, "tag": tag, "zero_shot": True}
        )

    def stream(
        self,
        texts: Iterable[str],
        pair: Pair,
        *,
        cut: bool = False,
        what: str = "text",
        progress: Callable[[int], object] | None = None,
    ) -> Iterator[str]:
        """Yields the translations in order, as soon as they are done; memory does not grow with their number.

        A text with more subwords than the model has positions is refused, or truncated if `cut`. `what` is the word
        before the number of such a text in the message.
        """
        chunks = self._encoded(texts, pair, cut, what)
        for targets in self._translator.translate_chunks(
            chunks, pair.start, self.beam, self._length_penalty, progress=progress
        ):
            yield from (self._decoded(symbols, pair) for symbols in targets)

    def encode(self, texts: Iterable[str], pair: Pair, *, what: str = "text") -> list[list[str]]:
        """The symbols of each text, as `n_best` takes them. Too long a text is refused as by `stream`."""
        return [symbols for chunk in self._encoded(texts, pair, False, what) for symbols in chunk]

    def n_best(self, encoded: list[list[str]], pair: Pair, count: int = 1) -> list[list[Hypothesis]]:
        """The `count` best translations of each encoded text, the best first; an empty text has none."""
        found = self._translator.n_best(encoded, pair.start, self.beam, self._length_penalty, count)
        return [[Hypothesis(self._decoded(symbols, pair), score) for symbols, score in targets] for targets in found]

    def _encoded(self, texts: Iterable[str], pair: Pair, cut: bool, what: str) -> Iterator[list[list[str]]]:
        segmenter, symbols = self._segmenter(pair.subwords)
        before = [] if pair.tag is None else [pair.tag]
        most = self._positions - 1 - len(before)  # and </s>
        first = 1
        for chunk in chunked(texts, CHUNK):
            numbers = segmenter.encode([clean(text)[0] for text in chunk])
            for index, text in enumerate(numbers, first):
                if len(text) > most and not cut:
                    raise DataError(
                        f"{what} {index}: {len(text):,} subwords; the model takes at most {most:,}:"
                        " divide it into sentences"
                    )
            yield [[*before, *(symbols[number] for number in text)] if text else [] for text in numbers]
            first += len(chunk)

    def _segmenter(self, name: str) -> tuple[Segmenter | ModelTokenizer, list[str]]:
        """What splits text, and the model's source symbol for each of its piece numbers."""
        if name not in self._segmenters:
            self._segmenters[name] = self._load_segmenter(self._folder / "subwords" / name)
        return self._segmenters[name]

    def _load_segmenter(self, path: Path) -> tuple[Segmenter | ModelTokenizer, list[str]]:
        if path.is_dir():
            tokenizer = ModelTokenizer(path)
            return tokenizer, tokenizer.symbols
        segmenter = Segmenter(path)
        known = self._translator.source_symbols
        reserved = {*known[: self._reserved.source], *self._tags}
        # As in Vocabulary.join: a piece that looks like a reserved symbol is stored with a space after it.
        written = (piece + " " if piece in reserved else piece for piece in segmenter.pieces)
        table = set(known) - reserved
        return segmenter, [symbol if symbol in table else "<unk>" for symbol in written]

    def _decoded(self, symbols: list[str], pair: Pair) -> str:
        segmenter, _ = self._segmenter(pair.subwords)
        if isinstance(segmenter, ModelTokenizer):
            return segmenter.text(symbols)
        text = "".join(symbol for symbol in symbols if symbol not in self._not_text)
        return text.replace(" ", "").replace("▁", " ").strip()

    @property
    def _tags(self) -> set[str]:
        """The tags of the pairs: those of languages that were added later are not among the first symbols."""
        return {symbol for pair in self.pairs for symbol in (pair.tag, pair.start) if symbol}

    @cached_property
    def _not_text(self) -> frozenset[str]:
        return frozenset({*self._translator.target_symbols[: self._reserved.target], *self._tags})

    @cached_property
    def _translator(self) -> Translator:
        return Translator(
            self._folder / "model", self._threads, positions=self._positions, restrict=self._restrict, device="auto"
        )


Quantization = Literal["float32", "int8"]


def load(run: str | PathLike[str], *, quantization: Quantization | None = None, threads: int | None = None) -> Model:
    """The model of a run, or of a folder that `cclm export --to ctranslate2` wrote: text in, text out.

    A run's model is float32 unless `quantization` says otherwise; an export is what it was exported as. More threads
    than cores are of no use and not started.
    """
    directory = Path(run)
    if threads is not None and threads > (cores := available_cores()):
        warnings.warn(f"{threads} threads are more than the {cores} cores: {cores} are used", stacklevel=2)
        threads = cores
    if (directory / MANIFEST).is_file():
        return _open_export(directory, quantization, threads)
    if is_bitext(directory):
        raise ConfigError(f"{run}: a folder of bitext models; give one of them, as in {directory / 'aze'}")
    recipe = recipe_of(directory)
    folder = exported(directory, quantization or "float32", restrict=recipe.restricts)
    return _model(folder, search_of(recipe), threads)


def search_of(recipe: Recipe) -> Search:
    """The settings of a recipe that translations are searched with."""
    settings = recipe.translation
    return Search(beam=settings.beam, length_penalty=settings.length_penalty, restrict=recipe.restricts)


def _open_export(folder: Path, quantization: Quantization | None, threads: int | None) -> Model:
    manifest = Export.read(folder / MANIFEST)
    if manifest.search is None or manifest.to != "ctranslate2":
        raise ConfigError(f"{folder}: cclm translates with a run, or with what `cclm export --to ctranslate2` wrote")
    if quantization not in (None, manifest.quantization):
        raise ConfigError(f"{folder}: exported as {manifest.quantization}, not {quantization}; export the run again")
    if not _is_intact(folder, manifest):
        raise DataError(f"{folder}: a file of the model is missing or damaged; export the run again")
    return _model(folder, manifest.search, threads)


def _model(folder: Path, search: Search, threads: int | None) -> Model:
    return Model(
        folder, beam=search.beam, length_penalty=search.length_penalty, restrict=search.restrict, threads=threads
    )


def exported(run: Path, quantization: Quantization = "float32", *, restrict: bool = False) -> Path:
    """The folder of the exported model. It is made if it is missing, damaged or of another checkpoint.

    So it is if translations are to be restricted and the export, of an earlier version, has no vocabulary map. Another
    process that exports it is waited for.
    """
    folder = run / "ctranslate2" / quantization
    if _is_current(folder, weights_of(best_of(run)), restrict):
        return folder
    from cclm.translation.export import export_checkpoint  # imports torch: only when something is exported

    exact = exported(run) if quantization == "int8" else None
    with Lock(folder, file=folder.with_name(f".{quantization}.lock"), wait=announce):
        best = best_of(run)
        if not _is_current(folder, weights_of(best), restrict):
            export_checkpoint(run, best, folder, exact=exact)
    return folder


def _is_current(folder: Path, weights: str, restrict: bool) -> bool:
    """Whether the folder holds an undamaged export of these weights, with a vocabulary map if it is needed."""
    manifest = Export.find(folder / MANIFEST)
    if manifest is None or manifest.weights != weights:
        return False
    return not (restrict and f"model/{VOCABULARY_MAP}" not in manifest.files) and _is_intact(folder, manifest)


def _is_intact(folder: Path, manifest: Export) -> bool:
    try:
        # The size first: a truncated file is found without reading the whole model.
        return all(
            (folder / name).stat().st_size == file.bytes and sha256(folder / name) == file.sha256
            for name, file in manifest.files.items()
        )
    except (OSError, ValueError):  # ValueError: a name with a NUL
        return False


def refuse_other_data(run: Path, prepared: Prepared) -> None:
    """Refuses prepared data that a run was not trained on: its vocabularies and test sets are not the run's.

    The data of a single run is found by its fingerprint; this is for runs that are translated together, as one system.
    A folder without made_from.json was not written by a training and is not checked.
    """
    path = run / MADE_FROM
    trained_on = MadeFrom.read(path).data if path.exists() else None
    if trained_on not in (None, prepared.fingerprint):
        raise DataError(
            f"{run} was trained on data {str(trained_on)[:16]}, but {prepared.folder} holds data"
            f" {prepared.fingerprint[:16]}: train all runs of the folder on the same data"
        )
