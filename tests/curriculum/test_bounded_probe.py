"""The bounded probe: what it may cost, what it estimates, and how sure it says it is."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cclm.curriculum.bounded_probe import VISIT, BoundedProbe, Choice, Memory, Numbers

LANGUAGES = [f"l{i}" for i in range(6)]
dev_sets = st.dictionaries(
    st.sampled_from(LANGUAGES), st.lists(st.integers(1, 60), min_size=1, max_size=40), min_size=1
)


def model(probe_tokens: dict[str, list[int]], step: int, seed: int = 0) -> dict[str, Numbers]:
    """Made-up losses of all sentences at a step: those of a sentence stay similar, all fall."""
    found = {}
    for lang, tokens in probe_tokens.items():
        chance = np.random.default_rng([seed, len(lang), LANGUAGES.index(lang)])
        own = chance.normal(5, 1.2, len(tokens))
        moves = np.random.default_rng([seed, step, LANGUAGES.index(lang)]).normal(0, 0.2, len(tokens))
        found[lang] = (own * (1 + 100 / (step + 100)) + moves) * np.array(tokens)
    return found


def look(
    probe: BoundedProbe, memory: Memory, losses: dict[str, Numbers], step: int, budget: float, **weights: float
) -> tuple[Memory, Any, Choice]:
    choice = probe.choose(memory, step=step, budget=budget, weights=weights)
    measured = {lang: losses[lang][chosen] for lang, chosen in choice.sentences.items()}
    after, found = probe.update(memory, choice, measured)
    return after, found, choice


def true_loss(tokens: dict[str, list[int]], losses: dict[str, Numbers]) -> dict[str, float]:
    return {lang: float(losses[lang].sum()) / sum(tokens[lang]) for lang in tokens}


@settings(max_examples=60, deadline=None)
@given(dev_sets, st.floats(0, 2000), st.integers(0, 99))
def test_rounds_spend_no_more_than_their_budgets(tokens: dict[str, list[int]], budget: float, seed: int) -> None:
    probe = BoundedProbe(tokens, seed=seed)
    memory = probe.start()
    means = {lang: sum(counts) / len(counts) for lang, counts in tokens.items()}
    free = sum(VISIT * mean for mean in means.values())  # the credits that languages start with
    spent = 0.0
    for number in range(1, 8):
        memory, _, choice = look(probe, memory, model(tokens, number), number, budget)
        costs = {lang: len(chosen) * means[lang] for lang, chosen in choice.sentences.items()}
        if number == 1:
            continue  # the first round measures everything
        spent += sum(costs.values())
        assert spent <= number * budget + free + 1e-6
        assert sum(costs.values()) <= max(budget, *(VISIT * mean for mean in means.values())) + 1e-6
        assert all(credit >= 0 for credit in choice.credits.values())


@settings(max_examples=60, deadline=None)
@given(dev_sets, st.integers(0, 99))
def test_the_first_round_measures_everything_and_estimates_are_always_complete(
    tokens: dict[str, list[int]], seed: int
) -> None:
    probe = BoundedProbe(tokens, seed=seed)
    memory, found, choice = look(probe, probe.start(), model(tokens, 1), 1, 0.0)
    assert {lang: len(chosen) for lang, chosen in choice.sentences.items()} == {
        lang: len(counts) for lang, counts in tokens.items()
    }
    assert found.dev_loss == pytest.approx(true_loss(tokens, model(tokens, 1)))
    for step in (2, 3, 4):
        assert set(found.dev_loss) == set(found.dev_loss_se) == set(tokens)
        assert all(math.isfinite(value) for value in (*found.dev_loss.values(), *found.dev_loss_se.values()))
        memory, found, _ = look(probe, memory, model(tokens, step), step, 50.0)


@settings(max_examples=60, deadline=None)
@given(dev_sets, st.integers(0, 99))
def test_with_a_budget_for_everything_it_is_exact(tokens: dict[str, list[int]], seed: int) -> None:
    probe = BoundedProbe(tokens, seed=seed)
    memory = probe.start()
    for step in (1, 2):
        memory, found, choice = look(probe, memory, model(tokens, step), step, 1e9)
        truth = true_loss(tokens, model(tokens, step))
        for lang, counts in tokens.items():
            assert choice.sentences[lang].tolist() == list(range(len(counts)))
            assert found.dev_loss[lang] == pytest.approx(truth[lang])
            assert found.dev_loss_se[lang] == 0


@settings(max_examples=60, deadline=None)
@given(dev_sets, st.floats(-2, 2), st.integers(0, 99))
def test_a_change_that_all_tokens_share_is_found_exactly(
    tokens: dict[str, list[int]], change: float, seed: int
) -> None:
    """Once everything is remembered, a few sentences of some languages are enough, and no error is claimed."""
    probe = BoundedProbe(tokens, seed=seed)
    losses = model(tokens, 1)
    memory = look(probe, probe.start(), losses, 1, 0.0)[0]
    moved = {lang: values + change * np.array(tokens[lang]) for lang, values in losses.items()}
    after, found, choice = look(probe, memory, moved, 2, 200.0)
    truth = true_loss(tokens, moved)
    for lang in choice.sentences or ():
        assert found.dev_loss[lang] == pytest.approx(truth[lang], abs=1e-6)
        np.testing.assert_allclose(after.losses[lang], moved[lang], atol=1e-6)
    if choice.sentences:
        assert found.dev_loss == pytest.approx(truth, abs=1e-6)  # the others move with the mean
        assert max(found.dev_loss_se.values()) < 1e-6


def test_the_standard_error_is_that_of_a_ratio_estimate_without_replacement() -> None:
    """By hand: 20 sentences of 2 and 4 tokens, of which 8 are measured; Cochran's formula (1977, 6.13)."""
    tokens = {"l0": [2, 4] * 10}
    probe = BoundedProbe(tokens)
    memory = probe.refresh(probe.start(), {"l0": np.zeros(20)})
    losses, chosen = np.arange(20.0), np.array([0, 1, 4, 7, 9, 10, 16, 19])
    memory, found = probe.update(memory, Choice({"l0": chosen}, {"l0": 0.0}), {"l0": losses[chosen]})
    x, k = losses[chosen], np.array(tokens["l0"])[chosen]
    ratio = x.sum() / k.sum()
    variance = (1 - 8 / 20) / 8 / k.mean() ** 2 * ((x - ratio * k) ** 2).sum() / 7
    assert found.dev_loss_se["l0"] == pytest.approx(math.sqrt(variance))
    rest = sum(tokens["l0"]) - k.sum()
    assert found.dev_loss["l0"] == pytest.approx((x.sum() + ratio * rest) / sum(tokens["l0"])) == pytest.approx(ratio)
    assert memory.losses["l0"][chosen].tolist() == x.tolist()


def test_errors_are_within_two_standard_errors_nearly_always_and_smaller_than_those_of_fresh_samples() -> None:
    tokens = {lang: [5 + i % 20 for i in range(300)] for lang in LANGUAGES}
    errors, claimed, fresh = [], [], []
    for seed in range(20):
        probe = BoundedProbe(tokens, seed=seed)
        memory = probe.start()
        for step in range(50, 1050, 50):
            losses = model(tokens, step, seed)
            truth = true_loss(tokens, losses)
            memory, found, choice = look(probe, memory, losses, step, 2500.0, **dict.fromkeys(LANGUAGES, 1.0))
            for lang, chosen in choice.sentences.items():
                counts = np.array(tokens[lang])[chosen]
                fresh.append(losses[lang][chosen].sum() / counts.sum() - truth[lang])
            errors += [found.dev_loss[lang] - truth[lang] for lang in tokens]
            claimed += list(found.dev_loss_se.values())
    within = np.abs(errors) <= 2 * np.array(claimed)
    assert 0.9 < within.mean() < 0.99
    assert np.sqrt(np.mean(np.square(errors))) < 0.5 * np.sqrt(np.mean(np.square(fresh)))


def test_every_language_has_its_turn_and_those_that_decide_more_often() -> None:
    tokens = {f"l{i:03}": [25] * 100 for i in range(300)}
    hrls = [lang for lang in tokens if lang < "l020"]
    vouching = {lang: {hrl: float(hrl < "l005") / 5 for hrl in hrls} for lang in tokens if lang not in hrls}
    probe = BoundedProbe(tokens, vouching=vouching)
    memory = probe.start()
    visits: dict[str, int] = dict.fromkeys(tokens, 0)
    weights = dict.fromkeys(hrls, 1 / len(hrls))
    for step in range(1, 61):
        losses = {lang: np.full(100, 25 * 5.0) for lang in tokens}
        memory, _, choice = look(probe, memory, losses, step, 10_000.0, **weights)
        assert step == 1 or 10 < len(choice.sentences) < 100  # never all at once, never nobody
        for lang, chosen in choice.sentences.items():
            visits[lang] += len(chosen)
    assert min(visits.values()) > 100 + 8
    visits = {lang: count - 100 for lang, count in visits.items()}  # since the first round
    vouchers = np.mean([visits[lang] for lang in hrls if lang < "l005"])
    admitted = np.mean([visits[lang] for lang in hrls if lang >= "l005"])
    waiting = np.mean([visits[lang] for lang in tokens if lang not in hrls])
    assert vouchers > 2 * admitted > 4 * waiting


def test_a_language_that_waits_for_its_turn_moves_with_the_others_and_grows_less_certain() -> None:
    tokens = {"l0": [10] * 500, "l1": [10] * 500, "l2": [10] * 500}
    probe = BoundedProbe(tokens, seed=2)
    losses = {lang: np.linspace(40, 60, 500) for lang in tokens}
    memory = probe.refresh(probe.start(), losses)
    lower = {lang: values - 10 * drop for (lang, values), drop in zip(losses.items(), (0.5, 0.3, 0.4), strict=True)}
    choice = Choice({lang: np.arange(20) for lang in ("l0", "l1")}, dict.fromkeys(tokens, 0.0))
    after, found = probe.update(memory, choice, {lang: lower[lang][:20] for lang in choice.sentences})
    assert found.dev_loss["l2"] == pytest.approx(5.0 - 0.4)
    between = np.var([0.5, 0.3], ddof=1)
    assert found.dev_loss_se["l2"] == pytest.approx(math.sqrt(between + between / 2))
    again, more = probe.update(after, choice, {lang: lower[lang][:20] for lang in choice.sentences})
    assert more.dev_loss["l2"] == pytest.approx(5.0 - 0.4)
    assert more.dev_loss_se["l2"] > found.dev_loss_se["l2"]
    one = Choice({"l0": np.arange(20)}, dict.fromkeys(tokens, 0.0))
    assert probe.update(again, one, {"l0": lower["l0"][:20]})[0].spread == again.spread  # one says nothing of others
    nobody = probe.update(again, Choice({}, dict.fromkeys(tokens, 0.0)), {})[1]
    assert nobody.dev_loss == pytest.approx(more.dev_loss)


def test_losses_that_are_not_finite_are_not_remembered() -> None:
    tokens = {"l0": [3] * 30, "l1": [3] * 30}
    probe = BoundedProbe(tokens)
    good = {lang: np.full(30, 12.0) for lang in tokens}
    memory, _, _ = look(probe, probe.start(), good, 1, 1e9)
    memory, found, _ = look(probe, memory, {"l0": np.full(30, math.nan), "l1": np.full(30, 6.0)}, 2, 1e9)
    assert math.isnan(found.dev_loss["l0"])
    assert found.dev_loss["l1"] == 2.0
    assert np.isfinite(memory.losses["l0"]).all()
    never = probe.refresh(probe.start(), {"l0": np.full(30, math.nan), "l1": np.full(30, 6.0)})
    assert never.unknown == ("l0",)
    assert math.isnan(probe.estimate(never).dev_loss["l0"])
    assert len(probe.choose(never, step=3, budget=0.0, weights={}).sentences["l0"]) == 30  # tried again
    refreshed = probe.refresh(memory, {"l0": np.full(30, math.inf), "l1": np.full(30, 3.0)})
    assert refreshed.losses["l0"].tolist() == memory.losses["l0"].tolist()
    assert probe.estimate(refreshed).dev_loss["l1"] == 1.0


def test_the_same_seed_step_and_language_give_the_same_sentences_in_any_order_of_declaration() -> None:
    tokens = {"l0": [4] * 90, "l1": [7] * 80}
    first, second = (BoundedProbe(each, seed=3) for each in (tokens, dict(reversed(tokens.items()))))
    losses = {lang: np.ones(len(counts)) for lang, counts in tokens.items()}
    known = first.refresh(first.start(), losses)
    one, other = (
        probe.choose(probe.refresh(probe.start(), losses), step=9, budget=300.0, weights={"l0": 1.0})
        for probe in (first, second)
    )
    assert {lang: chosen.tolist() for lang, chosen in one.sentences.items()} == {
        lang: chosen.tolist() for lang, chosen in other.sentences.items()
    }
    later = first.choose(known, step=10, budget=300.0, weights={"l0": 1.0})
    assert later.sentences["l0"].tolist() != one.sentences["l0"].tolist()


@pytest.mark.parametrize("tokens", [[], [3, 0]])
def test_a_dev_set_without_tokens_is_refused(tokens: list[int]) -> None:
    with pytest.raises(ValueError, match="dev set of l0: every sentence needs at least 1 target token"):
        BoundedProbe({"l0": tokens})
