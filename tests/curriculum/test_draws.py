"""Draws: pure functions of (seed, purpose, index), true to the weights, resumable."""

import json
from collections import Counter
from itertools import accumulate, islice

import pytest
from worked_example import HRLS, LOSS, SIZES, curriculum

from cclm import AllAtOnce, Temperature
from cclm.curriculum import BatchSampler, Distribution, IndexSampler, draw_example, draw_language


def test_a_language_of_weight_zero_is_never_drawn() -> None:
    distribution = Distribution({"a": 0.0, "b": 0.5, "c": 0.0, "d": 0.5, "e": 0.0})
    assert {distribution.at(u) for u in (0.0, 0.25, 0.499, 0.5, 0.75, 1 - 2**-53)} == {"b", "d"}


def test_the_order_of_the_weights_does_not_matter() -> None:
    one, other = Distribution({"a": 0.3, "b": 0.7}), Distribution({"b": 0.7, "a": 0.3})
    assert [draw_language(1, i, one) for i in range(100)] == [draw_language(1, i, other) for i in range(100)]


def test_each_pass_visits_every_example_once_in_an_order_of_its_own() -> None:
    passes = [[draw_example(1, "aze", 50 * p + i, 50) for i in range(50)] for p in range(3)]
    assert all(sorted(one) == list(range(50)) for one in passes)
    assert passes[0] != passes[1] != passes[2]


def test_languages_and_seeds_have_orders_of_their_own() -> None:
    orders = [[draw_example(seed, lang, i, 50) for i in range(50)] for seed in (1, 2) for lang in ("aze", "bel")]
    assert len({tuple(order) for order in orders}) == 4


def language(index: int) -> str:
    """Whose training set this index points into, when all stand one after the other."""
    ends = accumulate(SIZES.values())
    return next(lang for lang, end in zip(SIZES, ends, strict=True) if index < end)


def test_an_update_counts_at_the_next_draw() -> None:
    ccl_m = curriculum()
    sampler = IndexSampler(ccl_m, seed=1, draws=10**9)
    draws = iter(sampler)
    first = [next(draws) for _ in range(200)]
    ccl_m.observe(step=100, dev_loss=LOSS | {"rus": 60.0})  # rus now has all but all of the weight
    second = [next(draws) for _ in range(200)]
    assert [language(index) for index in first].count("rus") < 100
    assert {language(index) for index in second} == {"rus"}


def test_indices_point_into_the_joined_training_sets() -> None:
    sizes = {"tur": 3, "aze": 2}
    tiny = curriculum(gate=AllAtOnce(), sampler=Temperature(1), sizes=sizes, benchmark=None)
    counts = Counter(IndexSampler(tiny, seed=1, draws=5000))
    assert sorted(counts) == [0, 1, 2, 3, 4]
    assert max(counts.values()) - min(counts.values()) < 200


def test_a_batch_has_one_language_and_no_example_twice() -> None:
    ccl_m = curriculum()
    batches = list(BatchSampler(ccl_m, seed=1, draws=50, batch_size=16))
    assert len(batches) == 50
    for batch in batches:
        assert len(set(batch)) == 16
        assert len({language(index) for index in batch}) == 1


def test_languages_come_in_the_same_order_whatever_another_method_does_with_its_examples() -> None:
    # The draw of a language is keyed by its index alone: batches of one or of sixteen, the languages are the same.
    ccl_m = curriculum()
    singles = list(IndexSampler(ccl_m, seed=1, draws=40))
    batches = list(BatchSampler(ccl_m, seed=1, draws=40, batch_size=4))
    assert [language(i) for i in singles] == [language(batch[0]) for batch in batches]


def test_a_sampler_goes_on_from_its_state_to_the_same_indices() -> None:
    whole = list(IndexSampler(curriculum(), seed=4, draws=100))
    first = IndexSampler(curriculum(), seed=4, draws=100)
    start = [index for index, _ in zip(iter(first), range(60), strict=False)]
    second = IndexSampler(curriculum(), seed=4, draws=100)
    second.load_state_dict(json.loads(json.dumps(first.state_dict(consumed=60))))
    assert start + list(second) == whole  # the resumed iteration gives the 40 that were left
    assert len(second) == 100


def drawn(sampler: BatchSampler, count: int) -> list[list[int]]:
    return list(islice(iter(sampler), count))


@pytest.mark.parametrize("mixed", [False, True])
def test_what_was_fetched_ahead_is_drawn_again_with_the_weights_of_then(mixed: bool) -> None:
    settings = {"seed": 4, "draws": 100, "batch_size": 3, "mixed": mixed, "group": 4}
    ccl_m = curriculum()
    sampler = BatchSampler(ccl_m, **settings)
    batches = iter(sampler)
    ahead = [next(batches) for _ in range(17)]  # 10 consumed, 7 in the queue of the workers
    ccl_m.observe(step=10, dev_loss=LOSS | {"rus": 60.0})
    saved = json.loads(json.dumps([ccl_m.state_dict(), sampler.state_dict(consumed=10)]))
    rest = [next(batches) for _ in range(40)]

    other = curriculum()
    resumed = BatchSampler(other, **settings)
    other.load_state_dict(saved[0])
    resumed.load_state_dict(saved[1])
    assert drawn(resumed, 47) == ahead[10:] + rest
    assert {language(index) for batch in rest[3:] for index in batch} == {"rus"}  # from 20 on, a multiple of 4
    assert {language(index) for batch in ahead + rest[:3] for index in batch} != {"rus"}


def test_the_state_counts_the_examples_of_consumed_batches_alone() -> None:
    sampler = BatchSampler(curriculum(), seed=1, draws=50, batch_size=4)
    first = drawn(sampler, 30)
    counted = Counter(language(index) for batch in first[:20] for index in batch)
    state = sampler.state_dict(consumed=20)
    assert {lang: count for lang, count in state["counters"].items() if count} == counted
    assert sum(sampler.state_dict()["counters"].values()) == 120


def test_a_number_of_consumed_batches_that_cannot_be_is_refused() -> None:
    sampler = BatchSampler(curriculum(), seed=1, draws=50, batch_size=4)
    drawn(sampler, 30)
    with pytest.raises(ValueError, match="consumed is 31; between 0 and 30 batches are possible here"):
        sampler.state_dict(consumed=31)
    with pytest.raises(ValueError, match="consumed is -1"):
        sampler.state_dict(consumed=-1)


def test_a_state_without_weights_loads_too() -> None:
    state = {"version": 1, "seed": 4, "index": 6, "counters": dict.fromkeys(SIZES, 0)}
    sampler = BatchSampler(curriculum(), seed=4, draws=10, batch_size=2, group=4)
    sampler.load_state_dict(state)
    assert len(list(sampler)) == 4
    assert sampler.state_dict(consumed=6)["counters"] == state["counters"]


def test_mixed_batches_draw_a_language_for_every_example() -> None:
    ccl_m = curriculum()
    mixed = list(BatchSampler(ccl_m, seed=1, draws=10, batch_size=4, mixed=True))
    assert [index for batch in mixed for index in batch] == list(IndexSampler(ccl_m, seed=1, draws=40))


def test_weights_of_forgotten_rounds_take_no_memory() -> None:
    ccl_m = curriculum()
    sampler = BatchSampler(ccl_m, seed=1, draws=100, batch_size=1)
    batches = iter(sampler)
    for step in range(1, 50):
        next(batches)
        ccl_m.observe(step=step, dev_loss=LOSS | {"rus": step / 10})
    assert [start for start, _ in sampler.state_dict(consumed=48)["changes"]] == [48]


def test_pairs_number_the_draws_of_each_language() -> None:
    seen: Counter[str] = Counter()
    for batch in BatchSampler(curriculum(), seed=1, draws=30, batch_size=2).pairs():
        for lang, number in batch:
            assert number == seen[lang]
            seen[lang] += 1


def test_a_sampler_goes_on_where_its_last_iteration_stopped() -> None:
    sampler = IndexSampler(curriculum(), seed=4, draws=50)
    assert list(sampler) + list(sampler) == list(IndexSampler(curriculum(), seed=4, draws=100))


def test_the_state_of_another_sampler_is_refused() -> None:
    state = IndexSampler(curriculum(), seed=4, draws=1).state_dict()
    with pytest.raises(ValueError, match="state of another sampler: seed was 4, here it is 5"):
        IndexSampler(curriculum(), seed=5, draws=1).load_state_dict(state)
    with pytest.raises(ValueError, match="state of another sampler: version was 9, here it is 1"):
        IndexSampler(curriculum(), seed=4, draws=1).load_state_dict(state | {"version": 9})
    with pytest.raises(ValueError, match="sampler state: unknown language xyz"):
        IndexSampler(curriculum(), seed=4, draws=1).load_state_dict(state | {"counters": {"xyz": 1}})
    with pytest.raises(ValueError, match="sampler state: nothing for aze"):
        IndexSampler(curriculum(), seed=4, draws=1).load_state_dict(state | {"counters": dict.fromkeys(HRLS, 0)})


def test_an_empty_iteration_or_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="draws is 0"):
        IndexSampler(curriculum(), seed=1, draws=0)
    with pytest.raises(ValueError, match="batch_size is 0"):
        BatchSampler(curriculum(), seed=1, draws=1, batch_size=0)
