"""Text in, text out: an exported model with its subwords and its beam search."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Literal

from cclm.data.cleaning import clean
from cclm.data.prepared import Prepared
from cclm.data.vocabulary import Segmenter
from cclm.data.workers import available_cores, chunked
from cclm.errors import ConfigError, DataError
from cclm.formats.base import sha256
from cclm.formats.export import MANIFEST, Export, Pair
from cclm.formats.run import MADE_FROM, MadeFrom
from cclm.recipe.language_codes import canonical
from cclm.training.directory import best_of, is_bitext, recipe_of, weights_of
from cclm.training.lock import Lock, announce
from cclm.translation.translator import POSITIONS, Translator

CHUNK = 2048
"""Texts per chunk. Two chunks are in memory: one is translated while the next is read."""


class UnknownPair(ConfigError):
    """A pair of languages that a model does not translate; the message lists the pairs that it knows."""


class Model:
    """A trained model, to translate with.

    model = cclm.load("work/phrasebook/runs/phrasebook")
    model.translate(["Bu mənim kitabımdır."], source="aze", target="eng")
    """

    def __init__(self, folder: Path, *, beam: int, length_penalty: float, threads: int | None = None) -> None:
        manifest = Export.read(folder / MANIFEST)
        self.pairs = tuple(manifest.pairs)
        self._folder, self._beam, self._length_penalty = folder, beam, length_penalty
        self._threads = threads or available_cores()
        self._segmenters: dict[str, tuple[Segmenter, list[str]]] = {}
        self._reserved = manifest.reserved

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
        return out_of.model_copy(update={"source": into.source, "subwords": into.subwords, "zero_shot": True})

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
            chunks, pair.start, self._beam, self._length_penalty, progress=progress
        ):
            yield from map(self._decoded, targets)

    def _encoded(self, texts: Iterable[str], pair: Pair, cut: bool, what: str) -> Iterator[list[list[str]]]:
        segmenter, symbols = self._segmenter(pair.subwords)
        before = [] if pair.tag is None else [pair.tag]
        most = POSITIONS - 1 - len(before)  # and </s>
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

    def _segmenter(self, name: str) -> tuple[Segmenter, list[str]]:
        """A SentencePiece model, and the model's source symbol for each of its piece numbers."""
        if name not in self._segmenters:
            segmenter = Segmenter(self._folder / "subwords" / name)
            known = self._translator.source_symbols
            reserved = set(known[: self._reserved.source])
            # As in Vocabulary.join: a piece that looks like a reserved symbol is stored with a space after it.
            written = (piece + " " if piece in reserved else piece for piece in segmenter.pieces)
            table = set(known) - reserved
            self._segmenters[name] = segmenter, [symbol if symbol in table else "<unk>" for symbol in written]
        return self._segmenters[name]

    def _decoded(self, symbols: list[str]) -> str:
        text = "".join(symbol for symbol in symbols if symbol not in self._not_text)
        return text.replace(" ", "").replace("▁", " ").strip()

    @cached_property
    def _not_text(self) -> frozenset[str]:
        return frozenset(self._translator.target_symbols[: self._reserved.target])

    @cached_property
    def _translator(self) -> Translator:
        return Translator(self._folder / "model", self._threads)


Quantization = Literal["float32", "int8"]


def load(run: str | PathLike[str], *, quantization: Quantization = "float32", threads: int | None = None) -> Model:
    """The model of a run: text in, text out. More threads than cores are of no use and not started."""
    directory = Path(run)
    if threads is not None and threads > (cores := available_cores()):
        warnings.warn(f"{threads} threads are more than the {cores} cores: {cores} are used", stacklevel=2)
        threads = cores
    if is_bitext(directory):
        raise ConfigError(f"{run}: a folder of bitext models; give one of them, as in {directory / 'aze'}")
    settings = recipe_of(directory).translation
    folder = exported(directory, quantization)
    return Model(folder, beam=settings.beam, length_penalty=settings.length_penalty, threads=threads)


def exported(run: Path, quantization: Quantization = "float32") -> Path:
    """The folder of the exported model. It is made if it is missing, damaged or of another checkpoint.

    Another process that exports it is waited for.
    """
    folder = run / "ctranslate2" / quantization
    if _is_current(folder, weights_of(best_of(run))):
        return folder
    from cclm.translation.export import export_checkpoint  # imports torch: only when something is exported

    exact = exported(run) if quantization == "int8" else None
    with Lock(folder, file=folder.with_name(f".{quantization}.lock"), wait=announce):
        best = best_of(run)
        if not _is_current(folder, weights_of(best)):
            export_checkpoint(run, best, folder, exact=exact)
    return folder


def _is_current(folder: Path, weights: str) -> bool:
    """Whether the folder holds an undamaged export of these weights."""
    manifest = Export.find(folder / MANIFEST)
    if manifest is None or manifest.weights != weights:
        return False
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
