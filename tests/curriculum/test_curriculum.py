"""The curriculum as a whole: cold start, rounds, bad measurements, the second phase, state, refusals."""

import json
import math
from collections.abc import Mapping
from typing import Any

import pytest
from worked_example import BENCHMARK, HRLS, LOSS, LRLS, SIZES, curriculum, graph

from cclm import AllAtOnce, CompetenceGate, Curriculum, InverseCompetence, LanguageGraph, StepGate, Temperature
from cclm.curriculum import Situation


def test_it_starts_with_the_hrls_uniformly() -> None:
    ccl_m = curriculum()
    assert ccl_m.admitted == tuple(HRLS)
    assert ccl_m.candidates == tuple(LRLS)
    assert ccl_m.weights == dict.fromkeys(HRLS, 0.25)


def test_a_static_sampler_holds_from_step_0_over_the_admitted() -> None:
    weights = curriculum(sampler=Temperature(1)).weights
    hrls = sum(SIZES[hrl] for hrl in HRLS)
    assert weights == pytest.approx({hrl: SIZES[hrl] / hrls for hrl in HRLS})


def test_all_who_remain_can_be_admitted_before_any_observation() -> None:
    ccl_m = curriculum()
    assert ccl_m.admit_remaining() == tuple(LRLS)
    assert set(ccl_m.weights.values()) == {1 / 8}
    assert ccl_m.admit_remaining() == ()


def test_the_second_phase_starts_with_weights_from_the_last_round() -> None:
    # The paper's pseudocode would train on with weight 0 for the newcomers until the next round.
    ccl_m = curriculum(gate=CompetenceGate(graph(), threshold=9))
    ccl_m.observe(step=100, dev_loss=LOSS)
    ccl_m.admit_remaining()
    all_in = curriculum(gate=CompetenceGate(graph(), threshold=0))
    all_in.observe(step=100, dev_loss=LOSS)
    assert ccl_m.weights == all_in.weights
    assert ccl_m.explain()["admissions"]["bel"]["reason"] == "admitted with all that remained"


def test_an_observation_says_who_vouched() -> None:
    ccl_m = curriculum()
    ccl_m.observe(step=100, dev_loss=LOSS)
    admission = ccl_m.explain()["admissions"]["slk"]
    assert admission["step"] == 100
    assert admission["threshold"] == 0.85
    assert round(admission["hrls_competence"], 4) == 0.8621
    assert list(admission["vouched"]) == ["ces", "tur", "por", "rus"]  # in the order of similarity
    assert admission["reason"] == ("HRLs-evaluated competence 0.862 >= 0.85 (ces 0.93, tur 0.71, por 0.87, rus 0.81)")


def test_with_max_the_nearest_hrl_alone_vouches() -> None:
    ccl_m = curriculum(gate=CompetenceGate(graph(), aggregate="max", threshold=0.9))
    ccl_m.observe(step=100, dev_loss=LOSS)
    assert list(ccl_m.explain()["admissions"]["slk"]["vouched"]) == ["ces"]


def test_explain_is_plain_json_with_all_that_a_log_needs() -> None:
    ccl_m = curriculum()
    ccl_m.observe(step=100, dev_loss=LOSS)
    facts = json.loads(json.dumps(ccl_m.explain(), allow_nan=False))
    assert facts["step"] == 100
    assert facts["round"] == 1
    assert facts["dev_loss"] == LOSS
    assert list(facts["hrls_competence"]) == LRLS
    assert facts["admitted"] == [*HRLS, "slk"]
    assert facts["waiting"] == ["aze", "bel", "glg"]
    assert facts["weights"] == ccl_m.weights
    assert facts["refused"] == {}


def test_a_gate_without_a_graph_has_no_readiness_to_tell() -> None:
    assert curriculum(gate=AllAtOnce()).explain()["hrls_competence"] == {}


def test_competence_is_measured_for_static_methods_too_where_there_is_a_benchmark() -> None:
    static = curriculum(gate=AllAtOnce(), sampler=Temperature(1))
    static.observe(step=100, dev_loss=LOSS)
    assert round(static.competence["glg"], 4) == 1.3113
    without = curriculum(gate=AllAtOnce(), sampler=Temperature(1), benchmark=None)
    without.observe(step=100, dev_loss=LOSS)
    assert without.competence == {}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0, None, "4.2"])
def test_a_bad_dev_loss_changes_nothing_and_is_counted(bad: Any) -> None:
    ccl_m, untouched = curriculum(), curriculum()
    for each in (ccl_m, untouched):
        each.observe(step=100, dev_loss=LOSS)
    ccl_m.observe(step=200, dev_loss=LOSS | {"tur": bad})
    untouched.observe(step=200, dev_loss=LOSS)
    assert ccl_m.weights == untouched.weights
    assert ccl_m.explain()["dev_loss"]["tur"] == LOSS["tur"]
    assert ccl_m.explain()["refused"] == {"dev_loss": {"tur": 1}}


def test_a_language_never_measured_well_gets_the_average_share() -> None:
    ccl_m = curriculum()
    ccl_m.observe(step=100, dev_loss=LOSS | {"tur": math.nan})
    assert ccl_m.weights["tur"] == pytest.approx(1 / 4)
    assert sum(ccl_m.weights.values()) == pytest.approx(1)


def test_an_lrl_waits_while_an_hrl_that_counts_for_it_is_not_measured() -> None:
    for aggregate in ("max", "avg"):
        ccl_m = curriculum(gate=CompetenceGate(graph(), aggregate=aggregate, threshold=0))
        admitted = ccl_m.observe(step=100, dev_loss=LOSS | {"tur": math.nan})
        assert "aze" not in admitted
        assert "aze" not in ccl_m.explain()["hrls_competence"]
        assert "aze" in ccl_m.observe(step=200, dev_loss=LOSS)


def test_an_unmeasured_hrl_of_no_similarity_holds_nobody_up() -> None:
    lone = LanguageGraph(["tur", "rus"], ["aze"], {"aze": {"tur": 0.5, "rus": 0.0}})
    sizes, losses = dict.fromkeys(("tur", "rus", "aze"), 10), dict.fromkeys(("tur", "rus", "aze"), 4.0)
    ccl_m = Curriculum(CompetenceGate(lone), InverseCompetence(), sizes=sizes, benchmark=losses)
    assert ccl_m.observe(step=1, dev_loss=losses | {"rus": math.nan}) == ("aze",)
    assert ccl_m.explain()["admissions"]["aze"]["vouched"] == {"tur": 1.0}


def test_smoothing_serves_gate_and_sampler_alike() -> None:
    # Half of the past stays: 4.0 then 6.0 is 5.0.
    smooth = curriculum(smoothing=0.5)
    smooth.observe(step=100, dev_loss=dict.fromkeys(SIZES, 4.0))
    smooth.observe(step=200, dev_loss=dict.fromkeys(SIZES, 6.0))
    plain = curriculum()
    plain.observe(step=100, dev_loss=dict.fromkeys(SIZES, 4.0))
    plain.observe(step=200, dev_loss=dict.fromkeys(SIZES, 5.0))
    assert smooth.explain()["dev_loss"] == dict.fromkeys(SIZES, 5.0)
    assert smooth.weights == plain.weights
    assert smooth.competence == plain.competence


def test_a_step_gate_admits_at_its_steps() -> None:
    placebo = curriculum(gate=StepGate({"slk": 100, "aze": 250, "glg": 250, "bel": 400}))
    assert placebo.admitted == ("tur", "rus", "por", "ces")
    admissions = [placebo.observe(step=step, dev_loss=LOSS) for step in (100, 200, 300, 400)]
    assert admissions == [("slk",), (), ("aze", "glg"), ("bel",)]
    assert placebo.explain()["admissions"]["aze"] == {"step": 300, "reason": "due at step 250"}


class EveryOther:
    """A gate of one's own, which acts every second round only."""

    every = 2

    def admit(self, now: Situation) -> Mapping[str, Mapping[str, Any]]:
        return {lang: {"reason": "because"} for lang in (HRLS if not now.round else now.languages)}


class Shortest:
    """A sampler of one's own: it remembers how often it was asked."""

    needs = ("sentence_length",)

    def weights(self, now: Situation) -> Mapping[str, float]:
        now.memory["asked"] = now.memory.get("asked", 0) + 1
        length = now.signals.get("sentence_length", {})
        return {lang: 1 / length.get(lang, 1) for lang in now.admitted}


def test_ones_own_gate_and_sampler_fit_in() -> None:
    own = curriculum(gate=EveryOther(), sampler=Shortest())
    assert own.needs == {"sentence_length"}
    assert own.observe(step=1, dev_loss=LOSS, sentence_length={"tur": 3}) == ()
    assert own.weights == pytest.approx({"tur": 0.1, "rus": 0.3, "por": 0.3, "ces": 0.3})
    assert own.observe(step=2, dev_loss=LOSS, sentence_length={}) == ("aze", "bel", "glg", "slk")
    copy = curriculum(gate=EveryOther(), sampler=Shortest())
    copy.load_state_dict(json.loads(json.dumps(own.state_dict())))
    assert copy.state_dict()["memory"]["sampler"] == {"asked": 3}


@pytest.mark.parametrize("weights", [{}, {"tur": 1.0}, dict.fromkeys(HRLS, 0.0), dict.fromkeys(HRLS, math.nan)])
def test_a_sampler_of_ones_own_that_gives_nonsense_is_refused(weights: dict[str, float]) -> None:
    class Nonsense:
        def weights(self, now: Situation) -> Mapping[str, float]:
            return weights

    with pytest.raises(ValueError, match="weights of Nonsense"):
        curriculum(sampler=Nonsense())


def test_a_sampler_may_not_weigh_a_language_that_waits() -> None:
    class Eager:
        def weights(self, now: Situation) -> Mapping[str, float]:
            return dict.fromkeys(now.languages, 1.0)

    with pytest.raises(ValueError, match="weights of Eager: unknown language aze, bel, glg, slk"):
        curriculum(sampler=Eager())


def test_a_gate_of_ones_own_may_not_admit_a_stranger() -> None:
    class Generous:
        def admit(self, now: Situation) -> Mapping[str, Mapping[str, Any]]:
            return {"xxx": {"reason": "why not"}}

    with pytest.raises(ValueError, match="Generous: unknown language xxx"):
        curriculum(gate=Generous())


def test_the_state_of_another_curriculum_is_refused_with_the_difference() -> None:
    state = curriculum().state_dict()
    other = curriculum(gate=CompetenceGate(graph(), threshold=0.5))
    with pytest.raises(ValueError, match=r"state of another curriculum: gate was .*threshold=0.85.*threshold=0.5"):
        other.load_state_dict(state)
    other = curriculum(benchmark=BENCHMARK | {"bel": 7.0})
    with pytest.raises(ValueError, match="state of another curriculum: benchmark differs for bel"):
        other.load_state_dict(state)
    with pytest.raises(ValueError, match="curriculum state: version 2; this program reads 1"):
        curriculum().load_state_dict(state | {"version": 2})


def test_a_saved_state_does_not_change_with_the_curriculum() -> None:
    ccl_m = curriculum()
    ccl_m.observe(step=100, dev_loss=LOSS)
    state = ccl_m.state_dict()
    before = json.dumps(state)
    ccl_m.observe(step=200, dev_loss=dict.fromkeys(SIZES, 3.0) | {"tur": math.nan})
    assert json.dumps(state) == before


def test_weights_handed_out_are_a_copy() -> None:
    ccl_m = curriculum()
    ccl_m.weights["tur"] = 99.0
    ccl_m.sizes["tur"] = 1
    assert ccl_m.weights["tur"] == 0.25
    assert ccl_m.sizes == SIZES


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sizes": {}}, "sizes: no language"),
        ({"sizes": SIZES | {"tur": -1}}, "sizes: tur has -1 training pairs"),
        ({"sizes": SIZES | {"tur": 0}}, "sizes: tur has 0 training pairs"),
        ({"sizes": SIZES | {"tur": 1.5}}, r"sizes: tur has 1.5 training pairs"),
        ({"sizes": SIZES | {"tur": math.inf}}, "sizes: tur has inf training pairs"),
        ({"sizes": SIZES | {"tur": "many"}}, "sizes: tur has 'many' training pairs"),
        ({"sizes": SIZES | {"a/b": 1}}, "sizes: 'a/b' is no language name"),
        ({"sizes": SIZES | {"..": 1}}, "sizes: '..' is no language name"),
        ({"sizes": SIZES | {"kaz": 1}, "benchmark": BENCHMARK | {"kaz": 5.0}}, "language graph: unknown language kaz"),
        ({"sizes": {k: v for k, v in SIZES.items() if k != "bel"}, "benchmark": {}}, r"\(L\*\) for CompetenceGate"),
        ({"benchmark": None}, r"benchmark losses \(L\*\) for CompetenceGate: nothing for aze, bel, ces, glg"),
        ({"benchmark": BENCHMARK | {"xyz": 4.0}}, "benchmark: unknown language xyz; known are aze, bel"),
        ({"benchmark": BENCHMARK | {"aze": 0.0}}, r"L\* of aze is 0.0; it must lie between 0 and 64 bits per token"),
        ({"benchmark": BENCHMARK | {"aze": math.nan}}, r"L\* of aze is nan"),
        ({"benchmark": BENCHMARK | {"aze": 180.0}}, r"not a sum over the sentence"),
        ({"benchmark": BENCHMARK | {"aze": "7"}}, r"L\* of aze is '7'"),
        ({"benchmark": BENCHMARK | {"aze": True}}, r"L\* of aze is True"),
        ({"smoothing": 1.0}, "smoothing must be at least 0 and below 1; got 1.0"),
        ({"smoothing": None}, "smoothing must be at least 0 and below 1; got None"),
        ({"gate": StepGate(dict.fromkeys(SIZES, 5))}, "StepGate admits no language at the start"),
        ({"gate": StepGate({"xyz": 5})}, "StepGate: unknown language xyz"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        curriculum(**changes)


def test_a_language_of_the_graph_without_a_size_is_refused() -> None:
    sizes = {lang: size for lang, size in SIZES.items() if lang != "bel"}
    benchmark = {lang: loss for lang, loss in BENCHMARK.items() if lang != "bel"}
    with pytest.raises(ValueError, match="sizes: nothing for bel"):
        curriculum(sizes=sizes, benchmark=benchmark)


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        ({"step": 99, "dev_loss": LOSS}, "observe: step 99 after step 100"),
        ({"step": 101.5, "dev_loss": LOSS}, "observe: step 101.5 after step 100"),
        ({"step": True, "dev_loss": LOSS}, "observe: step True"),
        ({"step": 200, "dev_loss": {"tur": 4.0}}, "dev_loss: nothing for aze, bel, ces, glg, por, rus, slk"),
        ({"step": 200, "dev_loss": LOSS | {"xyz": 1.0}}, "dev_loss: unknown language xyz"),
        ({"step": 200, "dev_loss": LOSS, "train_los": LOSS}, "observe: unknown signal 'train_los'; known are dev_loss"),
        ({"step": 200, "dev_loss": LOSS, "train_loss": {"xyz": 1.0}}, "train_loss: unknown language xyz"),
    ],
)
def test_an_observation_that_cannot_be_is_refused(observation: dict[str, Any], message: str) -> None:
    ccl_m = curriculum()
    ccl_m.observe(step=100, dev_loss=LOSS)
    with pytest.raises(ValueError, match=message):
        ccl_m.observe(**observation)


def test_a_refused_observation_leaves_no_trace() -> None:
    ccl_m = curriculum()
    before = json.dumps(ccl_m.state_dict())
    with pytest.raises(ValueError, match="unknown language xyz"):
        ccl_m.observe(step=100, dev_loss=LOSS | {"tur": math.nan, "xyz": 1.0})
    assert json.dumps(ccl_m.state_dict()) == before


class Latest:
    """A sampler of one's own that follows the dev losses, every second round."""

    every = 2

    def weights(self, now: Situation) -> Mapping[str, float]:
        now.memory["asked"] = now.memory.get("asked", 0) + 1
        return {lang: now.dev_loss.get(lang, 1.0) for lang in now.admitted}


def test_a_sampler_with_an_interval_acts_only_in_its_rounds() -> None:
    own = curriculum(gate=StepGate({"bel": 300}), sampler=Latest())
    start = own.weights
    own.observe(step=100, dev_loss=LOSS)
    assert own.weights == start
    own.observe(step=200, dev_loss=LOSS)
    assert own.weights != start
    before = own.weights
    assert own.observe(step=300, dev_loss=LOSS) == ("bel",)
    assert "bel" in own.weights  # a newcomer has its weight at once
    assert set(before) < set(own.weights)
