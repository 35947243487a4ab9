"""The table of similarities: the paper's matrix, and a list where a matrix would be too wide."""

from rich.console import Console
from worked_example import HRLS, LRLS, SIMILARITY, graph

from cclm import LanguageGraph
from cclm.report.graph import similarity_table


def printed(given: LanguageGraph) -> str:
    console = Console(width=120, color_system=None, legacy_windows=False)
    with console.capture() as capture:
        console.print(similarity_table(given))
    return capture.get()


def rows(given: LanguageGraph) -> list[list[str]]:
    """The words of each row, without the frame."""
    return [line.replace("│", " ").split() for line in printed(given).splitlines() if line.startswith("│")]


def wide(num_lrls: int, hrls: tuple[str, ...] = ("tur", "rus", "por", "ces")) -> LanguageGraph:
    """LRLs that all resemble the HRLs by 0.1, 0.2, 0.3, ... in the order of declaration."""
    each = {hrl: (i + 1) / 10 for i, hrl in enumerate(hrls)}
    return LanguageGraph(hrls, [f"l{j:02}" for j in range(num_lrls)], {f"l{j:02}": each for j in range(num_lrls)})


def test_it_is_the_matrix_of_the_papers_appendix_with_the_nearest_starred() -> None:
    assert rows(graph()) == [
        ["tur", "0.50*", "0.12", "0.24", "0.30"],
        ["rus", "0.09", "0.34*", "0.07", "0.08"],
        ["por", "0.22", "0.12", "0.59*", "0.26"],
        ["ces", "0.24", "0.11", "0.27", "0.68*"],
    ]


def test_the_columns_are_the_lrls_as_declared() -> None:
    assert [str(column.header) for column in similarity_table(graph()).columns] == ["HRL", *LRLS]


def test_the_nearest_is_bold_as_well() -> None:
    columns = similarity_table(graph()).columns[1:]
    bold = [str(cell) for column in columns for cell in column.cells if "bold" in str(getattr(cell, "style", ""))]
    assert bold == ["0.50*", "0.34*", "0.59*", "0.68*"]


def test_among_equals_the_first_declared_is_the_nearest() -> None:
    tied = {"aze": {"rus": 0.3, "tur": 0.3}}
    assert rows(LanguageGraph(["tur", "rus"], ["aze"], tied)) == [["tur", "0.30*"], ["rus", "0.30"]]


def test_an_lrl_like_nobody_has_no_star_and_the_caption_says_so() -> None:
    lonely = LanguageGraph(HRLS, LRLS, SIMILARITY | {"bel": dict.fromkeys(HRLS, 0.0)})
    assert [row[2] for row in rows(lonely)] == ["0.00"] * 4
    assert "* nearest HRL; like no HRL: bel" in printed(lonely)


def test_up_to_twelve_lrls_have_a_column_each_more_have_a_row_each() -> None:
    assert len(rows(wide(12))) == 4
    assert len(rows(wide(13))) == 13


def test_a_row_names_the_three_nearest_hrls_the_nearest_first() -> None:
    assert rows(wide(13))[0] == ["l00", "ces", "0.40*", "por", "0.30", "rus", "0.20"]


def test_with_fewer_than_three_hrls_there_are_fewer_columns() -> None:
    assert rows(wide(13, ("tur", "rus")))[0] == ["l00", "rus", "0.20*", "tur", "0.10"]
