"""Training sets of all languages as one: shuffled by (seed, language, pass), or streams in their own order."""

from collections.abc import Iterator

import pytest
from torch.utils.data import IterableDataset

from cclm.integrations.training_sets import Stream, TrainingSets


class Letters(IterableDataset[str]):
    """A stream that counts how often it is read from the start."""

    def __init__(self, letters: str) -> None:
        self.letters, self.starts = letters, 0

    def __iter__(self) -> Iterator[str]:
        self.starts += 1
        return iter(self.letters)


class Rotated(Letters):
    """One that has another order in every epoch, as a shuffled stream of Hugging Face."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[str]:
        return iter(self.letters[self.epoch % 3 :] + self.letters[: self.epoch % 3])


def test_every_pass_of_a_language_has_each_example_once() -> None:
    sets = TrainingSets({"tur": "abcdef", "aze": "xy"}, seed=1, sizes={"tur": 1, "aze": 1})
    assert len(sets) == 8
    passes = ["".join(sets["tur", number] for number in range(start, start + 6)) for start in (0, 6, 12)]
    assert all(sorted(one) == list("abcdef") for one in passes)
    assert len(set(passes)) > 1


def test_the_declared_size_of_a_stream_is_its_length() -> None:
    assert len(TrainingSets({"tur": Letters("abc"), "aze": "xy"}, seed=1, sizes={"tur": 500, "aze": 1})) == 502


def test_a_stream_is_read_in_order_again_and_again() -> None:
    letters = Letters("abc")
    sets = TrainingSets({"tur": letters}, seed=1, sizes={"tur": 3})
    assert "".join(sets["tur", number] for number in range(8)) == "abcabcab"
    assert letters.starts == 3


def test_a_stream_is_told_the_number_of_its_pass() -> None:
    stream = Stream(Rotated("abc"))
    assert "".join(stream[number] for number in range(12)) == "abcbcacababc"


@pytest.mark.parametrize("number", [1, 4, 7])
def test_a_resume_reads_up_to_where_it_was(number: int) -> None:
    stream = Stream(Rotated("abc"))
    assert "".join(stream[n] for n in range(number, 9)) == "abcbcacab"[number:]


def test_a_stream_that_starts_anew_is_read_from_its_start() -> None:
    stream = Stream(Letters("abcd"))
    assert [stream[number] for number in (2, 3, 0, 1, 6, 4)] == list("cdabca")


def test_an_empty_stream_is_refused() -> None:
    with pytest.raises(ValueError, match="a stream of training examples is empty"):
        Stream(Letters(""))[0]
