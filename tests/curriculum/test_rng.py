"""Chance: fixed for good, uniform, a permutation where it shuffles."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cclm.rng import key, shuffled, shuffled_many, uniform, uniform_many


def test_the_numbers_never_change() -> None:
    # Fixed for good: a run of today must be continued to the same bytes by the program of tomorrow.
    # splitmix64 from state 0 gives 0xE220A8397B1DCDAF first (Vigna's reference implementation); index 1 is that draw.
    assert uniform(0, 1) == (0xE220A8397B1DCDAF >> 11) / 2**53
    assert key(1, "language") == 0xB0FAAAF53276061E  # b2sum -l 64 of "int:1\x1fstr:language"
    assert [shuffled(i, 10, 7) for i in range(10)] == [9, 8, 7, 4, 3, 5, 2, 1, 0, 6]
    assert [shuffled(i, 100, 7) for i in range(10)] == [90, 38, 19, 21, 47, 26, 14, 68, 52, 5]


def test_keys_differ_by_seed_purpose_and_parts() -> None:
    keys = {key(1, "language"), key(2, "language"), key(1, "dropout"), key(1, "probe", 1), key(1, "probe", "1")}
    keys |= {key(1, "probe", 1, 12), key(1, "probe", 11, 2)}
    assert len(keys) == 7


def test_uniform_numbers_fill_the_unit_interval_evenly() -> None:
    numbers = [uniform(key(3, "language"), i) for i in range(20_000)]
    assert all(0 <= u < 1 for u in numbers)
    tenths = Counter(int(10 * u) for u in numbers)
    # chi-square with 9 degrees of freedom: above 27.9 once in a thousand
    assert sum((tenths[i] - 2000) ** 2 / 2000 for i in range(10)) < 27.9


@pytest.mark.parametrize("size", [1, 2, 3, 5, 10, 97, 1000])
def test_a_shuffle_visits_everything_once(size: int) -> None:
    assert sorted(shuffled(i, size, key(1, "example", size)) for i in range(size)) == list(range(size))


def test_every_place_is_equally_likely_in_a_shuffle() -> None:
    for size in (3, 5, 8):
        first = Counter(shuffled(0, size, key(seed, "example")) for seed in range(6000))
        expected = 6000 / size
        # 24.3 is the 0.1 % point of chi-square with 7 degrees of freedom, the most there are here
        assert sum((first[i] - expected) ** 2 / expected for i in range(size)) < 24.3


def test_neighbours_in_a_shuffle_are_not_neighbours_in_the_data() -> None:
    # Of two independent places in 1,000, about 2 in 1,000 are adjacent.
    order = [shuffled(i, 1000, key(5, "example")) for i in range(1000)]
    assert sum(abs(a - b) == 1 for a, b in pairwise(order)) < 12


def test_a_place_outside_the_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"position 5 is outside range\(5\)"):
        shuffled(5, 5, 0)


@given(size=st.integers(1, 10**7), seed=st.integers(0, 2**64 - 1), start=st.integers(0, 10**7))
def test_many_places_at_once_are_the_same_as_one_by_one(size: int, seed: int, start: int) -> None:
    positions = np.array([(start + i) % size for i in range(5)])
    assert shuffled_many(positions, size, seed).tolist() == [shuffled(int(i), size, seed) for i in positions]


@given(seed=st.integers(0, 2**63 - 1), start=st.integers(0, 2**40))
def test_many_uniform_numbers_are_the_same_as_one_by_one(seed: int, start: int) -> None:
    indices = np.arange(start, start + 7, dtype=np.uint64)
    one_by_one = [uniform(key(seed, "pieces"), int(index)) for index in indices]
    assert uniform_many(key(seed, "pieces"), indices).tolist() == one_by_one
