"""`cclm demo`: everything on the built-in corpus, in minutes: one model for eight languages, sampled in two ways."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from cclm.data.workers import available_cores
from cclm.errors import TrainingError
from cclm.evaluation.evaluate import Evaluation
from cclm.evaluation.scores import read_lines
from cclm.experiments.benchmark import reference_recipe
from cclm.experiments.display import Display
from cclm.experiments.executor import Job, processes_for, save_recipe
from cclm.experiments.pipeline import BEFORE_TRAINING, Pipeline
from cclm.experiments.train_job import run_folder
from cclm.formats.log import Log
from cclm.formats.run import LOG
from cclm.formats.scores import Scores
from cclm.recipe import Recipe, load_recipe
from cclm.report.graph import similarity_table
from cclm.report.pages import run_report
from cclm.text_table import text_table

OURS = "competence-gate"
"""The run that the page is about."""
SETTINGS = (
    "model.layers=1",
    "model.dropout=0.0",
    "training.max_steps=8000",
    "training.warmup=100",
    "training.schedule=linear",
    "training.split_pieces.source=0.1",
    "training.validate_every=1000",
    "curriculum.sampler={name: temperature, tau: 5}",
    "curriculum.every=100",
    "benchmark.max_steps=150",
)
"""Changes to the recipe: most of the time goes into the two models. The user's changes come after them.

By the mean dev loss, one layer without dropout learns more in these minutes than the two layers of the recipe with
dropout 0.1; split pieces help the LRLs, whose text is seen many times.
"""
METHODS = {
    OURS: (f"name={OURS}",),
    "proportional": (
        "name=proportional",
        "curriculum.gate={name: all}",
        "curriculum.sampler={name: temperature, tau: 1}",
    ),
}
"""What is compared, as changes to the recipe; they come after those of the user."""
SAMPLES_PER_LANGUAGE = 3
"""Translations of each language to read."""


def run(overrides: Iterable[str] = ()) -> Path:
    """Runs all stages, prints tables and translations, and returns the path of the page. Skips finished stages."""
    overrides = tuple(overrides)
    recipes = {name: load_recipe("phrasebook", (*SETTINGS, *overrides, *changes)) for name, changes in METHODS.items()}
    recipe = recipes[OURS]
    ours = "your curriculum" if any(each.startswith("curriculum") for each in overrides) else "gate + tau 5"
    for each in recipes.values():
        Pipeline(each).refuse_other_settings()  # before anything is made
    Pipeline(recipe).refuse_occupied(BEFORE_TRAINING)
    stages = _Stages(5)
    with Display(reference_recipe(recipe).training.max_steps) as display:
        pipeline = Pipeline(recipe, watcher=display, say=display.print)
        stages.begin("text", "sentences in nine languages, from a grammar in the package")
        pipeline.walk(("prepare",))
        stages.begin("graph", "how similar each LRL is to each HRL, by the subwords they share")
        pipeline.walk(("graph",))
        if pipeline.graph:
            stages.show(similarity_table(pipeline.graph))
        stages.begin("benchmark", "a bilingual model per language, trained briefly: competence is relative to it")
        pipeline.walk(("benchmark",))
    stages.begin("train", f"{ours} and proportional sampling, all else equal, side by side")
    _train(recipes, pipeline.data.folder)
    stages.begin("test", "translating and scoring the test sets of both")
    runs = {name: run_folder(each) for name, each in recipes.items()}
    evaluations = {"proportional": Evaluation(runs["proportional"]), ours: Evaluation(runs[OURS])}
    scores = {name: evaluation.ensure_scores() for name, evaluation in evaluations.items()}
    page = run_report(runs[OURS])
    stages.end()
    sizes = {lang: counts["train"] for lang, counts in pipeline.data.sizes.items()}
    samples = [sample for lang in recipe.data.languages for sample in _samples(runs[OURS], lang, recipe.data.pivot)]
    stages.show(_opening(ours, scores, samples))
    stages.show(_table(sizes, scores, Log.read(runs[OURS] / LOG).admissions))
    stages.show(_translations(ours, samples))
    stages.show(_next(page, recipe.work))
    return page


class _Stages:
    """Prints which stage has begun, and how long the one before it took."""

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
        save_recipe(path, recipe)
        jobs.append(Job(name, path, folder, data))
    with Display(recipe.training.max_steps) as display:
        executor = processes_for(recipe.training.device, min(len(jobs), available_cores()))
        failed = executor.run(jobs, display)
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


@dataclass(frozen=True)
class _Sample:
    """A sentence of a test set to read."""

    language: str
    source: str
    translation: str
    reference: str

    @property
    def is_right(self) -> bool:
        return self.translation == self.reference


def _samples(run: Path, lang: str, pivot: str) -> list[_Sample]:
    """The first sentences of a test set."""
    stem = run / "translations" / f"test.{lang}-{pivot}"
    files = [read_lines(Path(f"{stem}{end}.txt"))[:SAMPLES_PER_LANGUAGE] for end in (".source", "", ".reference")]
    return [_Sample(lang, *lines) for lines in zip(*files, strict=True)]


def _opening(ours: str, scores: Mapping[str, Scores], samples: Sequence[_Sample]) -> Text:
    """What to look at in the tables that follow, in two sentences."""
    own, other = scores[ours].means, scores["proportional"].means
    right = sum(sample.is_right for sample in samples)
    lines = [
        f"One model for {len(scores[ours].languages)} languages ({ours}): {own.all:.1f} BLEU on average;"
        f" {right} of the {len(samples)} sentences below are exactly the reference."
    ]
    lines += [
        f"{who}: {mine:.1f} BLEU, and {theirs:.1f} if languages are drawn in proportion to their text."
        for who, theirs, mine in (("LRLs", other.lrl, own.lrl), ("HRLs", other.hrl, own.hrl))
        if theirs is not None and mine is not None
    ]
    return Text.assemble(("\nWhat to see\n", "bold"), "\n".join(lines))


def _translations(method: str, samples: Iterable[_Sample]) -> Text:
    """Sentences to read: source, translation, and the reference where it differs."""
    text = Text(f"\nTranslations of {method} to read: source, > translation, = reference\n", style="bold")
    for sample in samples:
        text.append(f"{sample.language}  {sample.source}\n", style="not bold")
        text.append(f"   > {sample.translation}\n", style="not bold green" if sample.is_right else "not bold yellow")
        text.append("" if sample.is_right else f"   = {sample.reference}\n", style="not bold dim")
    return text


def _next(page: Path, work: str) -> Text:
    elsewhere, study = ("", "") if work == "work/phrasebook" else (f" work={work}", f" changes.work={work}")
    return Text.assemble(
        ("The page of the run, with the language graph colouring itself in:\n", "bold"), f"  {page}\n\n",
        ("What to try next\n", "bold"),
        "  the paper's sampler (CCL-M):  ",
        ("cclm demo work=work/ccl-m 'curriculum.sampler={name: inverse-competence}'\n", "cyan"),
        "  every threshold:              ", (f"cclm sweep phrasebook{elsewhere}\n", "cyan"),
        "  other methods, over seeds:    ", (f"cclm study phrasebook{study}\n", "cyan"),
        "  the state of every run:       ", (f"cclm runs {work}\n", "cyan"),
        "  a recipe of your own:         ", ("cclm recipes strong-small > mine.yaml\n", "cyan"),
        "  what is wrong with your text: ", ("cclm doctor mine.yaml", "cyan"),
    )  # fmt: skip
