"""`cclm prepare` and `cclm graph`: what they print."""

import json
import time

from rich.console import Console, Group, RenderableType
from rich.text import Text

from cclm.atomic import write_if_changed
from cclm.data.prepared import Prepared
from cclm.errors import DataError
from cclm.experiments.early_checks import refuse_one_kind
from cclm.experiments.graph import language_graph, write_graph
from cclm.experiments.pipeline import Pipeline
from cclm.recipe.schema import Recipe
from cclm.report.graph import draw_graph, similarity_table
from cclm.text_table import text_table


def prepare(recipe: Recipe, *, as_json: bool, dry_run: bool = False, workers: int | None = None) -> None:
    """Prepares the text, unless it has been done, and prints the counts."""
    pipeline = Pipeline(recipe, workers=workers)
    if dry_run:
        (stage,) = pipeline.plan(("prepare",))
        kept = f"; no longer used, and kept: {stage.unused}" if stage.unused else ""
        print(f"{recipe.prepared}: {'would be prepared' if stage.to_do else 'nothing to do'}{kept}")
        return
    start = time.monotonic()
    there = not pipeline.walk(("prepare",))
    if as_json:
        facts = {"folder": str(recipe.prepared), "version": 1, **pipeline.data.manifest.plain()}
        print(json.dumps(facts, ensure_ascii=False, allow_nan=False))
        return
    done = "was there already" if there else f"prepared in {time.monotonic() - start:.0f} s"
    console = Console()
    console.print(f"{recipe.prepared}: {done}", style="bold", highlight=False, markup=False, soft_wrap=True)
    console.print(view(pipeline.data))


def view(prepared: Prepared) -> RenderableType:
    """The counts for people."""
    table = text_table(("", "train", "dev", "test", "dropped"))
    for lang, sizes in prepared.sizes.items():
        dropped = sum(sum(counts.dropped.values()) for counts in prepared.manifest.counts[lang].values())
        table.add_row(lang, *(f"{sizes[s]:,}" if s in sizes else "-" for s in ("train", "dev", "test")), f"{dropped:,}")
    symbols = ", ".join(f"{name} {size:,}" for name, size in prepared.manifest.vocabularies.items())
    return Group(table, Text(f"symbols: {symbols}", style="dim"), *_other_sizes(prepared), *_reasons(prepared))


def _other_sizes(prepared: Prepared) -> list[RenderableType]:
    """What is said of models with fewer or more subwords than the recipe asks for."""
    wanted = prepared.pieces_wanted
    fewer = _listed({name: count for name, count in prepared.manifest.pieces.items() if count < wanted})
    more = _listed({name: count for name, count in prepared.manifest.pieces.items() if count > wanted})
    said = [f"fewer subwords than the {wanted:,} asked for, as the text supports no more: {fewer}"] if fewer else []
    said += [f"more subwords than the {wanted:,} asked for, as every character needs one: {more}"] if more else []
    return [Text(line) for line in said]


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _reasons(prepared: Prepared) -> list[RenderableType]:
    lines = [
        f"{lang} {split}: {count:,} {reason}"
        for lang, splits in prepared.manifest.counts.items()
        for split, counts in splits.items()
        for reason, count in counts.dropped.items()
    ]
    return [Text("dropped: " + "; ".join(lines))] if lines else []


def graph(recipe: Recipe, *, as_json: bool, workers: int | None = None) -> None:
    """Writes graph.json and graph.svg into the recipe's work folder, and prints the similarities."""
    pipeline = Pipeline(recipe, workers=workers)
    refuse_one_kind(recipe.data, "and the language graph is between HRLs and LRLs; name languages of both kinds")
    pipeline.refuse_occupied(("graph",))
    if recipe.graph.file:
        pipeline.migrate_data()
    else:
        pipeline.walk(("prepare",))
    found = language_graph(recipe, pipeline.prepared)
    folder = write_graph(pipeline.work, found)
    picture = recipe.graph_file.with_suffix(".svg")
    try:
        write_if_changed(folder / picture.name, draw_graph(found, title=recipe.name))
    except OSError as error:
        raise DataError(f"{error.filename}: {error.strerror or error}") from None
    pipeline.work.point("graph", folder.name)
    if as_json:
        print(json.dumps(found.to_dict(), ensure_ascii=False))
        return
    console = Console()
    console.print(similarity_table(found))
    compared = f"top {found.k:,} subwords of each language" if found.k else "similarities of your own"
    console.print(Text(compared, style="dim"))
    console.print(f"{recipe.graph_file}  {picture}", highlight=False, markup=False, soft_wrap=True)
