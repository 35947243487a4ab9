"""Commands that take a recipe: doctor, prepare, graph, benchmark, train, run, sweep; and study."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from cclm.cli.board_commands import board_beside
from cclm.cli.group import (
    AT_ONCE,
    BOARD,
    DRY_JSON,
    DRY_RUN,
    EXECUTOR,
    JSON,
    OVERRIDES,
    RECIPE,
    SLURM,
    TENSORBOARD,
    TRACKIO,
    WORKERS,
    FiniteRange,
    cli,
)


@cli.command(short_help="Read all text of RECIPE and report what is wrong with it; try out a device.")
@click.argument("recipe", required=False)
@OVERRIDES
@JSON
@WORKERS
@click.option("--device", type=click.Choice(["auto", "cuda", "cpu"]), help="Try out this device instead of the text.")
def doctor(
    recipe: str | None, overrides: Sequence[str], as_json: bool, workers: int | None, device: str | None
) -> None:
    """Reads all text of RECIPE once and says what is wrong with it. Changes nothing.

    Misaligned or unreadable files, empty and overlong lines, duplicates, copies of the source, lines in the wrong
    language, swapped columns, characters unknown in training, dev or test sentences that stand in some language's
    training text, dev sets too small for the probe. Ends with 1 if there is an error.

    With --device it tries out a GPU or the CPU instead, in about ten seconds: forward and backward pass, a step,
    agreement with the CPU, target tokens per second. RECIPE gives the sizes of the model and of batches; it may be
    left out. Ends with 1 if something does not work.

    \b
      cclm doctor mine.yaml
      cclm doctor --device cuda
      cclm doctor mine.yaml --device cuda --json
    """
    from cclm.recipe import load_recipe

    if device is None and recipe is None:
        raise click.UsageError("Missing argument 'RECIPE'.")
    settings = load_recipe(recipe, overrides) if recipe else None
    if device is not None:
        from cclm.cli import device_doctor

        is_well = device_doctor.run(device, settings, as_json=as_json)
    else:
        from cclm.cli import doctor as command

        assert settings is not None
        is_well = command.run(settings, as_json=as_json, workers=workers)
    if not is_well:
        sys.exit(1)


@cli.command(short_help="Check and tokenise the text of RECIPE.")
@RECIPE
@OVERRIDES
@JSON
@WORKERS
@click.option("--dry-run", is_flag=True, help="Say whether there is anything to do.")
def prepare(recipe: str, overrides: Sequence[str], as_json: bool, workers: int | None, dry_run: bool) -> None:
    """Checks, tokenises and memory-maps the text of RECIPE, into WORK/prepared.

    Done once: it is done again only when the text or a setting that matters has changed.
    """
    from cclm.cli import prepared
    from cclm.recipe import load_recipe

    prepared.prepare(load_recipe(recipe, overrides), as_json=as_json, dry_run=dry_run, workers=workers)


@cli.command(short_help="Compute, print and draw the language graph of RECIPE.")
@RECIPE
@OVERRIDES
@JSON
@WORKERS
def graph(recipe: str, overrides: Sequence[str], as_json: bool, workers: int | None) -> None:
    """Computes the language graph of RECIPE: vocabulary overlap between HRLs and LRLs (Eq. 9).

    Writes WORK/graph.json and WORK/graph.svg. A matrix of your own is taken with graph.file=FILE.
    """
    from cclm.cli import prepared
    from cclm.recipe import load_recipe

    prepared.graph(load_recipe(recipe, overrides), as_json=as_json, workers=workers)


def _is_dry(recipe: str, overrides: Sequence[str], stages: Sequence[str], dry_run: bool, as_json: bool) -> bool:
    """Prints the plan if `dry_run` is set; returns `dry_run`."""
    if as_json and not dry_run:
        raise click.UsageError("--json goes with --dry-run")
    if dry_run:
        from cclm.cli.dry_run import print_plan
        from cclm.recipe import load_recipe

        print_plan(load_recipe(recipe, overrides), stages, as_json=as_json)
    return dry_run


def _execution(at_once: int | None, executor: str | None, slurm: Sequence[str]) -> dict[str, object]:
    """Where trainings run, as far as the command line says so."""
    given = {"at_once": at_once, "executor": executor, "slurm": ",".join(slurm) or None}
    return {name: value for name, value in given.items() if value is not None}


@cli.command(short_help="Train the bitext models of RECIPE, or what else L* comes from.")
@RECIPE
@OVERRIDES
@AT_ONCE
@EXECUTOR
@SLURM
@DRY_RUN
@DRY_JSON
def benchmark(recipe: str, overrides: Sequence[str], dry_run: bool, as_json: bool, **where: Any) -> None:
    """Trains one bitext model per language of RECIPE, for L*: the losses that competence is measured against.

    They share the vocabularies and tags of the recipe. Done once; a benchmark that was killed resumes. With
    benchmark.method=multilingual it is one short training of all languages, at a twelfth of the cost of the training. A
    table of your own is taken with benchmark.file=FILE.
    """
    from cclm.experiments.early_checks import refuse_no_losses
    from cclm.recipe import load_recipe

    stages, settings = ("prepare", "benchmark"), load_recipe(recipe, overrides)
    refuse_no_losses(settings)
    if _is_dry(recipe, overrides, stages, dry_run, as_json):
        return
    from cclm.experiments.executor import executor_of
    from cclm.experiments.pipeline import Pipeline

    pipeline = Pipeline(settings, executor=executor_of(settings, _execution(**where)))
    pipeline.walk(stages)
    for lang, loss in (pipeline.losses or {}).items():
        click.echo(f"{lang}\t{loss:.4f}")


@cli.command(short_help="Train the model of RECIPE, and make what it needs first.")
@RECIPE
@OVERRIDES
@TENSORBOARD
@TRACKIO
@BOARD
@click.option("--strict", is_flag=True, help="Fail if the newest checkpoint is damaged; do not use the one before it.")
@click.option("--force", is_flag=True, help="Resume with other settings of training; this is recorded in the run.")
@DRY_RUN
@DRY_JSON
def train(recipe: str, overrides: Sequence[str], shows_board: bool, dry_run: bool, as_json: bool, **how: Any) -> None:
    """Trains the model of RECIPE and writes it to WORK/runs/NAME. Stages that it needs run first.

    A run that was interrupted resumes, to the same bytes as if it had never stopped. A setting that would change the
    result is refused, with the difference. --force allows other settings of training, which made_from.json and the
    manifests of later checkpoints then list.
    """
    from cclm.experiments.pipeline import UP_TO_TRAINING, Pipeline

    if _is_dry(recipe, overrides, UP_TO_TRAINING, dry_run, as_json):
        return
    from cclm.recipe import load_recipe

    pipeline = Pipeline(load_recipe(recipe, overrides), **how)
    with board_beside(pipeline.work.path, wanted=shows_board):
        has_result = pipeline.run(UP_TO_TRAINING)
    if has_result:
        click.echo(pipeline.folder)


@cli.command(short_help="Take RECIPE from text to report; done stages are skipped.")
@RECIPE
@OVERRIDES
@TENSORBOARD
@TRACKIO
@BOARD
@DRY_RUN
@DRY_JSON
def run(recipe: str, overrides: Sequence[str], shows_board: bool, dry_run: bool, as_json: bool, **how: Any) -> None:
    """RECIPE from text to report: prepare, graph, benchmark, train, translate, score, report.

    Every stage that is done is skipped; interrupted anywhere, the same command continues.
    """
    from cclm.experiments.pipeline import STAGES, Pipeline

    if _is_dry(recipe, overrides, STAGES, dry_run, as_json):
        return
    from cclm.cli.tables import print_scores
    from cclm.messages import announce
    from cclm.recipe import load_recipe

    pipeline = Pipeline(load_recipe(recipe, overrides), **how)
    with board_beside(pipeline.work.path, wanted=shows_board):
        has_result = pipeline.run(STAGES, say=announce)
    if has_result:
        if pipeline.has_test_sets and (scores := pipeline.evaluation.scored()):
            print_scores(scores)
        click.echo(pipeline.folder / "report.html")


@cli.command(short_help="Train RECIPE with several thresholds; shared steps once.")
@RECIPE
@OVERRIDES
@click.option("--threshold", "thresholds", type=FiniteRange(0), multiple=True, help="Default: 0.5, 0.6 ... 1.0.")
@click.option("--aggregate", "aggregates", type=click.Choice(["max", "avg"]), multiple=True, help="Default: both.")
@click.option("--rival", type=click.Path(file_okay=False, path_type=Path), help="A run to draw across the figure.")
@AT_ONCE
@EXECUTOR
@SLURM
@DRY_RUN
def sweep(
    recipe: str,
    overrides: Sequence[str],
    thresholds: Sequence[float],
    aggregates: Any,
    rival: Path | None,
    dry_run: bool,
    **where: Any,
) -> None:
    """Trains RECIPE with every threshold and both ways to evaluate HRLs; chooses by weighted dev loss (Figure 2).

    Runs share training steps until their curricula decide differently. Each ends as if it had been trained alone.
    Writes WORK/sweeps/NAME; interrupted anywhere, the same command continues.

    \b
      cclm sweep phrasebook
      cclm sweep phrasebook --threshold 0.7 --threshold 0.9 --aggregate avg
    """
    from cclm.experiments.executor import executor_of
    from cclm.experiments.sweep import AGGREGATES, THRESHOLDS
    from cclm.experiments.sweep import sweep as train_all
    from cclm.recipe import load_recipe

    grid = (thresholds or THRESHOLDS, aggregates or AGGREGATES)
    if dry_run:
        from cclm.cli.dry_run import print_sweep_plan

        print_sweep_plan(load_recipe(recipe, overrides), *grid)
        return
    settings = load_recipe(recipe, overrides)
    page = train_all(settings, *grid, executor=executor_of(settings, _execution(**where)), rival=rival)
    from cclm.cli.tables import print_sweep
    from cclm.formats.sweep import Sweep

    print_sweep(Sweep.read(page.parent / "sweep.json"))
    click.echo(page)


@cli.command(short_help="Train methods with several seeds, and compare them.")
@click.argument("study")
@OVERRIDES
@AT_ONCE
@EXECUTOR
@SLURM
@DRY_RUN
def study(study: str, overrides: Sequence[str], dry_run: bool, **where: Any) -> None:
    """Trains every arm of STUDY with every seed, everything else equal; translates, scores and compares them.

    STUDY is a YAML file, or one that comes with cclm: paper, phrasebook, phrasebook-exploratory. What is asked is
    declared in it before the first run; all else is reported as exploratory. A trial that fails is marked, and the
    others go on; the same command does what is missing. Writes WORK/studies/NAME.

    Where STUDY has a section `tune`, its arms first get the values with the lowest macro dev loss, with another seed.
    `paper` has one: 36 trainings before its 70 trials (tune=null leaves them out).

    \b
      cclm study phrasebook
      cclm study paper recipe=ted8-diverse-o2m changes.data.path=ted/ seeds=[1,2,3]
      cclm study phrasebook --executor slurm --slurm partition=gpu,gres=gpu:1,time=240 --at-most 32
    """
    from cclm.recipe.study import load_study

    declared = load_study(study, overrides)
    if dry_run:
        from cclm.cli.dry_run import print_study_plan

        print_study_plan(declared)
        return
    from cclm.cli.tables import print_study
    from cclm.experiments.executor import executor_of
    from cclm.experiments.study import run as run_study
    from cclm.formats.study import StudyResults

    page = run_study(declared, executor_of(declared.recipe_of(), _execution(**where)))
    print_study(StudyResults.read(page.with_name("results.json")))
    click.echo(page)
