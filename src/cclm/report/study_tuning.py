"""What a study tuned before its first trial: every value that was tried, and the one that was taken."""

from collections.abc import Mapping
from typing import Any

from cclm.report.document import Cell, Section, Table, Words
from cclm.report.study import Study
from cclm.report.written import column, count, large

NOTE = (
    "Bits a token at the selected checkpoint; the lowest of an arm is bold. The mean over languages decides; weighted"
    " by dev sentences, it would favour whoever draws HRLs most."
)


def tuning(study: Study) -> Section:
    """A row for each try, what they cost, and what the choice rests on."""
    tuned = study.results["tuning"]
    rows = [row for arm, facts in tuned["arms"].items() for row in _rows(arm, facts)]
    head = ("arm", "key", "value", "macro dev loss", "weighted", "outcome")
    most = max(len(facts["tries"]) for facts in tuned["arms"].values())
    words = (
        f"Each of these arms was trained once with each of {count(most, 'value')}, and the one with the lowest macro"
        f" dev loss went into all its trials. The choice used dev data only, and seed {tuned['seed']}, which is in no"
        " comparison. What is not in the table was not tuned."
    )
    cost = (
        f"The tuning took {count(len(rows), 'training')}, {count(tuned['steps'], 'step')} and {large(tuned['tokens'])}"
        " target tokens, beside what the trials cost."
    )
    return Section(
        "tuning", "What was tuned", [Words(words), Table("Tuning", head, rows, NOTE, (0, 1, 5)), Words(cost)]
    )


def _rows(arm: str, facts: Mapping[str, Any]) -> list[list[Cell]]:
    """The tries of an arm, the least losses of its own marked."""
    tries = facts["tries"]
    macro, weighted = (column([one.get(name) for one in tries], 3, lowest=True) for name in ("macro", "weighted"))
    return [
        [Cell(arm), Cell(facts["key"]), Cell(str(one["value"]), best=one["chosen"]), *losses, Cell(_outcome(one))]
        for one, *losses in zip(tries, macro, weighted, strict=True)
    ]


def _outcome(tried: Mapping[str, Any]) -> str:
    if tried.get("why"):
        return f"failed: {tried['why']}"
    return "chosen" if tried["chosen"] else ""
