"""The training sets of all languages as one dataset, whose keys are (language, number of this language's draw)."""

from collections.abc import Iterator, Mapping
from typing import Any

from torch.utils.data import Dataset, IterableDataset

from cclm.curriculum import draw_example

Key = tuple[str, int]


class TrainingSets(Dataset[Any]):
    """One dataset per language. Examples are shuffled anew in every pass; a stream is read in its own order.

    `sizes` gives the lengths of streams, which only decide how long an epoch is.
    """

    def __init__(self, datasets: Mapping[str, Any], *, seed: int, sizes: Mapping[str, int]) -> None:
        self._seed = seed
        self._streams = {lang: Stream(dataset) for lang, dataset in datasets.items() if is_stream(dataset)}
        self._datasets = {lang: dataset for lang, dataset in datasets.items() if lang not in self._streams}
        self.sizes = {lang: sizes[lang] if is_stream(dataset) else len(dataset) for lang, dataset in datasets.items()}

    def __len__(self) -> int:
        return sum(self.sizes.values())

    def __getitem__(self, key: Key) -> Any:
        lang, number = key
        if lang in self._streams:
            return self._streams[lang][number]
        return self._datasets[lang][draw_example(self._seed, lang, number, self.sizes[lang])]


class Stream:
    """Examples of an iterable dataset by their number, counted over all passes.

    Numbers in rising order cost one read each. For any other number the stream is read from the start of its pass.
    """

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._length: int | None = None  # known once the first pass has ended
        self._start(0)

    def __getitem__(self, number: int) -> Any:
        passes, place = divmod(number, self._length) if self._length else (0, number)
        if passes != self._pass or place < self._position:
            self._start(passes)
        for example in self._examples:
            self._position += 1
            if self._position > place:
                return example
        if not self._position:
            raise ValueError("a stream of training examples is empty")
        self._length = self._position
        return self[number]

    def _start(self, number: int) -> None:
        if hasattr(self._dataset, "set_epoch"):
            self._dataset.set_epoch(number)
        self._pass, self._position = number, 0
        self._examples: Iterator[Any] = iter(self._dataset)


def is_stream(dataset: Any) -> bool:
    """Whether a dataset has no index: it is torch's or Hugging Face's IterableDataset."""
    return isinstance(dataset, IterableDataset)
