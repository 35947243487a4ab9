"""The paper's figures as data: they agree with one another as far as they do in print."""

import pytest

from cclm.paper import language_set, tables

SETS = ("related", "diverse")


@pytest.mark.parametrize("column", ["m2o_related", "m2o_diverse", "o2m_related", "o2m_diverse"])
def test_the_tables_agree_with_one_another(column: str) -> None:
    # The average of each individual row is the main table's figure; two averages differ in print (docs/paper.md).
    known = {("o2m_related", "CCL-M-avg")}
    for method, row in tables()["individual_bleu"][column].items():
        mean = sum(value for lang, value in row.items() if lang != "average") / 8
        assert row["average"] == pytest.approx(mean, abs=0.016)
        if (column, method) not in known:
            assert tables()["table1_main"][method][column] == pytest.approx(row["average"])


@pytest.mark.parametrize("name", SETS)
def test_each_set_has_four_hrls_and_four_lrls(name: str) -> None:
    languages = language_set(name)
    assert (len(languages.graph.high_resource), len(languages.graph.low_resource)) == (4, 4)
    assert set(languages.sizes) == set(languages.benchmark) == set(languages.graph.languages)
    smallest_hrl = min(languages.sizes[hrl] for hrl in languages.graph.high_resource)
    assert smallest_hrl > max(languages.sizes[lrl] for lrl in languages.graph.low_resource)


@pytest.mark.parametrize("name", SETS)
def test_into_english_is_easier(name: str) -> None:
    into, out_of = language_set(name).benchmark, language_set(name, "one-to-many").benchmark
    assert all(into[lang] < out_of[lang] for lang in into)
