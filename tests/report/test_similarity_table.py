"""The table of similarities: a matrix like the paper's, or a list if that would be too wide."""

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
    """A graph in which every LRL has similarities 0.1, 0.2, 0.3, ... to the HRLs as declared."""
    each = {hrl: (i + 1) / 10 for i, hrl in enumerate(hrls)}
    return LanguageGraph(hrls, [f"l{j:02}" for j in range(num_lrls)], {f"l{j:02}": each for j in range(num_lrls)})


def test_the_table_is_the_papers_matrix_with_the_nearest_hrl_starred() -> None:
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


def test_ties_go_to_the_hrl_declared_first() -> None:
    tied = {"aze": {"rus": 0.3, "tur": 0.3}}
    assert rows(LanguageGraph(["tur", "rus"], ["aze"], tied)) == [["tur", "0.30*"], ["rus", "0.30"]]


def test_an_isolated_lrl_has_no_star_and_is_named_in_the_caption() -> None:
    lonely = LanguageGraph(HRLS, LRLS, SIMILARITY | {"bel": dict.fromkeys(HRLS, 0.0)})
    assert [row[2] for row in rows(lonely)] == ["0.00"] * 4
    assert "* nearest HRL; similar to no HRL: bel" in printed(lonely)


def test_lrls_are_columns_up_to_twelve_and_rows_beyond() -> None:
    assert len(rows(wide(12))) == 4
    assert len(rows(wide(13))) == 13


def test_a_row_names_the_three_nearest_hrls_the_nearest_first() -> None:
    assert rows(wide(13))[0] == ["l00", "ces", "0.40*", "por", "0.30", "rus", "0.20"]


def test_with_fewer_than_three_hrls_there_are_fewer_columns() -> None:
    assert rows(wide(13, ("tur", "rus")))[0] == ["l00", "rus", "0.20*", "tur", "0.10"]
