"""Documents as HTML and Markdown: number formats, tables, escaping, axes of figures."""

import math
import re
import xml.etree.ElementTree as ElementTree
from html import unescape
from itertools import pairwise

import pytest
from made_run import EVIL

from cclm.report.document import (
    SCROLL_ROWS,
    Cell,
    Document,
    Figure,
    Paragraph,
    Section,
    Table,
    abbreviated,
    as_markdown,
    cross_table,
    decimal,
    document_page,
    escape_markdown,
    integer,
    interval,
    mark_best,
    mean,
    name_seeds,
    p_value,
    percent,
    signed,
    standard_deviation,
    with_deviation,
)
from cclm.report.svg import PAINTS, axis_range, frame, text, ticks


def document(*blocks: Table | Paragraph | Figure) -> Document:
    return Document("kind", "name", "lead", [Section("one", "One", blocks)])


def test_numbers_use_a_minus_sign_and_missing_values_a_dash() -> None:
    assert (decimal(-1.256), decimal(None), decimal(1234.5, 1)) == ("−1.26", "–", "1,234.5")
    assert (signed(0.5), signed(-0.5), signed(None)) == ("+0.50", "−0.50", "–")
    assert (integer(12345.4), abbreviated(9_999), abbreviated(12_345), abbreviated(2_304_000)) == (
        "12,345",
        "9,999",
        "12 k",
        "2.3 M",
    )
    assert (interval(-0.1, 0.4), interval(None, None)) == ("−0.10 to +0.40", "–")
    assert (p_value(0.0004), p_value(0.0123), p_value(None)) == ("< 0.001", "0.012", "–")


def test_seeds_in_a_row_are_named_by_the_first_and_the_last() -> None:
    assert [name_seeds(seeds) for seeds in ([3], [1, 2], [1, 2, 3], [1, 4, 9])] == [
        "seed 3",
        "seeds 1, 2",
        "seeds 1 to 3",
        "seeds 1, 4, 9",
    ]
    assert percent(0.125) == "12\u00a0%"


def test_a_mean_has_the_sample_standard_deviation_unless_there_is_one_seed() -> None:
    # 1, 2, 6: mean 3, squared deviations 4 + 1 + 9 = 14, over n - 1 = 2 is 7
    assert with_deviation(3.0, [1.0, 2.0, 6.0]) == f"3.00 ± {math.sqrt(7):.2f}"
    assert with_deviation(3.0, [3.0]) == "3.00"
    assert with_deviation(None, []) == "–"


def test_the_best_value_is_chosen_after_rounding() -> None:
    assert mark_best([1.234, 1.231, 1.0, None]) == [True, True, False, False]
    assert mark_best([3.0, 1.0], lowest=True) == [False, True]
    assert mark_best([3.0, None]) == [False, False]  # alone is not best


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-0.3, 0.9), (4.1, 4.13), (-2000, 70_000), (1e-4, 3e-4)])
def test_ticks_are_round_evenly_spaced_and_written_exactly(low: float, high: float) -> None:
    marks = list(ticks(low, high))
    assert 3 <= len(marks) <= 8
    assert all(low - 1e-9 <= value <= high + 1e-9 for value, _ in marks)
    for value, label in marks:
        assert float(label.replace(",", "").replace("−", "-")) == pytest.approx(value, abs=1e-12)
    gaps = [after[0] - before[0] for before, after in pairwise(marks)]
    assert gaps == pytest.approx([gaps[0]] * len(gaps))


def test_the_range_of_an_axis_is_not_empty_for_a_single_value() -> None:
    for values in ([0.0], [5.0, 5.0], [-3.0], [1e-30, 2e-30]):
        low, high = axis_range(values)
        assert low < values[0] < high
        assert 3 <= len(list(ticks(low, high))) <= 8


def test_an_axis_of_huge_values_is_finite_and_has_short_labels() -> None:
    labels = [label for _, label in ticks(*axis_range([-1e308, 1e308]))]
    assert 3 <= len(labels) <= 8
    assert max(map(len, labels)) < 10


def test_means_and_deviations_of_huge_values_are_finite() -> None:
    assert mean([1e308, 1e308]) == 1e308
    assert math.isfinite(standard_deviation([1e307, -1e307]))
    assert decimal(1e308) == "1e+308"
    assert signed(-1e308) == "−1e+308"


def test_a_table_with_too_many_columns_is_transposed() -> None:
    def product(row: str, name: str) -> Cell:
        return Cell(f"{row}{name}")

    few = cross_table("c", ("arm", ["a", "b"]), ("language", ["x", "y", "z"]), product)
    assert (list(few.head), few.rows[0][3].text) == (["arm", "x", "y", "z"], "az")
    names = [f"l{i}" for i in range(40)]
    many = cross_table("c", ("arm", ["a", "b"]), ("language", names), product)
    assert (list(many.head), len(many.rows), many.rows[39][2].text) == (["language", "a", "b"], 40, "bl39")


def test_html_escapes_every_text() -> None:
    table = Table(EVIL, (EVIL, EVIL), [[Cell(EVIL), Cell(EVIL, best=True, mark=EVIL)]], EVIL)
    made = Document(EVIL, EVIL, EVIL, [Section("one", EVIL, [Paragraph(EVIL), table, Figure(EVIL, [], EVIL, "x.svg")])])
    page = document_page(made)
    assert "<script" not in page
    assert "<img" not in page
    assert page.count("&lt;img src=x") == 15
    assert "&#34;" in page


def test_a_page_allows_its_own_styles_and_nothing_else() -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', document_page(document()))
    assert policy is not None
    assert re.fullmatch(r"default-src 'none'; .*; style-src( 'sha256-[\w+/=]{44}'){2}", unescape(policy[1]))


def test_a_long_table_scrolls_below_a_fixed_header() -> None:
    rows = [[Cell(str(i)), Cell("1")] for i in range(SCROLL_ROWS + 1)]
    assert '<div class="wide tall"' in document_page(document(Table("t", ("a", "b"), rows)))
    assert '<div class="wide tall"' not in document_page(document(Table("t", ("a", "b"), rows[1:])))


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    made = document(Paragraph("a\ud800b"))
    assert "a?b" in document_page(made)
    assert "a?b" in as_markdown(made)


def test_markdown_has_tables_with_bold_for_the_best() -> None:
    table = Table(
        "Title", ("name", "n"), [[Cell("a|b"), Cell("1", best=True, mark="†")], [Cell("c"), Cell("2")]], "Note."
    )
    made = as_markdown(document(table, Paragraph("so", strong=True)))
    rows = "| name | n |\n| --- | ---: |\n| a\\|b | **1**† |\n| c | 2 |"
    assert made == f"# name\n\nlead\n\n## One\n\n### Title\n\n{rows}\n\nNote.\n\n**so**\n"


def test_markdown_links_figures_only_if_their_folder_is_given() -> None:
    made = document(Figure("A forest", ["<svg/>"], "what is seen", "forest.svg"))
    assert as_markdown(made) == "# name\n\nlead\n"  # a part without anything in it has no heading either
    assert as_markdown(made, "pictures/").endswith("## One\n\n![A forest](pictures/forest.svg)\n\nwhat is seen\n")


def test_markdown_escapes_every_text() -> None:
    assert escape_markdown("a_b *c* `d` [e](f) <img>\n# g | h") == (r"a\_b \*c\* \`d\` \[e\](f) &lt;img\> \# g \| h")


def test_figures_have_light_and_dark_colours() -> None:
    drawing = frame([text(EVIL, 1, 2)], 100, 50, title=EVIL, description=EVIL)
    root = ElementTree.fromstring(drawing)
    style = root.findtext("{http://www.w3.org/2000/svg}style") or ""
    day, night = style.split("@media (prefers-color-scheme: dark)")
    for name, (_, light, dark) in PAINTS.items():
        assert f".p-{name} " in day
        assert light in day
        assert dark in night
    assert root.findtext("{http://www.w3.org/2000/svg}text") == EVIL
