"""`cclm prepare`: from text to prepared data, with what was kept and what was not."""

import json
import time

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from cclm.data.prepare import Plan, current, prepare
from cclm.data.prepared import Prepared
from cclm.progress_bar import shown
from cclm.recipe.schema import Recipe


def plan(recipe: Recipe) -> Plan:
    """What the recipe has prepared."""
    return Plan(recipe.data, recipe.vocabulary)


def run(recipe: Recipe, *, as_json: bool, dry_run: bool = False, workers: int | None = None) -> Prepared | None:
    """Prepares, unless it has been done, and prints the counts."""
    there = current(plan(recipe), recipe.prepared)
    if dry_run:
        print(f"{recipe.prepared}: {'nothing to do' if there else 'would be prepared'}")
        return None
    start = time.monotonic()
    prepared = there or prepared_data(recipe, workers)
    if as_json:
        print(
            json.dumps(
                {"folder": str(recipe.prepared), "version": 1, **prepared.manifest.plain()},
                ensure_ascii=False,
                allow_nan=False,
            )
        )
    else:
        done = "was there already" if there else f"prepared in {time.monotonic() - start:.0f} s"
        console = Console()
        console.print(f"{recipe.prepared}: {done}", style="bold", highlight=False, soft_wrap=True)
        console.print(view(prepared))
    return prepared


def prepared_data(recipe: Recipe, workers: int | None = None) -> Prepared:
    """The prepared data, made if it is not there."""
    with shown({"learning subwords": len(recipe.data.languages) + 1}) as progress:
        return prepare(plan(recipe), recipe.prepared, workers=workers, progress=progress)


def view(prepared: Prepared) -> RenderableType:
    """The counts for people."""
    table = Table(box=None, padding=(0, 1), header_style="bold")
    for head in ("", "train", "dev", "test", "dropped"):
        table.add_column(head, justify="right" if head else "left")
    for lang, sizes in prepared.sizes.items():
        dropped = sum(sum(counts.dropped.values()) for counts in prepared.manifest.counts[lang].values())
        table.add_row(lang, *(f"{sizes[s]:,}" if s in sizes else "-" for s in ("train", "dev", "test")), f"{dropped:,}")
    symbols = ", ".join(f"{name} {size:,}" for name, size in prepared.manifest.vocabularies.items())
    return Group(table, Text(f"symbols: {symbols}", style="dim"), *_fewer(prepared), *_reasons(prepared))


def _fewer(prepared: Prepared) -> list[RenderableType]:
    """A warning where the text supports fewer subwords than were asked for."""
    asked = int(str(prepared.manifest.settings.vocabulary["pieces"]))
    fewer = {name: count for name, count in prepared.manifest.pieces.items() if count < asked}
    said = ", ".join(f"{name} {count:,}" for name, count in fewer.items())
    return [Text(f"fewer subwords than the {asked:,} asked for, as the text supports no more: {said}")] if said else []


def _reasons(prepared: Prepared) -> list[RenderableType]:
    lines = [
        f"{lang} {split}: {count:,} {reason}"
        for lang, splits in prepared.manifest.counts.items()
        for split, counts in splits.items()
        for reason, count in counts.dropped.items()
    ]
    return [Text("dropped: " + "; ".join(lines))] if lines else []
