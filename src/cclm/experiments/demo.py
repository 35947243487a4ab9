"""`cclm demo`: everything on the built-in corpus, in minutes: two ways to sample languages, and bilingual models."""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from cclm.atomic import write_if_changed
from cclm.data.workers import available_cores
from cclm.errors import TrainingError
from cclm.evaluation.evaluate import Evaluation
from cclm.evaluation.scores import read_lines
from cclm.experiments.benchmark import bitext_folder, reference_recipe
from cclm.experiments.executor import Display, Job, Processes
from cclm.experiments.pipeline import Pipeline, run_folder
from cclm.formats.log import Log
from cclm.formats.scores import Scores
from cclm.recipe import Recipe, load_recipe
from cclm.report.graph import similarity_table
from cclm.report.pages import run_report
from cclm.text_table import text_table

METHODS = {
    "ccl-m-avg": ("name=ccl-m-avg",),
    "proportional": (
        "name=proportional",
        "curriculum.gate={name: all}",
        "curriculum.sampler={name: temperature, tau: 1}",
    ),
}
"""What is compared with the bitext models, as changes to the recipe; they come after those of the user."""
READ = 3
"""Translations of each language to read."""


def run(overrides: Iterable[str] = ()) -> Path:
    """From nothing to the table, the translations and the page, which it returns. What is done is not done again."""
    overrides = tuple(overrides)
    recipes = {name: load_recipe("phrasebook", (*overrides, *changes)) for name, changes in METHODS.items()}
    recipe = recipes["ccl-m-avg"]
    ours = "your curriculum" if any(each.startswith("curriculum") for each in overrides) else "CCL-M avg"
    for each in recipes.values():
        Pipeline(each).refuse_other_settings()  # before anything is made
    stages = _Stages(5)
    with Display(reference_recipe(recipe).training.max_steps) as display:
        pipeline = Pipeline(recipe, watcher=display, say=display.print)
        stages.begin("text", "sentences in nine languages, from a grammar in the package")
        pipeline.walk(("prepare",))
        stages.begin("graph", "how similar each LRL is to each HRL, by the subwords they share")
        pipeline.walk(("graph",))
        if pipeline.graph:
            stages.show(similarity_table(pipeline.graph))
        stages.begin("benchmark", "one bilingual model per language, to measure competence against")
        pipeline.walk(("benchmark",))
    stages.begin("train", f"{ours} and proportional sampling, all else equal, side by side")
    _train(recipes, pipeline.data.folder)
    stages.begin("test", "translating and scoring the test sets of all three")
    runs = {name: run_folder(each) for name, each in recipes.items()}
    folders = {
        "bitext": bitext_folder(recipe, pipeline.data),
        "proportional": runs["proportional"],
        ours: runs["ccl-m-avg"],
    }
    evaluations = {name: Evaluation(folder) for name, folder in folders.items()}
    scores = {name: evaluation.scored() or evaluation.score() for name, evaluation in evaluations.items()}
    page = run_report(runs["ccl-m-avg"])
    stages.end()
    sizes = {lang: counts["train"] for lang, counts in pipeline.data.sizes.items()}
    stages.show(_table(sizes, scores, Log.read(runs["ccl-m-avg"] / "log.jsonl").admissions))
    stages.show(_translations(ours, recipe.data.languages, runs["ccl-m-avg"], recipe.data.pivot))
    stages.show(_next(page, recipe.work))
    return page


class _Stages:
    """Says which stage has begun, and how long the one before it took."""

    def __init__(self, number: int) -> None:
        self._console, self._number, self._begun = Console(), number, 0
        self._start = self._last = time.monotonic()

    def begin(self, name: str, what: str) -> None:
        self._tell_time()
        self._begun += 1
        self._console.print(Text.assemble((f"{self._begun}/{self._number} {name:<10}", "bold"), what))

    def end(self) -> None:
        self._tell_time()
        self._console.print(f"{time.monotonic() - self._start:.0f} s in all", style="dim", highlight=False)

    def show(self, thing: RenderableType) -> None:
        self._console.print(thing, soft_wrap=isinstance(thing, Text))  # a command to copy stays in one piece

    def _tell_time(self) -> None:
        now = time.monotonic()
        if self._begun:
            self._console.print(f"    {now - self._last:.0f} s", style="dim", highlight=False)
        self._last = now


def _train(recipes: Mapping[str, Recipe], data: Path) -> None:
    jobs = []
    for name, recipe in recipes.items():
        folder = run_folder(recipe)
        path = folder.parent / f"{name}.json"
        folder.parent.mkdir(parents=True, exist_ok=True)
        write_if_changed(path, recipe.model_dump_json(indent=1) + "\n")
        jobs.append(Job(name, path, folder, data))
    with Display(recipe.training.max_steps) as display:
        failed = Processes(available_cores()).run(jobs, display)
    if failed:
        raise TrainingError("; ".join(f"{name} failed: {why}" for name, why in failed.items()))


def _table(sizes: Mapping[str, int], scores: Mapping[str, Scores], admissions: Mapping[str, int]) -> Table:
    title = "\nBLEU on the test sets, with 95 % intervals"
    table = text_table(("", "pairs", *scores, "admitted"), title=title)
    for lang, size in sizes.items():
        cells = [_cell(system.languages[lang]) for system in scores.values()]
        table.add_row(lang, f"{size:,}", *cells, f"step {admissions[lang]:,}" if lang in admissions else "at the start")
    for key, title in (("all", "mean"), ("hrl", "HRLs"), ("lrl", "LRLs")):
        means = (getattr(system.means, key) for system in scores.values())
        table.add_row(title, "", *("" if mean is None else f"{mean:.1f}     " for mean in means), "", style="bold")
    return table


def _cell(score: Mapping[str, float]) -> str:
    return f"{score['bleu']:.1f} ±{(score['bleu_high'] - score['bleu_low']) / 2:<3.1f}"


def _translations(method: str, languages: Iterable[str], run: Path, pivot: str) -> Text:
    """A few sentences of each test set: source, translation, reference."""
    text = Text(f"\nTranslations of {method} to read: source, > translation, = reference\n", style="bold")
    for lang in languages:
        stem = run / "translations" / f"test.{lang}-{pivot}"
        sources, found, references = (read_lines(Path(f"{stem}{end}.txt")) for end in (".source", "", ".reference"))
        for i in range(READ):
            right = found[i] == references[i]
            text.append(f"{lang}  {sources[i]}\n", style="not bold")
            text.append(f"   > {found[i]}\n", style="not bold green" if right else "not bold yellow")
            text.append("" if right else f"   = {references[i]}\n", style="not bold dim")
    return text


def _next(page: Path, work: str) -> Text:
    elsewhere, study = ("", "") if work == "work/phrasebook" else (f" work={work}", f" changes.work={work}")
    return Text.assemble(
        ("The page of the run, with the language graph colouring itself in:\n", "bold"), f"  {page}\n\n",
        ("What to try next\n", "bold"),
        "  every threshold:              ", (f"cclm sweep phrasebook{elsewhere}\n", "cyan"),
        "  other methods, over seeds:    ", (f"cclm study phrasebook{study}\n", "cyan"),
        "  the state of every run:       ", (f"cclm runs {work}\n", "cyan"),
        "  a recipe of your own:         ", ("cclm recipes phrasebook > mine.yaml\n", "cyan"),
        "  what is wrong with your text: ", ("cclm doctor mine.yaml", "cyan"),
    )  # fmt: skip
