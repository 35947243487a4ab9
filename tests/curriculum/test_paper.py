"""The paper's equations and its Figure 1, on numbers that can be worked out by hand."""

import math

import pytest
from worked_example import BENCHMARK, HRLS, LOSS, LRLS, SIZES, curriculum, graph

from cclm import AllAtOnce, CompetenceGate, Temperature
from cclm.curriculum import hrls_evaluated_avg, hrls_evaluated_max, likelihood_score, self_evaluated

COMPETENCE = {lang: self_evaluated(LOSS[lang], BENCHMARK[lang]) for lang in LOSS}


def rounded(values: dict[str, float], digits: int = 4) -> dict[str, float]:
    return {lang: round(value, digits) for lang, value in values.items()}


def test_likelihood_score_halves_with_every_bit() -> None:
    # Eq. 11: s = 2^-L, so 0 bits is certainty and 2 bits one in four.
    assert [likelihood_score(loss) for loss in (0, 1, 2)] == [1, 0.5, 0.25]


def test_self_evaluated_competence() -> None:
    # Eq. 12: c = 2^(L* - L). tur is 0.5 bits behind its bitext model: 2^-0.5 = .7071; rus .3: .8123; por .2: .8706;
    # ces .1: .9330; aze .63: .6462; bel .157: .8969; glg is .391 bits ahead: 2^.391 = 1.3113; slk .395: .7605.
    expected = {"tur": 0.7071, "rus": 0.8123, "por": 0.8706, "ces": 0.9330}
    expected |= {"aze": 0.6462, "bel": 0.8969, "glg": 1.3113, "slk": 0.7605}
    assert rounded(COMPETENCE) == pytest.approx(expected)


def test_self_evaluated_competence_is_the_quotient_of_the_scores() -> None:
    for lang, competence in COMPETENCE.items():
        assert competence == pytest.approx(likelihood_score(LOSS[lang]) / likelihood_score(BENCHMARK[lang]))


def test_hrls_evaluated_competence_max() -> None:
    # Eq. 13: the competence of the nearest HRL; aze-tur, bel-rus, glg-por, slk-ces.
    assert rounded(hrls_evaluated_max(graph(), COMPETENCE)) == {
        "aze": 0.7071,
        "bel": 0.8123,
        "glg": 0.8706,
        "slk": 0.933,
    }


def test_hrls_evaluated_competence_avg() -> None:
    # Eq. 14. aze: similarities .50 .09 .22 .24 sum to 1.05;
    # (.50 x .7071 + .09 x .8123 + .22 x .8706 + .24 x .9330) / 1.05 = .8421 / 1.05 = .8020. The others likewise.
    assert rounded(hrls_evaluated_avg(graph(), COMPETENCE)) == {
        "aze": 0.802,
        "bel": 0.8234,
        "glg": 0.848,
        "slk": 0.8621,
    }


def test_shares_of_the_hrls_sum_to_one_for_each_lrl() -> None:
    # aze: .50/1.05 .09/1.05 .22/1.05 .24/1.05; rows are HRLs in canonical order (ces, por, rus, tur).
    shares = graph().shares
    assert shares[:, 0].tolist() == pytest.approx([0.24 / 1.05, 0.22 / 1.05, 0.09 / 1.05, 0.50 / 1.05])
    assert shares.sum(axis=0).tolist() == pytest.approx([1, 1, 1, 1])


def test_a_round_of_ccl_m_avg() -> None:
    # t = .85: of the averages above only slk (.8621) passes. Then Eq. 15 over the five:
    # 1/c = tur 1.4142 rus 1.2311 por 1.1487 ces 1.0718 slk 1.3150, sum 6.1808.
    ccl_m = curriculum()
    assert ccl_m.weights == {"tur": 0.25, "rus": 0.25, "por": 0.25, "ces": 0.25}  # uniform cold start
    assert ccl_m.observe(step=100, dev_loss=LOSS) == ("slk",)
    assert rounded(ccl_m.weights) == {"tur": 0.2288, "rus": 0.1992, "por": 0.1859, "ces": 0.1734, "slk": 0.2127}


def test_a_round_of_ccl_m_max() -> None:
    # t = .85: glg (.8706) and slk (.9330) pass. 1/c of glg is .7626; the sum is 6.9434.
    ccl_m = curriculum(gate=CompetenceGate(graph(), aggregate="max", threshold=0.85))
    assert ccl_m.observe(step=100, dev_loss=LOSS) == ("glg", "slk")
    expected = {"tur": 0.2037, "rus": 0.1773, "por": 0.1654, "ces": 0.1544, "glg": 0.1098, "slk": 0.1894}
    assert rounded(ccl_m.weights) == expected


def test_temperature_sampling_of_the_related_set() -> None:
    # Eq. 5 with tau = 5: (n_i / N)^.2, normalised; aze: 5940^.2 = 5.69 of 71.2.
    weights = curriculum(gate=AllAtOnce(), sampler=Temperature(5)).weights
    expected = {"aze": 0.080, "bel": 0.076, "glg": 0.089, "slk": 0.128}
    expected |= {"tur": 0.160, "rus": 0.164, "por": 0.160, "ces": 0.142}
    assert rounded(weights, 3) == pytest.approx(expected)


def test_uniform_and_proportional_are_the_limits_of_temperature() -> None:
    # Eq. 3 and 4.
    assert set(curriculum(gate=AllAtOnce(), sampler=Temperature(math.inf)).weights.values()) == {1 / 8}
    proportional = {lang: size / sum(SIZES.values()) for lang, size in SIZES.items()}
    assert curriculum(gate=AllAtOnce(), sampler=Temperature(1)).weights == pytest.approx(proportional)


def losses_for(competence: dict[str, float]) -> dict[str, float]:
    """Dev losses at which the model has just these competencies (Eq. 12 turned round)."""
    return {lang: BENCHMARK[lang] - math.log2(competence.get(lang, 0.5)) for lang in SIZES}


def test_the_languages_are_admitted_in_the_order_of_figure_1() -> None:
    # t = .8 on the average. Shares (tur rus por ces): aze .476 .086 .210 .229, bel .174 .493 .174 .159,
    # glg .205 .060 .504 .231, slk .227 .061 .197 .515.
    figure = curriculum(gate=CompetenceGate(graph(), aggregate="avg", threshold=0.8))
    rounds = [
        # (a) nobody: slk is the nearest to it with .7
        ({"tur": 0.7, "rus": 0.5, "por": 0.7, "ces": 0.7}, ()),
        # (b) ces at .95: slk .159 + .031 + .138 + .489 = .817; aze .741, glg .746, bel .641
        ({"tur": 0.7, "rus": 0.5, "por": 0.7, "ces": 0.95}, ("slk",)),
        # (c) tur and por at .85: aze .852, glg .858; bel .743, for it looks to rus
        ({"tur": 0.85, "rus": 0.6, "por": 0.85, "ces": 0.95}, ("aze", "glg")),
        # (d) rus at .85: bel .866
        ({"tur": 0.85, "rus": 0.85, "por": 0.85, "ces": 0.95}, ("bel",)),
    ]
    for number, (competence, admitted) in enumerate(rounds, start=1):
        assert figure.observe(step=100 * number, dev_loss=losses_for(competence)) == admitted
    assert figure.admitted == (*HRLS, "slk", "aze", "glg", "bel")
    assert set(figure.admitted) == {*HRLS, *LRLS}


def test_an_lrl_waits_until_its_nearest_hrl_passes_the_threshold() -> None:
    gate = CompetenceGate(graph(), aggregate="max", threshold=0.8)
    ccl_m = curriculum(gate=gate)
    everyone_but_rus = {"tur": 0.9, "rus": 0.79, "por": 0.9, "ces": 0.9}
    assert ccl_m.observe(step=100, dev_loss=losses_for(everyone_but_rus)) == ("aze", "glg", "slk")
    assert ccl_m.observe(step=200, dev_loss=losses_for(everyone_but_rus | {"rus": 0.81})) == ("bel",)


def test_competence_equal_to_the_threshold_is_enough() -> None:
    # Algorithm 1 has >=. One bit behind the benchmark is 2^-1 = .5, exactly.
    gate = CompetenceGate(graph(), aggregate="max", threshold=0.5)
    ccl_m = curriculum(gate=gate, benchmark=dict.fromkeys(SIZES, 4.0))
    assert ccl_m.observe(step=100, dev_loss=dict.fromkeys(SIZES, 5.0)) == tuple(LRLS)


def test_threshold_0_admits_all_in_the_first_round() -> None:
    ccl_m = curriculum(gate=CompetenceGate(graph(), threshold=0))
    assert ccl_m.observe(step=100, dev_loss=LOSS) == tuple(LRLS)


def test_an_infinite_threshold_leaves_all_to_the_second_phase() -> None:
    ccl_m = curriculum(gate=CompetenceGate(graph(), threshold=math.inf))
    assert ccl_m.observe(step=100, dev_loss=LOSS) == ()
    assert ccl_m.admit_remaining() == tuple(LRLS)
    assert set(ccl_m.weights) == set(SIZES)


def test_inverse_competence_favours_the_easiest_language_while_all_losses_are_alike() -> None:
    # Eq. 15 with equal L leaves 2^-L*: por (3.687) .364, tur .231, ces .208, rus .197.
    ccl_m = curriculum()
    ccl_m.observe(step=100, dev_loss=dict.fromkeys(SIZES, 12.0))
    assert rounded(ccl_m.weights, 3) == {"tur": 0.231, "rus": 0.197, "por": 0.364, "ces": 0.208}
