"""Commands that take run directories: translate, extend, export, score, compare, report, runs; and clean."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cclm.cli.group import DRY_JSON, DRY_RUN, JSON, OVERRIDES, RUN, SPLIT, TEXT, FiniteRange, cli

if TYPE_CHECKING:
    from cclm.recipe.schema import Recipe


@cli.command(short_help="Translate text, or test sets, with a trained RUN.")
@RUN
@SPLIT
@click.option("--source", help="Translate text from this language, one sentence per line.", metavar="LANGUAGE")
@click.option("--target", help="Into this one; it may be left out where there is only one.", metavar="LANGUAGE")
@click.option("--input", "given", type=TEXT, help="The text (default: standard input).")
@click.option("--output", "out", type=TEXT, help="Where to write (default: standard output).")
@click.option("--quantization", type=click.Choice(["float32", "int8"]), help="int8 is faster (default: float32).")
@click.option("--threads", type=click.IntRange(1), help="Threads that translate (default: one per core).")
def translate(run: Path, split: str, source: str | None, target: str | None, **options: Any) -> None:
    """Translates text with the best checkpoint of RUN; without --source, the test set (or dev) of every language.

    \b
      cclm translate work/phrasebook/runs/phrasebook --source aze < aze.txt > eng.txt

    The model is exported to CTranslate2 once, into RUN/ctranslate2, and must give the same probabilities as the trained
    one before it is used. int8 is compared with float32 first: cclm prints how much the dev loss and the translations
    differ, and refuses int8 if the dev loss rises by more than 0.25 bits per token.
    """
    for option, language in (("--source", source), ("--target", target)):
        if language == "":
            raise click.UsageError(f"{option} is empty; give a language, as in {option} aze")
    chosen = {name: value for name, value in options.items() if value is not None}
    if source or target:
        from cclm.translation.text import translate_text

        translate_text(run, source, target, **chosen)
        return
    if chosen:
        raise click.UsageError("--input, --output, --quantization and --threads go with --source")
    from cclm.evaluation.evaluate import Evaluation

    for path in Evaluation(run, split).translate():
        click.echo(path)


@cli.command(short_help="Add languages to a trained RUN, as a new run.")
@RUN
@click.option("--data", "new", type=TEXT, required=True, help="The new languages and their text: a part of a recipe.")
@click.option(
    "--against",
    "full",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="RUN",
    help="A run with all languages from the start to compare with.",
)
@OVERRIDES
@DRY_RUN
@DRY_JSON
def extend(run: Path, new: Path, full: Path | None, overrides: Sequence[str], dry_run: bool, as_json: bool) -> None:
    """Adds languages to a trained RUN of cclm: a new run starts from it, and RUN stays as it is.

    NEW.yaml is a part of a recipe. Its languages are added to those of RUN, and its other keys replace RUN's:

    \b
      name: with-slovak
      data: {low_resource: [slk]}
      training: {max_steps: 500}

    All text must be found under data.path, that of the old languages too: they are trained on again, so that they are
    not forgotten. The vocabulary grows by the subwords of the new languages. Unless NEW.yaml says otherwise, training
    takes half the steps of RUN, at its learning rate, annealed to zero. Interrupted anywhere, the same command
    continues.

    The report shows what the old languages lost and what the new ones gained; with --against, beside a run that was
    trained on all languages from the start.
    """
    if as_json and not dry_run:
        raise click.UsageError("--json goes with --dry-run")
    from cclm.experiments.extend import check_against, extended_recipe
    from cclm.recipe.loading import read_yaml

    recipe = extended_recipe(run, read_yaml(new), overrides, str(new))
    if full:
        check_against(full, recipe)
    if dry_run:
        from cclm.cli.dry_run import print_plan
        from cclm.experiments.pipeline import STAGES

        print_plan(recipe, STAGES, as_json=as_json)
    else:
        _extend(run, recipe, full)


def _extend(run: Path, recipe: "Recipe", full: Path | None) -> None:
    """Trains and scores the new run, and prints what has changed for every language."""
    from cclm.cli.tables import print_changes
    from cclm.experiments.extend import changes_of, cost_of, record_before
    from cclm.experiments.pipeline import STAGES, Pipeline
    from cclm.messages import announce

    pipeline = Pipeline(recipe)
    pipeline.walk(STAGES[:-1], say=announce)
    if pipeline.has_test_sets and (scores := pipeline.evaluation.scored()):
        before = record_before(run, recipe, full)
        print_changes(changes_of(before, scores))
        if cost := cost_of(before, recipe):
            click.echo(cost)
    pipeline.walk(STAGES[-1:], say=announce)
    click.echo(pipeline.folder / "report.html")


@cli.command(short_help="Export RUN to a folder that works without cclm.")
@RUN
@click.option("--to", type=click.Choice(["ctranslate2", "huggingface"]), required=True, help="What will translate.")
@click.option("--output", "out", type=click.Path(file_okay=False, path_type=Path), help="Where (default: RUN/export).")
@click.option("--quantization", type=click.Choice(["float32", "int8"]), help="For ctranslate2 (default: float32).")
def export(run: Path, to: Any, out: Path | None, quantization: Any) -> None:
    """Exports the best checkpoint of RUN to a folder that works where cclm is not installed; prints its path.

    \b
      cclm export work/phrasebook/runs/phrasebook --to ctranslate2 --quantization int8
      cclm export work/phrasebook/runs/phrasebook --to huggingface --output aze-eng

    It has the model, the subwords, a script that translates, and a model card with languages, scores and limits. The
    exported model is compared with the trained one before the folder appears. `cclm translate` takes a folder for
    CTranslate2 in place of RUN; one for Hugging Face is M2M100 with stock tokenizers (extra `hf`). A RUN that started
    from a model of Hugging Face's stays in its family.
    """
    if to == "huggingface" and quantization == "int8":
        raise click.UsageError("--quantization int8 goes with --to ctranslate2")
    from cclm.translation.package import export_run

    click.echo(export_run(run, to, out, quantization or "float32"))


@cli.command(short_help="Score the translations of RUN: BLEU and chrF per language.")
@RUN
@SPLIT
@click.option(
    "--scorer", "scorers", multiple=True, metavar="NAME=COMMAND", help="A program that scores too; repeatable."
)
@click.option(
    "--scorer-timeout",
    type=FiniteRange(0, 10_000_000, min_open=True),
    metavar="SECONDS",
    help="Ends a scorer that takes longer.",
)
@JSON
def score(run: Path, split: str, scorers: Sequence[str], scorer_timeout: float | None, as_json: bool) -> None:
    """Scores the translations of RUN: SacreBLEU and chrF per language, with intervals; writes RUN/scores.json.

    One-to-many and many-to-many runs also get an off-target rate: the share of translations in the wrong language.
    A scorer gets segments as JSON lines and answers with a score for each; docs/scoring.md has the protocol:

    \b
      cclm score work/phrasebook/runs/phrasebook --scorer comet="comet-env/bin/python comet_scorer.py"
    """
    import json

    from cclm.cli.tables import print_scores
    from cclm.evaluation.evaluate import Evaluation
    from cclm.evaluation.external import parse_scorers
    from cclm.formats.base import VERSION

    scores = Evaluation(run, split).score(parse_scorers(scorers), scorer_timeout)
    if as_json:
        click.echo(json.dumps({"version": VERSION, **scores.plain()}, ensure_ascii=False))
    else:
        print_scores(scores)


@cli.command(short_help="Compare runs, or methods over seeds, with intervals.")
@click.argument("runs", nargs=-1, metavar="RUN RUN...", type=click.Path(file_okay=False, path_type=Path))
@SPLIT
@click.option("--metric", type=click.Choice(["bleu", "chrf"]), default="bleu", show_default=True)
@click.option(
    "--samples",
    type=click.IntRange(100, 1_000_000),
    default=2000,
    show_default=True,
    help="Resamples of the bootstrap.",
)
@JSON
def compare(runs: Sequence[Path], split: str, metric: Any, samples: int, as_json: bool) -> None:
    """Compares runs with the first RUN, or methods over seeds: differences, 95 % intervals and p values.

    Two runs are compared sentence by sentence: the test sentences of each language are resampled, the same for both.
    The means over all languages, HRLs and LRLs have an interval too. The folder of the bitext runs is a system like any
    other. Missing translations are made first. Ends with one sentence that states what may be concluded. One seed
    allows no conclusion about a method.

    Runs whose recipes differ in name and seed alone are one method. Where several methods are given, and several runs
    of one, methods are compared with that of the first RUN over the seeds that both have, by a paired t-test:

    \b
      cclm compare uniform.1 uniform.2 uniform.3 ccl-m.1 ccl-m.2 ccl-m.3
    """
    if len(runs) < 2:
        raise click.UsageError("give two runs or more: the first is what the others are compared with")
    import json

    from cclm.cli.tables import print_comparisons
    from cclm.evaluation.compare import compare as compare_runs

    found = compare_runs(runs, split, metric=metric, samples=samples)
    if as_json:
        click.echo(json.dumps(found.content(), ensure_ascii=False, allow_nan=False))
    else:
        print_comparisons(found)


@cli.command(short_help="Write the page of a run, a study or a sweep.")
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
def report(folder: Path) -> None:
    """Writes DIR/report.html: one page about a run, a study or a sweep.

    Of a run: the language graph, the curves, the scores and translations to read. Of a study (WORK/studies/NAME) and a
    sweep (WORK/sweeps/NAME) also report.md and the figure as SVG.
    """
    from cclm.report import pages

    write = pages.write_study if pages.is_study(folder) else pages.write_sweep
    click.echo(write(folder) if pages.is_study(folder) or pages.is_sweep(folder) else pages.run_report(folder))


@cli.command(short_help="Remove cached data and models that nothing uses any more.")
@click.argument("work", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="List what would be removed; remove nothing.")
def clean(work: Path, dry_run: bool) -> None:
    """Removes from the work folder WORK prepared data, graphs and bitext models that nothing uses any more.

    What a run was trained on stays, and so does what was made last. Runs are never removed.
    """
    from cclm.data.work_folder import WorkFolder
    from cclm.experiments import cache as command

    folder = WorkFolder(work)
    entries = command.unused(folder)
    for entry in entries:
        click.echo(f"{entry}\t{command.size(entry) / 1e6:,.1f} MB")
    if not entries:
        click.echo("nothing to remove: everything cached is in use", err=True)
    if not dry_run:
        command.remove(folder, entries)


@cli.command(short_help="List the runs below a folder, and how far each has come.")
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@JSON
def runs(folder: Path, as_json: bool) -> None:
    """Lists the runs below DIR: running, interrupted or finished, how far, the best checkpoint, the scores.

    DIR is a work folder, its runs folder, or any folder above.
    """
    from cclm.cli import listing

    listing.run(folder, as_json=as_json)
