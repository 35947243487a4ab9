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
    """Draws numbered over a whole run, each of a language and of an example of its training set."""

    def __init__(self, curriculum: "Curriculum", *, seed: int, draws: int) -> None:
        if draws < 1:
            raise ValueError(f"draws is {draws!r}; an iteration gives at least 1")
        self._curriculum, self._seed, self._draws = curriculum, seed, draws
        self._sizes = curriculum.sizes
        self._starts = dict(zip(self._sizes, accumulate(self._sizes.values(), initial=0), strict=False))
        self._index = 0
        self._counters = dict.fromkeys(self._sizes, 0)

    def __len__(self) -> int:
        return self._draws

    def _language(self) -> str:
        lang = draw_language(self._seed, self._index, self._curriculum.distribution)
        self._index += 1
        return lang

    def _example(self, lang: str) -> int:
        counter = self._counters[lang]
        self._counters[lang] += 1
        return self._starts[lang] + draw_example(self._seed, lang, counter, self._sizes[lang])

    def state_dict(self) -> dict[str, Any]:
        """The number of draws so far, as plain JSON."""
        return {"version": VERSION, "seed": self._seed, "index": self._index, "counters": dict(self._counters)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues where the saved sampler was."""
        for name, mine in (("version", VERSION), ("seed", self._seed)):
            if state.get(name) != mine:
                raise ValueError(f"state of another sampler: {name} was {state.get(name)!r}, here it is {mine}")
        check_known(state["counters"], self._sizes, "sampler state")
        check_complete(state["counters"], self._sizes, "sampler state")
        self._index = state["index"]
        self._counters = {lang: state["counters"][lang] for lang in self._sizes}


class IndexSampler(_Draws):
    """Indices for `torch.utils.data.DataLoader(..., sampler=...)`, a language is drawn for each of them.

    They index the languages' training sets joined in the order of `curriculum.sizes` (a `ConcatDataset`). The
    weights are read at every draw: an update counts at the next one, except for what worker processes have
    prefetched. Each iteration gives `draws` indices and continues where the last one stopped.
    """

    def __iter__(self) -> Iterator[int]:
        for _ in range(self._draws):
            yield self._example(self._language())


class BatchSampler(_Draws):
    """The same for `DataLoader(..., batch_sampler=...)`: lists of `batch_size` indices, one language per batch."""

    def __init__(self, curriculum: "Curriculum", *, seed: int, draws: int, batch_size: int) -> None:
        super().__init__(curriculum, seed=seed, draws=draws)
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size!r}; a batch has at least 1 example")
        self._batch_size = batch_size

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(self._draws):
            lang = self._language()
            yield [self._example(lang) for _ in range(self._batch_size)]
