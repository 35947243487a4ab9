"""The samplers of the other papers: UniMax, chi-square DRO, MultiDDS; and our generalisations."""

import math
from typing import Any

import numpy as np
import pytest
from worked_example import BENCHMARK, LOSS, SIZES, curriculum

from cclm import (
    AllAtOnce,
    ChiSquare,
    FixedWeights,
    InverseCompetence,
    RewardActor,
    SizeAndCompetence,
    StepGate,
    Temperature,
    UniMax,
)
from cclm.curriculum.samplers import worst_case


def everyone(sampler: Any, **changes: Any) -> Any:
    return curriculum(gate=AllAtOnce(), sampler=sampler, **changes)


def test_unimax_on_the_related_set() -> None:
    # 40 passes over 759,950 pairs = 30.398 M draws, at most 100 repeats. Smallest first: bel min(3.8 M, .451 M),
    # aze .594 M, glg 1.0 M; 28.353 M are left for five: 5.67 M each (slk could take 6.15 M).
    weights = everyone(UniMax(budget=40, max_repeats=100)).weights
    assert round(weights["aze"], 4) == 0.0195
    assert round(weights["bel"], 4) == 0.0148
    assert round(weights["glg"], 4) == 0.0329
    assert [round(weights[lang], 4) for lang in ("slk", "tur", "rus", "por", "ces")] == [0.1865] * 5


def test_unimax_repeats_no_language_more_than_allowed() -> None:
    weights = everyone(UniMax(budget=3, max_repeats=5)).weights
    draws = 3 * sum(SIZES.values())
    assert max(weights[lang] * draws / SIZES[lang] for lang in SIZES) == pytest.approx(5)


def test_chi_square_worst_case_on_the_related_set() -> None:
    # v = L - L*: tur .5 rus .3 por .2 ces .1 aze .63 bel .157 glg -.391 slk .395; p = sizes; rho = .05. At the eta of
    # the solution glg stands on the floor of .2 p and the rest is p (v - eta), normalised.
    languages = sorted(SIZES)
    excess = np.array([LOSS[lang] - BENCHMARK[lang] for lang in languages])
    sizes = np.array([SIZES[lang] for lang in languages], dtype=float)
    prior = sizes / sizes.sum()
    q = worst_case(excess, prior, rho=0.05, floor=0.2)
    expected = {"aze": 0.0134, "bel": 0.0041, "glg": 0.0026, "slk": 0.0976}
    expected |= {"tur": 0.3437, "rus": 0.2731, "por": 0.1896, "ces": 0.0759}
    assert dict(zip(languages, q.round(4).tolist(), strict=True)) == pytest.approx(expected)
    assert (prior * (q / prior - 1) ** 2).sum() / 2 == pytest.approx(0.05)


def test_chi_square_leaves_the_prior_alone_when_all_lag_equally() -> None:
    prior = np.array([0.7, 0.2, 0.1])
    assert worst_case(np.array([0.5, 0.5, 0.5]), prior, rho=0.05, floor=0.2).tolist() == prior.tolist()


def test_chi_square_goes_as_far_as_the_floor_lets_it() -> None:
    # rho = 9 is out of reach: nearly all mass on the worst language, .9 x its prior for the others, renormalised.
    q = worst_case(np.array([0.0, 1.0]), np.array([0.5, 0.5]), rho=9, floor=0.9)
    assert q.tolist() == pytest.approx([0.45 / 1.45, 1 / 1.45])


def test_chi_square_is_proportional_before_its_first_epoch_and_raises_the_smallest_after() -> None:
    sampler = everyone(ChiSquare(loss="dev"))
    total = sum(SIZES.values())
    assert sampler.weights == pytest.approx({lang: size / total for lang, size in SIZES.items()})
    sampler.observe(step=100, dev_loss=LOSS)
    # The final clamp q >= min p lifts glg (.0026) and bel (.0041) to bel's prior, 4510 / 759950 = .0059.
    assert sampler.weights["glg"] == pytest.approx(sampler.weights["bel"])
    assert sampler.weights["tur"] > SIZES["tur"] / total


def test_chi_square_averages_the_training_loss_over_an_epoch_and_then_starts_anew() -> None:
    sampler = everyone(ChiSquare(epoch=2, ema=0.1))
    assert sampler.needs == {"train_loss"}
    before = sampler.weights
    sampler.observe(step=100, dev_loss=LOSS, train_loss=LOSS)
    assert sampler.weights == before  # the epoch is not over
    worse = LOSS | {"por": LOSS["por"] + 10}
    sampler.observe(step=200, dev_loss=LOSS, train_loss=worse)
    # The newest counts for a tenth: por lags by .2 + 1 = 1.2 bits, the most of all.
    same = everyone(ChiSquare())
    same.observe(step=200, dev_loss=LOSS, train_loss=LOSS | {"por": LOSS["por"] + 1})
    assert sampler.weights == pytest.approx(same.weights)
    assert sampler.state_dict()["memory"]["sampler"]["loss"] == {}


def test_chi_square_compares_the_losses_themselves_once_all_beat_the_benchmark() -> None:
    ahead = {lang: BENCHMARK[lang] - 0.1 - 0.1 * (lang == "por") for lang in SIZES}
    sampler = everyone(ChiSquare(loss="dev"))
    sampler.observe(step=100, dev_loss=ahead)
    total = sum(SIZES.values())
    ratio = {lang: share * total / SIZES[lang] for lang, share in sampler.weights.items()}
    assert max(ratio, key=ratio.__getitem__) == "aze"  # 7.77 bits, the highest loss
    assert min(ratio, key=ratio.__getitem__) == "por"


def test_chi_square_leaves_the_share_of_a_language_without_a_training_loss_alone() -> None:
    sampler = everyone(ChiSquare())
    sampler.observe(step=100, dev_loss=LOSS, train_loss={lang: LOSS[lang] for lang in ("tur", "rus", "por")})
    total = sum(SIZES.values())
    assert sampler.weights["ces"] == pytest.approx(SIZES["ces"] / total)
    assert sampler.weights["tur"] > SIZES["tur"] / total


def test_temperature_cools_down_at_the_step_of_its_schedule() -> None:
    cooling = everyone(Temperature([(0, 5), (5000, 1)]))
    assert cooling.weights == everyone(Temperature(5)).weights
    cooling.observe(step=4900, dev_loss=LOSS)
    assert cooling.weights == everyone(Temperature(5)).weights
    cooling.observe(step=5000, dev_loss=LOSS)
    assert cooling.weights == everyone(Temperature(1)).weights


def test_fixed_weights_are_renormalised_over_those_admitted() -> None:
    shares = dict.fromkeys(SIZES, 1.0) | {"tur": 3.0}
    assert curriculum(sampler=FixedWeights(shares)).weights == {"tur": 0.5, "rus": 1 / 6, "por": 1 / 6, "ces": 1 / 6}


def test_the_exponent_turns_inverse_competence_from_uniform_to_sharp() -> None:
    flat = curriculum(sampler=InverseCompetence(exponent=0))
    flat.observe(step=100, dev_loss=LOSS)
    assert list(flat.weights.values()) == pytest.approx([0.2] * 5)
    sharp = curriculum(sampler=InverseCompetence(exponent=2))
    sharp.observe(step=100, dev_loss=LOSS)
    # c^-2: the ratio of tur to ces is (.9330 / .7071)^2 = 2^.8
    assert sharp.weights["tur"] / sharp.weights["ces"] == pytest.approx(2**0.8)


def test_the_floor_is_the_least_that_an_admitted_language_gets() -> None:
    floored = curriculum(sampler=InverseCompetence(floor=0.1))
    floored.observe(step=100, dev_loss=LOSS | {"ces": 0.0})
    assert min(floored.weights.values()) == pytest.approx(0.1, abs=0.005)
    assert min(floored.weights.values()) >= 0.1
    plain = curriculum()
    plain.observe(step=100, dev_loss=LOSS)
    floored = curriculum(sampler=InverseCompetence(floor=0.1))
    floored.observe(step=100, dev_loss=LOSS)
    assert floored.weights == pytest.approx({lang: 0.1 + 0.5 * w for lang, w in plain.weights.items()})


def test_size_and_competence_draws_more_of_what_lags_behind_and_the_rest_by_size() -> None:
    both = curriculum(gate=AllAtOnce(), sampler=SizeAndCompetence(tau=2, strength=1.5))
    by_size = everyone(Temperature(2)).weights
    assert both.weights == by_size  # nothing is measured yet
    both.observe(step=100, dev_loss=LOSS)
    ratio = {lang: both.weights[lang] / by_size[lang] for lang in SIZES}
    # glg is ahead of L*, tur 0.5 bits behind, ces 0.1: 2^(1.5 x 0.5) and 2^(1.5 x 0.1), glg 1.
    assert ratio["tur"] / ratio["glg"] == pytest.approx(2**0.75)
    assert ratio["tur"] / ratio["ces"] == pytest.approx(2**0.6)
    both.observe(step=200, dev_loss=dict.fromkeys(SIZES, 0.1))  # all are ahead
    assert both.weights == pytest.approx(by_size)


def test_size_and_competence_gives_an_unmeasured_language_the_mean_factor() -> None:
    both = curriculum(gate=AllAtOnce(), sampler=SizeAndCompetence(tau=math.inf))
    both.observe(step=100, dev_loss=BENCHMARK | {"aze": math.nan, "tur": BENCHMARK["tur"] + 1})
    # Factors 2 for tur and 1 for six others: 8 / 7 on average.
    assert both.weights["aze"] / both.weights["por"] == pytest.approx(8 / 7)
    both.observe(step=200, dev_loss=LOSS | {"tur": 1e6})
    assert both.weights["tur"] == pytest.approx(1)


def test_a_huge_loss_overflows_nothing() -> None:
    ccl_m = curriculum()
    ccl_m.observe(step=100, dev_loss=LOSS | {"tur": 1e6})
    assert ccl_m.weights == {"tur": 1.0, "rus": 0.0, "por": 0.0, "ces": 0.0}
    assert ccl_m.competence["tur"] == 0.0


def test_the_actor_starts_proportional() -> None:
    weights = everyone(RewardActor()).weights
    total = sum(SIZES.values())
    error = math.fsum((weights[lang] - SIZES[lang] / total) ** 2 for lang in SIZES) / 8
    assert error < 1e-6


def test_the_actor_starts_proportional_with_many_languages_too() -> None:
    sizes = {f"l{i:03}": 1000 * (i + 1) for i in range(100)}
    weights = everyone(RewardActor(), sizes=sizes, benchmark=None).weights
    for lang, size in sizes.items():
        assert weights[lang] == pytest.approx(size / sum(sizes.values()), abs=2e-3 * 8 / 100 * 5)


@pytest.mark.slow
def test_the_released_settings_relax_slowly_from_proportional_to_the_reward() -> None:
    # With equal rewards the fixed point is uniform. Simulated for the released settings: P(aze) is .010 after one
    # call, .015 after 10, .022 after 20, .057 after 50, .125 after 100.
    actor = everyone(RewardActor(every=1))
    equal = {lang: dict.fromkeys(SIZES, 0.3) for lang in SIZES}
    shares = {}
    for call in range(1, 101):
        actor.observe(step=1000 * call, dev_loss=LOSS, gradient_cosine=equal)
        shares[call] = round(actor.weights["aze"], 3)
    assert [shares[call] for call in (1, 10, 20, 50, 100)] == [0.010, 0.015, 0.022, 0.057, 0.125]


@pytest.mark.slow
def test_the_actor_settles_at_shares_proportional_to_the_rewards() -> None:
    rewards = dict(zip(SIZES, (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8), strict=True))
    actor = everyone(RewardActor(reward="multidds", learning_rate=1e-2, every=1))
    for call in range(1, 41):
        actor.observe(step=call, dev_loss=LOSS, summed_gradient_cosine=rewards)
    total = sum(rewards.values())
    assert actor.weights == pytest.approx({lang: r / total for lang, r in rewards.items()}, abs=1e-3)


def test_multidds_s_averages_the_cosines_over_dev_languages() -> None:
    rows = {lang: {"tur": 0.1 * i, "rus": 0.3 * i} for i, lang in enumerate(SIZES, start=1)}
    by_rows = everyone(RewardActor(reward="multidds-s", every=1))
    by_rows.observe(step=1, dev_loss=LOSS, gradient_cosine=rows)
    by_means = everyone(RewardActor(reward="multiuat", every=1))
    by_means.observe(step=1, dev_loss=LOSS, uncertainty={lang: 0.2 * i for i, lang in enumerate(SIZES, start=1)})
    assert by_rows.weights == pytest.approx(by_means.weights)


def test_the_actor_moves_only_in_its_own_rounds_and_asks_for_its_reward_only_then() -> None:
    actor = everyone(RewardActor(every=2))
    start = actor.weights
    assert actor.needs == frozenset()
    assert actor.signals == {"gradient_cosine"}  # of any round
    actor.observe(step=1, dev_loss=LOSS)
    assert actor.weights == start
    assert actor.needs == {"gradient_cosine"}
    with pytest.raises(ValueError, match="this round needs gradient_cosine too"):
        actor.observe(step=2, dev_loss=LOSS)
    actor.observe(step=2, dev_loss=LOSS, gradient_cosine={lang: {"tur": 0.5} for lang in SIZES})
    assert actor.weights != start


def test_the_actor_uses_the_last_reward_of_a_language_or_the_mean_where_one_is_missing() -> None:
    known = {lang: 0.5 for lang in SIZES}
    partial = {lang: value for lang, value in known.items() if lang != "bel"}
    full, without = (everyone(RewardActor(reward="multiuat", every=1)) for _ in range(2))
    full.observe(step=1, dev_loss=LOSS, uncertainty=known)
    without.observe(step=1, dev_loss=LOSS, uncertainty=partial)
    assert without.weights == pytest.approx(full.weights)  # the mean of the others is .5 as well
    full.observe(step=2, dev_loss=LOSS, uncertainty=known | {"bel": math.nan})
    assert full.explain()["refused"] == {"uncertainty": {"bel": 1}}
    without.observe(step=2, dev_loss=LOSS, uncertainty=known)
    assert without.weights == pytest.approx(full.weights)


def test_the_actor_stays_where_it_is_without_any_reward() -> None:
    actor = everyone(RewardActor(every=1))
    start = actor.weights
    for number in range(3):
        actor.observe(step=number, dev_loss=LOSS, gradient_cosine={lang: {"tur": math.nan} for lang in SIZES})
    assert actor.weights == start
    assert actor.explain()["refused"]["gradient_cosine"]["tur"] == 3


def test_a_language_that_joins_later_brings_the_logit_that_the_fit_gave_it() -> None:
    gate = StepGate({"bel": 150})
    late = curriculum(gate=gate, sampler=RewardActor(reward="multiuat", every=1))
    assert "bel" not in late.weights
    late.observe(step=100, dev_loss=LOSS, uncertainty=dict.fromkeys(SIZES, 0.5))
    late.observe(step=200, dev_loss=LOSS, uncertainty=dict.fromkeys(SIZES, 0.5))
    assert 0 < late.weights["bel"] < 0.02


def test_the_actor_moves_no_faster_when_rewards_come_every_round() -> None:
    often, seldom = (everyone(RewardActor(reward="multiuat", every=2)) for _ in range(2))
    for step in (1, 2):
        often.observe(step=step, dev_loss=LOSS, uncertainty=dict.fromkeys(SIZES, 0.5))
    seldom.observe(step=1, dev_loss=LOSS)
    seldom.observe(step=2, dev_loss=LOSS, uncertainty=dict.fromkeys(SIZES, 0.5))
    assert often.weights == seldom.weights


@pytest.mark.slow
def test_the_actor_starts_proportional_with_a_thousand_languages() -> None:
    sizes = {f"l{i:04}": 2_000_000 // (i + 1) for i in range(1000)}
    weights = everyone(RewardActor(), sizes=sizes, benchmark=None).weights
    total = sum(sizes.values())
    assert weights == pytest.approx({lang: size / total for lang, size in sizes.items()}, rel=1e-9)
