"""Beam search over an exported model, and the proof that the export computes what the trained model does."""

import json
import shutil
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ctranslate2  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray

from cclm.memory import keep_freed_memory

END = "</s>"
POSITIONS = 1024
"""Rows of the exported position table: the longest source, its </s> included, and the longest target."""
SHORT = 128
"""A source up to this length has a target of at most twice as much: a search that runs on ends there."""
Sample = tuple[Sequence[str], Sequence[str]]
"""A source ([tag] pieces) and a target (<s> or tag, then pieces), both without </s>."""


class ExportError(ValueError):
    """Weights that do not make a model, or an export that does not compute what they do."""


class Translator:
    """An exported model. `threads` batches are translated at once; what comes out does not depend on it.

    `batch_tokens` is the most source tokens, padding included, in a batch. `compute` is CTranslate2's compute type:
    "float32" computes with quantised weights in full precision (int8 products overflow on processors without VNNI).
    """

    def __init__(self, folder: Path, threads: int = 1, *, batch_tokens: int = 768, compute: str = "default") -> None:
        if threads < 1 or batch_tokens < 1:
            raise ValueError(f"threads and batch_tokens must be at least 1; got {threads} and {batch_tokens}")
        self.folder = folder
        self._threads, self._batch_tokens = threads, batch_tokens
        self.source_symbols, self.target_symbols = _symbols(folder, "source"), _symbols(folder, "target")
        self._source, self._target = frozenset(self.source_symbols), frozenset(self.target_symbols)
        keep_freed_memory()
        self._model = ctranslate2.Translator(
            str(folder), device="cpu", compute_type=compute, inter_threads=threads, intra_threads=1
        )

    def translate_ids(
        self,
        sources: list[list[str]],
        prefix: str,
        beam: int,
        length_penalty: float,
        max_length: int | None = None,
        *,
        progress: Callable[[int], object] | None = None,
    ) -> list[list[str]]:
        """The best target of each source, in their order, without `prefix` and </s>; of an empty source, an empty one.

        A source is `[tag] pieces`, without </s>; `prefix` is what every target begins with: <s> or a language tag.
        `max_length` is by default twice SHORT, and for longer sources than that all that the model has. `progress` is
        told after every batch how many sentences it had. A source that is longer than the table of positions loses its
        end.
        """
        return next(self.translate_chunks([sources], prefix, beam, length_penalty, max_length, progress=progress))

    def translate_chunks(
        self,
        chunks: Iterable[list[list[str]]],
        prefix: str,
        beam: int,
        length_penalty: float,
        max_length: int | None = None,
        *,
        progress: Callable[[int], object] | None = None,
    ) -> Iterator[list[list[str]]]:
        """The same for chunk after chunk: while one is translated, the next is asked for."""
        options = {
            "beam_size": beam,
            "length_penalty": length_penalty,
            # With the default of 1, </s> is forbidden at first: the probabilities would not be the model's.
            "min_decoding_length": 0,
            "max_input_length": 0,
            "disable_unk": True,
        }
        tell = progress or (lambda sentences: None)
        under_way: deque[_Begun] = deque()
        for begun in self._begin(chunks, prefix, max_length, options, tell):
            under_way.append(begun)
            if len(under_way) > 2 * self._threads:
                yield from under_way.popleft().finish(tell)
        for begun in under_way:
            yield from begun.finish(tell)

    def score(self, samples: Sequence[Sample]) -> list[NDArray[np.float64]]:
        """The log-probabilities (natural) of each target's tokens after the first, and of </s>."""
        sources, targets = [list(source) for source, _ in samples], [list(target) for _, target in samples]
        self._check(sources, (symbol for target in targets for symbol in target))
        longest = max((len(side) for side in (*sources, *targets)), default=0)
        if longest >= POSITIONS:
            raise ValueError(f"a sample of {longest} tokens cannot be scored: the model has {POSITIONS} positions")
        results = self._model.score_batch(sources, targets, max_input_length=0, max_batch_size=32)
        return [np.array(result.log_probs, dtype=np.float64) for result in results]

    def _begin(
        self,
        chunks: Iterable[list[list[str]]],
        prefix: str,
        max_length: int | None,
        options: dict[str, Any],
        tell: Callable[[int], object],
    ) -> Iterator["_Begun"]:
        """Batches, each begun as it is taken; the end of a chunk is one without members."""
        for chunk in chunks:
            self._check(chunk, [prefix], options["beam_size"], 1 if max_length is None else max_length)
            targets: list[list[str]] = [[] for _ in chunk]
            sources = _cut(chunk)
            tell(sum(not source for source in sources))
            for members in _batches([len(source) for source in sources], self._batch_tokens):
                longest = 2 * SHORT if len(sources[members[0]]) <= SHORT else POSITIONS - 1
                outcomes = self._model.translate_batch(
                    [sources[i] for i in members],
                    [[prefix]] * len(members),
                    asynchronous=True,
                    max_decoding_length=longest if max_length is None else max_length,
                    **options,
                )
                yield _Begun(targets, members, outcomes)
            yield _Begun(targets, [], [])

    def _check(self, sources: list[list[str]], targets: Iterable[str], beam: int = 1, max_length: int = 1) -> None:
        if beam < 1:
            raise ValueError(f"beam must be at least 1; got {beam}")
        if not 1 <= max_length < POSITIONS:
            raise ValueError(
                f"max_length must be at least 1 and below the model's {POSITIONS} positions; got {max_length}"
            )
        if unknown := sorted({*targets} - self._target):
            raise ValueError(f"the model has no target symbol {unknown[0]!r}")
        for i, source in enumerate(sources):
            if unknown := [symbol for symbol in source if symbol not in self._source]:
                raise ValueError(f"source {i}: the model has no source symbol {unknown[0]!r}")
            if END in source:
                raise ValueError(f"source {i} has {END} in it, which the model adds itself")


@dataclass(frozen=True)
class _Begun:
    """A batch under way, and the targets of its chunk, in which its own have their places."""

    targets: list[list[str]]
    members: list[int]
    outcomes: list[Any]

    def finish(self, tell: Callable[[int], object]) -> Iterator[list[list[str]]]:
        """Waits for the batch; the end of a chunk gives the chunk's targets."""
        if not self.members:
            yield self.targets
            return
        for i, outcome in zip(self.members, self.outcomes, strict=True):
            self.targets[i] = outcome.result().hypotheses[0]
        tell(len(self.members))


def verify(
    translator: Translator,
    logprob_of: Callable[[Sequence[str], Sequence[str]], Sequence[float]],
    samples: Sequence[Sample],
    *,
    tolerance: float = 1e-4,
) -> float:
    """The largest difference between the export's log-probabilities and those of the model that it was made from.

    `logprob_of(source, target)` gives the latter, natural, for every token of the target after the first, and for
    </s>. An export that is further off than `tolerance` is withdrawn: its folder is removed, and ExportError raised.
    """
    if not samples:
        raise ValueError("an export cannot be verified without samples")
    largest = 0.0
    for (source, target), ours in zip(samples, translator.score(samples), strict=True):
        theirs = np.asarray(logprob_of(source, target), dtype=np.float64)
        if ours.shape != theirs.shape:
            raise ValueError(f"logprob_of gives {theirs.size} numbers for a target that has {ours.size} with {END}")
        # np.maximum, unlike max, lets a NaN through.
        largest = float(np.maximum(largest, np.max(np.abs(ours - theirs))))
    if not largest <= tolerance:
        shutil.rmtree(translator.folder)
        raise ExportError(
            f"{translator.folder}: the export was withdrawn, its log-probabilities differ from the model's by up to "
            f"{largest:.2g}; {tolerance:g} is allowed"
        )
    return largest


def _cut(sources: list[list[str]]) -> list[list[str]]:
    most = POSITIONS - 1  # and </s>
    longer = sum(len(source) > most for source in sources)
    if longer:
        warnings.warn(f"sources of over {most} tokens are translated without their end: {longer}", stacklevel=3)
    return [source[:most] for source in sources]


def _batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """The numbers of those that are not empty, the longest first, so that the last batches are done soon.

    Short ones and others stay apart, so that how far a search may run depends on its own source alone.
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
            return tuple(json.loads((folder / name).read_text(encoding="utf-8")))
    raise ValueError(f"{folder}: no exported model is there")
