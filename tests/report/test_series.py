"""Curves in bounded memory: bounds hold, means are means, admissions stay, and numbers are those that were given."""

import math

import pytest

from cclm.report.series import FEWEST_ROUNDS, MOST_NUMBERS, MOST_POINTS, Merged, Rounds, plain_numbers


def long_rounds(count: int, languages: int, marked: frozenset[int] = frozenset()) -> Rounds:
    rounds = Rounds(("loss",))
    for i in range(count):
        loss = {f"l{n}": float(i + n) for n in range(languages)}
        rounds.add(100 * i, {"loss": loss}, is_marked=i in marked)
    return rounds


def test_a_short_run_is_kept_whole() -> None:
    rounds = long_rounds(MOST_POINTS, 2)
    assert rounds.steps() == [100 * i for i in range(MOST_POINTS)]
    assert rounds.columns("loss", ["l1", "l0"]) == [
        [float(i + 1) for i in range(MOST_POINTS)], [float(i) for i in range(MOST_POINTS)],
    ]  # fmt: skip
    assert (rounds.measured, rounds.generation) == (MOST_POINTS, 0)


@pytest.mark.parametrize("count", [MOST_POINTS + 1, 5000, 50_001])
def test_a_long_run_keeps_the_first_the_last_and_every_admission(count: int) -> None:
    marked = frozenset({1, 333, count // 2 + 1})
    rounds = long_rounds(count, 2, marked)
    steps = rounds.steps()
    assert len(steps) <= MOST_POINTS + 1
    assert len(steps) > MOST_POINTS // 3
    assert steps == sorted(steps)
    assert {0, *(100 * i for i in marked), 100 * (count - 1)} <= set(steps)
    assert rounds.columns("loss", ["l0"])[0][-1] == count - 1  # what is kept is what was measured
    assert rounds.measured == count
    assert rounds.generation > 0


def test_with_very_many_languages_fewer_rounds_are_kept() -> None:
    rounds = long_rounds(1000, 400)
    assert FEWEST_ROUNDS / 3 < len(rounds.steps()) <= MOST_NUMBERS // 400 + 1


def test_admissions_at_every_round_do_not_break_the_bound() -> None:
    assert len(long_rounds(5000, 2, frozenset(range(5000))).steps()) <= MOST_POINTS + 1


def test_rows_before_kept_stay_the_same_within_a_generation() -> None:
    rounds = long_rounds(600, 1)
    before, generation, kept = rounds.steps(), rounds.generation, rounds.kept
    rounds.add(60_000, {"loss": {"l0": 1.0}}, is_marked=False)
    assert rounds.generation == generation
    assert rounds.steps()[:kept] == before[:kept]
    assert rounds.steps(kept) == rounds.steps()[kept:]


def test_a_language_that_appears_later_has_gaps_before() -> None:
    rounds = Rounds(("loss",))
    rounds.add(1, {"loss": {"a": 1.0}}, is_marked=False)
    rounds.add(2, {"loss": {"b": 2.0, "a": None}}, is_marked=False)
    assert rounds.columns("loss", ["a", "b", "never"]) == [[1.0, None], [None, 2.0], [None, None]]


def test_points_are_merged_into_means() -> None:
    curve = Merged(most=4)
    for step, value in enumerate([1.0, 3.0, 5.0, 7.0, 9.0, 11.0], 1):
        curve.add(step, value)
    assert curve.points() == ([2, 4, 6], [2.0, 6.0, 10.0])
    assert curve.at([4, 6]) == [4.0, 10.0]  # 1, 3, 5, 7 up to step 4
    assert curve.last == 10.0


def test_a_curve_of_any_length_has_few_points() -> None:
    curve = Merged()
    for step in range(100_000):
        curve.add(step, step % 2)
    steps, values = curve.points()
    assert len(steps) <= MOST_POINTS
    assert all(value == pytest.approx(0.5) for value in values[:-1])


def test_steps_that_are_repeated_replace_those_before() -> None:
    curve = Merged()
    for step, value in ((1, 1.0), (2, 2.0), (3, 3.0), (2, 20.0)):
        curve.add(step, value)
    assert curve.points() == ([1, 2], [1.0, 20.0])


@pytest.mark.parametrize("value", [None, math.nan, math.inf, 10**400, True, "1"])
def test_what_is_no_number_is_a_gap(value: object) -> None:
    curve, rounds = Merged(), Rounds(("loss",))
    curve.add(1, value)  # type: ignore[arg-type]
    rounds.add(1, {"loss": {"a": value}}, is_marked=False)  # type: ignore[dict-item]
    assert curve.points() == ([], [])
    assert curve.last is None
    assert rounds.columns("loss", ["a"]) == [[None]]


def test_numbers_have_five_digits() -> None:
    rounds = Rounds(("loss",))
    values = [1 / 3, 2e-4 / 3, 123456789.0, -1e99 / 3, 0.0, 1e-300]
    rounds.add(1, {"loss": {str(i): value for i, value in enumerate(values)}}, is_marked=False)
    found = rounds.columns("loss", [str(i) for i in range(len(values))])
    assert [column[0] for column in found] == pytest.approx(values, rel=1e-4)
    assert found[:3] == [[0.33333], [6.6667e-05], [123460000.0]]
    assert plain_numbers(rounds.matrix("loss", ["never"])) == [[None]]
