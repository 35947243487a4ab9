"""What `translation.restrict` does to one-to-many and many-to-many runs: BLEU, off-target rate and speed.

    python benchmarks/restriction.py work/runs/seed-1 work/runs/seed-2 work/runs/seed-3

Translates the test set of every language with each run, with and without the restriction, and prints the mean over the
runs. `half` is half the 95 % interval of BLEU without the restriction; `foreign` is the share of unrestricted
translations with a subword that is not of the target language; the restricted ones must have none. Time is processor
time of one thread, which other programs on the machine do not lengthen much.
"""

import argparse
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from cclm.evaluation.evaluate import Evaluation, texts
from cclm.evaluation.scores import Lines, off_target_rates, row_of
from cclm.formats.export import Pair
from cclm.recipe.schema import TranslationSection
from cclm.text_table import text_table
from cclm.translation.model import Model, exported
from cclm.translation.translator import VOCABULARY_MAP

ENDLESS = 60


@dataclass
class Measured:
    """A run on one test set, without the restriction and with it."""

    bleu: tuple[float, float]
    half: float
    off_target: tuple[float, float]
    references_off_target: float
    foreign: tuple[float, float]
    seconds: tuple[float, float]
    sentences: int
    changed: int
    """Translations that differ."""
    endless: tuple[int, int]
    """Translations of more than ENDLESS symbols: a weak model repeats itself, and few such lines decide BLEU."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--sentences", type=int, help="of each test set, the first; all by default")
    arguments = parser.parse_args()
    runs = [dict(measured(run, arguments.sentences)) for run in arguments.runs]
    print_table(runs)


def measured(run: Path, sentences: int | None) -> Iterator[tuple[str, Measured]]:
    """The measurements of every task of a run."""
    evaluation = Evaluation(run)
    recipe, folder = evaluation.recipe, exported(run, restrict=True)
    settings = recipe.translation
    free, restricted = (
        Model(folder, beam=settings.beam, length_penalty=settings.length_penalty, restrict=restrict, threads=1)
        for restrict in (False, True)
    )
    own = own_symbols(folder)
    for name, task in evaluation.tasks.items():
        sources, references = (side[:sentences] for side in texts(recipe, evaluation.prepared, task, "test"))
        pair = free.pair(task.source, task.target)
        found = [translated(model, pair, sources, settings) for model in (free, restricted)]
        outputs = [text for text, _, _ in found]
        rows = [row_of(text, references) for text in outputs]
        lines = {f"{i}": Lines(text, references, sources) for i, text in enumerate(outputs)}
        rates = off_target_rates(recipe.data, dict.fromkeys(lines, task.target), lines)
        by_output = rates[1] if rates else {}
        yield (
            name,
            Measured(
                bleu=(rows[0]["bleu"], rows[1]["bleu"]),
                half=(rows[0]["bleu_high"] - rows[0]["bleu_low"]) / 2,
                off_target=tuple(by_output.get(i, {}).get("off_target", float("nan")) for i in ("0", "1")),
                references_off_target=by_output.get("0", {}).get("off_target_references", float("nan")),
                foreign=tuple(share_foreign(symbols, own[pair.start]) for _, symbols, _ in found),
                seconds=(found[0][2], found[1][2]),
                sentences=len(sources),
                changed=sum(a != b for a, b in zip(*outputs, strict=True)),
                endless=tuple(sum(len(row) > ENDLESS for row in symbols) for _, symbols, _ in found),
            ),
        )


def own_symbols(folder: Path) -> dict[str, set[str]]:
    """The target symbols of each tag, from CTranslate2's vocabulary map."""
    rows = (folder / "model" / VOCABULARY_MAP).read_text(encoding="utf-8").split("\n")[:-1]
    return {tag: set(symbols.split(" ")) for tag, _, symbols in (row.partition("\t") for row in rows)}


def translated(
    model: Model, pair: Pair, sources: list[str], settings: TranslationSection
) -> tuple[list[str], list[list[str]], float]:
    """The translations as text and as symbols, and the processor time of the search."""
    encoded = [symbols for chunk in model._encoded(sources, pair, True, "text") for symbols in chunk]
    model._translator.translate_ids(
        encoded[:8], pair.start, settings.beam, settings.length_penalty
    )  # a first call is slow
    start = time.process_time()
    symbols = model._translator.translate_ids(encoded, pair.start, settings.beam, settings.length_penalty)
    seconds = time.process_time() - start
    return [model._decoded(row, pair) for row in symbols], symbols, seconds


def share_foreign(symbols: list[list[str]], own: set[str]) -> float:
    """The share of translations with a symbol that is not among the target language's own."""
    return sum(any(symbol not in own for symbol in row) for row in symbols) / len(symbols)


def print_table(runs: list[dict[str, Measured]]) -> None:
    """Means over the runs, one row per task."""
    table = text_table(
        ("", "BLEU", "restricted", "difference", "per run", "half", "off-target", "restricted", "references", "foreign",
         "restricted", "changed", "endless", "s", "restricted", "faster")
    )  # fmt: skip
    for name in runs[0]:
        rows = [run[name] for run in runs]
        bleu, off, foreign, seconds = (
            [statistics.fmean(getattr(row, field)[i] for row in rows) for i in (0, 1)]
            for field in ("bleu", "off_target", "foreign", "seconds")
        )
        table.add_row(
            name,
            *(f"{value:.2f}" for value in (*bleu, bleu[1] - bleu[0])),
            " ".join(f"{row.bleu[1] - row.bleu[0]:+.2f}" for row in rows),
            f"{statistics.fmean(row.half for row in rows):.2f}",
            *(f"{value:.1%}" for value in (*off, statistics.fmean(row.references_off_target for row in rows))),
            *(f"{value:.1%}" for value in foreign),
            f"{sum(row.changed for row in rows) / sum(row.sentences for row in rows):.1%}",
            " ".join(f"{row.endless[0]}:{row.endless[1]}" for row in rows),
            *(f"{value:.2f}" for value in seconds),
            f"{seconds[0] / seconds[1]:.2f} x",
        )
    console = Console(width=200)
    console.print(table)
    everything = [row for run in runs for row in run.values()]
    worst = max(everything, key=lambda row: (row.bleu[0] - row.bleu[1]) / max(row.half, 1e-9))
    total = [sum(row.seconds[i] for row in everything) for i in (0, 1)]
    console.print(
        f"mean BLEU {statistics.fmean(row.bleu[0] for row in everything):.2f} and"
        f" {statistics.fmean(row.bleu[1] for row in everything):.2f} restricted;"
        f" the largest fall of a run is {worst.bleu[0] - worst.bleu[1]:.2f}, half its interval {worst.half:.2f};"
        f" in all {total[0]:.1f} s and {total[1]:.1f} s, {total[0] / total[1]:.2f} x"
    )


if __name__ == "__main__":
    main()
