"""Random draws of languages and examples. Each depends only on the seed and the number of the draw."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from cclm.curriculum.languages import check_complete, check_known
from cclm.rng import key, shuffled, uniform

if TYPE_CHECKING:
    from cclm.curriculum.curriculum import Curriculum

VERSION = 1


class Distribution:
    """Weights in a form for drawing: cumulative, in canonical order, without languages of weight zero."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self.weights = dict(weights)
        self._languages = [lang for lang in sorted(weights) if weights[lang] > 0]
        self._cumulative = list(accumulate(weights[lang] for lang in self._languages))
        self._total = self._cumulative[-1]

    def at(self, u: float) -> str:
        """The language at this point of [0, 1)."""
        # u x total may round up to the total itself; the last language owns that point.
        place = bisect_right(self._cumulative, u * self._total, 0, len(self._languages) - 1)
        return self._languages[place]


def draw_language(seed: int, index: int, distribution: Distribution) -> str:
    """The language of micro-batch `index`, numbered over the whole run and over all ranks."""
    return distribution.at(uniform(key(seed, "language"), index))


def draw_example(seed: int, language: str, counter: int, size: int) -> int:
    """The example that this language's draw number `counter` takes: each once per pass, every pass in a new order."""
    passes, position = divmod(counter, size)
    return shuffled(position, size, key(seed, "example", language, passes))


class _Draws:
    """Batches numbered over a whole run, with a language and an example for each place in them.

    The weights of a batch are read when it is drawn for the first time, and recorded until it is consumed: whatever
    was fetched ahead is drawn again with the same weights after a resume.
    """

    def __init__(
        self,
        curriculum: "Curriculum",
        *,
        seed: int,
        draws: int,
        batch_size: int = 1,
        mixed: bool = False,
        group: int = 1,
    ) -> None:
        for name, value in (("draws", draws), ("batch_size", batch_size), ("group", group)):
            if value < 1:
                raise ValueError(f"{name} is {value!r}; a whole number of at least 1 is needed")
        self._curriculum, self._seed, self._draws = curriculum, seed, draws
        self._batch_size, self._mixed, self._group = batch_size, mixed, group
        self._sizes = curriculum.sizes
        self._starts = dict(zip(self._sizes, accumulate(self._sizes.values(), initial=0), strict=False))
        self._index = 0
        self._counters = dict.fromkeys(self._sizes, 0)
        self._drawn = 0  # batches before this one have their weights in `_changes`
        self._changes: list[tuple[int, Distribution]] = []  # from which batch on which weights hold

    def __len__(self) -> int:
        return self._draws

    def pairs(self) -> Iterator[list[tuple[str, int]]]:
        """Batches of (language, number of this language's draw), up to the end of the iteration.

        For training sets that have no index, such as streams. `draw_example` turns a number into an index.
        """
        for _ in range(self._draws - self._index % self._draws):
            self._read_weights()
            batch = []
            for lang in self.languages(self._index):
                batch.append((lang, self._counters[lang]))
                self._counters[lang] += 1
            self._index += 1
            yield batch

    def languages(self, index: int) -> list[str]:
        """The language of each example of a batch; of one that was drawn and is not reported as consumed yet."""
        distribution = next(weights for start, weights in reversed(self._changes) if start <= index)
        if not self._mixed:
            return [draw_language(self._seed, index, distribution)] * self._batch_size
        first = index * self._batch_size
        return [draw_language(self._seed, first + place, distribution) for place in range(self._batch_size)]

    def state_dict(self, consumed: int | None = None) -> dict[str, Any]:
        """The state after `consumed` batches of the whole run, as plain JSON; by default after all that were drawn.

        A DataLoader with worker processes draws batches ahead of the training loop, and so does one that accelerate
        has prepared. Give the number that training has consumed, and a resume continues with the next one.
        """
        consumed = self._index if consumed is None else consumed
        first = self._changes[0][0] if self._changes else self._index
        if not first <= consumed <= self._index:
            raise ValueError(f"consumed is {consumed}; between {first} and {self._index} batches are possible here")
        counters = dict(self._counters)
        for index in range(consumed, self._index):
            for lang in self.languages(index):
                counters[lang] -= 1
        while len(self._changes) > 1 and self._changes[1][0] <= consumed:
            del self._changes[0]
        changes = [[max(start, consumed), weights.weights] for start, weights in self._changes]
        state = {"version": VERSION, "seed": self._seed, "index": consumed, "counters": counters}
        return {**state, "drawn": self._drawn, "changes": changes}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where the saved sampler was; the current iteration ends where it would have ended."""
        for name, mine in (("version", VERSION), ("seed", self._seed)):
            if state.get(name) != mine:
                raise ValueError(f"state of another sampler: {name} was {state.get(name)!r}, here it is {mine}")
        check_known(state["counters"], self._sizes, "sampler state")
        check_complete(state["counters"], self._sizes, "sampler state")
        self._index = state["index"]
        self._counters = {lang: state["counters"][lang] for lang in self._sizes}
        self._drawn = state.get("drawn", self._index)
        self._changes = [(start, Distribution(weights)) for start, weights in state.get("changes", [])]

    def _read_weights(self) -> None:
        """Asks the curriculum for the weights of the next batch, unless it was drawn before or its group has some."""
        if self._index < self._drawn:
            return
        self._drawn = self._index + 1
        if self._index % self._group == 0 or not self._changes:
            current = self._curriculum.distribution
            if not self._changes or current is not self._changes[-1][1]:
                self._changes.append((self._index, current))

    def _example(self, lang: str, number: int) -> int:
        return self._starts[lang] + draw_example(self._seed, lang, number, self._sizes[lang])


class IndexSampler(_Draws):
    """Indices for `torch.utils.data.DataLoader(..., sampler=...)`; a language is drawn for each of them.

    They index the languages' training sets joined in the order of `curriculum.sizes` (a `ConcatDataset`). The
    weights are read at every draw: an update counts at the next one, except for what worker processes have
    prefetched. Each iteration gives `draws` indices and continues where the last one stopped.
    """

    def __init__(self, curriculum: "Curriculum", *, seed: int, draws: int) -> None:
        super().__init__(curriculum, seed=seed, draws=draws)

    def __iter__(self) -> Iterator[int]:
        for ((lang, number),) in self.pairs():
            yield self._example(lang, number)


class BatchSampler(_Draws):
    """The same for `DataLoader(..., batch_sampler=...)`: lists of `batch_size` indices, one language per batch.

    `mixed=True` draws a language for every example instead. `group` is the number of batches per optimizer step, over
    all processes: the weights change only between groups, so that N processes draw what one process with N times
    the accumulation draws.
    """

    def __init__(
        self, curriculum: "Curriculum", *, seed: int, draws: int, batch_size: int, mixed: bool = False, group: int = 1
    ) -> None:
        super().__init__(curriculum, seed=seed, draws=draws, batch_size=batch_size, mixed=mixed, group=group)

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.pairs():
            yield [self._example(lang, number) for lang, number in batch]
