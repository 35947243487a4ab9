"""Similarities as the paper's appendix prints them, each LRL's nearest HRL marked."""

from rich.table import Table
from rich.text import Text

from cclm.curriculum import LanguageGraph
from cclm.curriculum.languages import listed

WIDEST = 12
"""LRLs up to which a column each fits a terminal."""
RANKS = ("nearest", "second", "third")


def similarity_table(graph: LanguageGraph) -> Table:
    """The matrix, HRLs by LRLs; of more than twelve LRLs a row each, with the three HRLs nearest to it."""
    table = _matrix(graph) if len(graph.low_resource) <= WIDEST else _nearest_three(graph)
    table.caption = "* nearest HRL"
    if graph.isolated:
        table.caption += f"; like no HRL: {listed(graph.isolated)}"
    return table


def _matrix(graph: LanguageGraph) -> Table:
    table = Table("HRL", *graph.low_resource)
    for hrl in graph.high_resource:
        table.add_row(hrl, *(_cell(graph, hrl, lrl) for lrl in graph.low_resource))
    return table


def _nearest_three(graph: LanguageGraph) -> Table:
    ranks = RANKS[: len(graph.high_resource)]
    table = Table("LRL", *ranks)
    longest = max(map(len, graph.high_resource))
    for lrl in graph.low_resource:
        # Sorting keeps the declared order among equals, as `nearest` does.
        ranked = sorted(graph.high_resource, key=lambda hrl: -graph.similarity[lrl][hrl])[: len(ranks)]
        named = (Text(f"{hrl:{longest}} ").append_text(_cell(graph, hrl, lrl)) for hrl in ranked)
        table.add_row(lrl, *named)
    return table


def _cell(graph: LanguageGraph, hrl: str, lrl: str) -> Text:
    """The similarity; bold and with an asterisk where this is the nearest HRL."""
    value = graph.similarity[lrl][hrl]
    if value and graph.nearest[lrl] == hrl:
        return Text(f"{value:.2f}*", style="bold")
    return Text(f"{value:.2f} ")
