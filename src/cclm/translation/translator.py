"""Beam search over an exported model, by CTranslate2: symbols in, symbols out."""

import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ctranslate2  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray

from cclm.errors import ConfigError, DataError
from cclm.formats.base import parse_json
from cclm.memory import keep_freed_memory

ADVICE = "delete its folder: the model is exported again"
END = "</s>"
VOCABULARY_MAP = "vmap.txt"
"""CTranslate2's name for the file that lists target symbols by source symbol."""
POSITIONS = 1024
"""Rows of the exported position table: the longest source, its </s> included, and the longest target."""
SHORT = 128
"""A source of at most this length gets a target of at most twice this length, so that an endless search stops early."""
Sample = tuple[Sequence[str], Sequence[str]]
"""A source ([tag] pieces) and a target (<s> or tag, then pieces), both without </s>."""


DEVICE = "CCLM_TRANSLATION_DEVICE"
"""The environment variable that overrides where `auto` translates: a run may be used on another machine."""
BATCH_TOKENS = {"cpu": 768, "cuda": 8192}
"""Source tokens per batch. A GPU is not busy with as few as a CPU; its number has not been measured."""


class ExportError(ValueError):
    """Weights that do not make a model, or an export that computes other numbers than the trained model."""


class Translator:
    """An exported CTranslate2 model. `threads` batches are translated in parallel; the output does not depend on it.

    `batch_tokens` limits the source tokens per batch, padding included. `compute` is CTranslate2's compute type:
    "float32" computes with quantised weights in full precision (int8 products overflow on processors without VNNI).
    With `restrict`, a target has only symbols that the model's vocabulary map lists for the tag of its source.
    `device` is `cpu`, `cuda` or `auto`: a GPU if CTranslate2 finds one.
    """

    def __init__(
        self,
        folder: Path,
        threads: int = 1,
        *,
        batch_tokens: int | None = None,
        compute: str = "default",
        positions: int = POSITIONS,
        restrict: bool = False,
        device: str = "cpu",
    ) -> None:
        device = device_for(device)
        batch_tokens = BATCH_TOKENS[device] if batch_tokens is None else batch_tokens
        if threads < 1 or batch_tokens < 1:
            raise ValueError(f"threads and batch_tokens must be at least 1; got {threads} and {batch_tokens}")
        if restrict and not (folder / VOCABULARY_MAP).is_file():  # CTranslate2 would translate without a restriction
            raise DataError(f"{folder}: no {VOCABULARY_MAP} to restrict translations with; {ADVICE}")
        self._restrict = restrict
        self.folder, self._positions = folder, positions
        self._threads, self._batch_tokens = threads, batch_tokens
        self.source_symbols, self.target_symbols = _symbols(folder, "source"), _symbols(folder, "target")
        self._source, self._target = frozenset(self.source_symbols), frozenset(self.target_symbols)
        keep_freed_memory()
        try:
            self._model = ctranslate2.Translator(
                str(folder), device=device, compute_type=compute, inter_threads=threads, intra_threads=1
            )
        except TypeError:
            raise DataError(f"{folder}: CTranslate2 opens paths in UTF-8 alone, and this is none; rename it") from None
        except (RuntimeError, ValueError, MemoryError) as error:
            if device == "cuda":
                raise DataError(
                    f"{folder}: CTranslate2 cannot use the GPU ({error}); CCLM_TRANSLATION_DEVICE=cpu in the"
                    " environment translates on the CPU"
                ) from None
            raise DataError(f"{folder}: not a CTranslate2 model ({error}); {ADVICE}") from None

    def translate_ids(
        self,
        sources: list[list[str]],
        prefix: str | None,
        beam: int,
        length_penalty: float,
        max_length: int | None = None,
        *,
        progress: Callable[[int], object] | None = None,
    ) -> list[list[str]]:
        """The best target of each source, in their order, without `prefix` and </s>; an empty source has an empty one.

        A source is `[tag] pieces`, without </s>; `prefix`, <s> or a language tag, is the first symbol of every target;
        None where the model has a first symbol of its own.
        `max_length` is by default twice SHORT, and for sources longer than SHORT as much as the model allows.
        `progress` is called after every batch with its number of sentences. A source that is longer than the position
        table is truncated.
        """
        return next(self.translate_chunks([sources], prefix, beam, length_penalty, max_length, progress=progress))

    def translate_chunks(
        self,
        chunks: Iterable[list[list[str]]],
        prefix: str | None,
        beam: int,
        length_penalty: float,
        max_length: int | None = None,
        *,
        progress: Callable[[int], object] | None = None,
    ) -> Iterator[list[list[str]]]:
        """The same for a stream of chunks: while one chunk is translated, the next one is read."""
        options = _options(beam, length_penalty)
        advance = progress or (lambda sentences: None)
        pending: deque[_PendingBatch] = deque()
        for batch in self._submit(chunks, prefix, max_length, options, advance):
            pending.append(batch)
            # Twice as many batches as threads keep CTranslate2 busy; more would only hold memory.
            if len(pending) > 2 * self._threads:
                yield from pending.popleft().finish(advance)
        for batch in pending:
            yield from batch.finish(advance)

    def n_best(
        self, sources: list[list[str]], prefix: str | None, beam: int, length_penalty: float, count: int
    ) -> list[list[tuple[list[str], float]]]:
        """The `count` best targets of each source with their scores, the best first; an empty source has none.

        A score is the natural log-probability of the target, </s> included, divided by its length to the power of the
        length penalty. The beam is at least `count`.
        """
        options = {**_options(max(beam, count), length_penalty), "num_hypotheses": count, "return_scores": True}
        found: list[list[tuple[list[str], float]]] = [[] for _ in sources]
        for batch in [*self._submit([sources], prefix, None, options, lambda sentences: None)]:
            for i, result in zip(batch.members, batch.results, strict=True):
                best = result.result()
                found[i] = list(zip(best.hypotheses, best.scores, strict=True))
        return found

    def score(self, samples: Sequence[Sample]) -> list[NDArray[np.float64]]:
        """The natural log-probabilities of each target's tokens after the first, and of </s>."""
        sources, targets = [list(source) for source, _ in samples], [list(target) for _, target in samples]
        self._check(sources, (symbol for target in targets for symbol in target))
        longest = max((len(side) for side in (*sources, *targets)), default=0)
        if longest >= self._positions:
            raise ValueError(
                f"a sample of {longest} tokens cannot be scored: the model has {self._positions} positions"
            )
        results = self._model.score_batch(sources, targets, max_input_length=0, max_batch_size=32)
        return [np.array(result.log_probs, dtype=np.float64) for result in results]

    def _submit(
        self,
        chunks: Iterable[list[list[str]]],
        prefix: str | None,
        max_length: int | None,
        options: dict[str, Any],  # keyword arguments of CTranslate2
        advance: Callable[[int], object],
    ) -> Iterator["_PendingBatch"]:
        """Submits batch after batch to CTranslate2; a batch without members marks the end of a chunk."""
        for chunk in chunks:
            first = [] if prefix is None else [prefix]
            self._check(chunk, first, options["beam_size"], 1 if max_length is None else max_length)
            targets: list[list[str]] = [[] for _ in chunk]
            sources = _truncated(chunk, self._positions - 1)
            advance(sum(not source for source in sources))
            for members in _batches([len(source) for source in sources], self._batch_tokens):
                most = self._positions - 1
                longest = min(2 * SHORT, most) if len(sources[members[0]]) <= SHORT else most
                results = self._model.translate_batch(
                    [sources[i] for i in members],
                    [first] * len(members) if first else None,
                    asynchronous=True,
                    max_decoding_length=longest if max_length is None else max_length,
                    # The candidates are those of all sources of a batch: it has one target language, its prefix.
                    use_vmap=self._restrict,
                    **options,
                )
                yield _PendingBatch(targets, members, results)
            yield _PendingBatch(targets, [], [])

    def _check(self, sources: list[list[str]], targets: Iterable[str], beam: int = 1, max_length: int = 1) -> None:
        if beam < 1:
            raise ValueError(f"beam must be at least 1; got {beam}")
        if not 1 <= max_length < self._positions:
            raise ValueError(
                f"max_length must be at least 1 and below the model's {self._positions} positions; got {max_length}"
            )
        if unknown := sorted({*targets} - self._target):
            raise ValueError(f"the model has no target symbol {unknown[0]!r}")
        for i, source in enumerate(sources):
            if unknown := [symbol for symbol in source if symbol not in self._source]:
                raise ValueError(f"source {i}: the model has no source symbol {unknown[0]!r}")
            if END in source:
                raise ValueError(f"source {i} contains {END}, which the model adds itself")


def device_for(name: str) -> str:
    """`cpu` or `cuda`; `auto` is a GPU if CTranslate2 finds one."""
    asked = os.environ.get(DEVICE, "auto") if name == "auto" else name
    if asked not in ("auto", *BATCH_TOKENS):
        raise ConfigError(f"environment variable {DEVICE} is {asked!r}: cpu, cuda or auto")
    if asked == "auto":
        return "cuda" if ctranslate2.get_cuda_device_count() > 0 else "cpu"
    return asked


@dataclass(frozen=True)
class _PendingBatch:
    """A submitted batch: the targets of its whole chunk, and which of them this batch fills in."""

    targets: list[list[str]]
    members: list[int]
    results: list[Any]  # CTranslate2's asynchronous results

    def finish(self, advance: Callable[[int], object]) -> Iterator[list[list[str]]]:
        """Waits for the batch; the end of a chunk yields all targets of the chunk."""
        if not self.members:
            yield self.targets
            return
        for i, result in zip(self.members, self.results, strict=True):
            self.targets[i] = result.result().hypotheses[0]
        advance(len(self.members))


def _options(beam: int, length_penalty: float) -> dict[str, Any]:  # keyword arguments of CTranslate2
    return {
        "beam_size": beam,
        "length_penalty": length_penalty,
        # With the default of 1, </s> is forbidden as the first symbol: the probabilities would not be the model's.
        "min_decoding_length": 0,
        "max_input_length": 0,
        "disable_unk": True,
    }


def _truncated(sources: list[list[str]], most: int) -> list[list[str]]:
    longer = sum(len(source) > most for source in sources)
    if longer:
        warnings.warn(f"sources of over {most} tokens are translated without their end: {longer}", stacklevel=3)
    return [source[:most] for source in sources]


def _batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """The indices of the non-empty sources in batches, the longest first, so that the last batches are short.

    Sources up to SHORT are never batched with longer ones: the limit of a search depends on its own source alone.
    """
    members: list[int] = []
    for i in sorted((i for i, length in enumerate(lengths) if length), key=lambda i: -lengths[i]):
        longest = lengths[members[0]] if members else 0
        if members and ((len(members) + 1) * (longest + 1) > budget or lengths[i] <= SHORT < longest):
            yield members
            members = []
        members.append(i)
    if members:
        yield members


def _symbols(folder: Path, side: str) -> tuple[str, ...]:
    for name in (f"{side}_vocabulary.json", "shared_vocabulary.json"):
        if (folder / name).is_file():
            symbols = parse_json((folder / name).read_bytes(), str(folder / name), ADVICE)
            if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
                raise DataError(f"{folder / name}: not a list of symbols; {ADVICE}")
            return tuple(symbols)
    raise ValueError(f"{folder}: no exported model is there")
