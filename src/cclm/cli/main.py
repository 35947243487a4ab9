"""The command line: the one place that knows all the others. Exit codes: 0 done, 1 failed, 2 wrong usage."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from cclm import __version__
from cclm.errors import ConfigError, DataError, Interrupted, TrainingError
from cclm.signals import ignore_from_now_on, raise_at_once

OVERRIDES = click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="cclm")
def cli() -> None:
    """One translation model, many languages, unequal data: a curriculum driven by measured competence."""


@cli.command()
@click.argument("scenario", default="related")
@OVERRIDES
@click.option("--json", "as_json", is_flag=True, help="Print every round as JSON, for programs.")
@click.option("--yaml", "as_yaml", is_flag=True, help="Print the scenario as YAML to edit, instead of running it.")
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Save what is printed as a picture.")
@click.option("--thresholds/--no-thresholds", default=True, help="Compare thresholds 0.5 to 1.0 too (default: yes).")
def simulate(
    scenario: str, overrides: Sequence[str], as_json: bool, as_yaml: bool, svg: Path | None, thresholds: bool
) -> None:
    """What a curriculum would do, on assumed learning curves: no model, no data, no GPU.

    SCENARIO is related (the default), diverse, related-o2m, diverse-o2m (the paper's language sets), thousand, or a
    YAML file. Any of its keys can be changed:

    \b
      cclm simulate related curriculum.gate.threshold=0.8
      cclm simulate diverse curriculum.gate.aggregate=max curriculum.sampler='{name: temperature, tau: 5}'
      cclm simulate related --yaml > mine.yaml
      cclm simulate mine.yaml
    """
    from cclm.simulate import command

    if "=" in scenario:  # the scenario was left out
        scenario, overrides = "related", (scenario, *overrides)
    output: command.Output = "json" if as_json else "yaml" if as_yaml else "text"
    command.run(scenario, overrides, output=output, compare=thresholds, svg=svg)


RECIPE = click.argument("recipe")
JSON = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON, for programs.")
WORKERS = click.option("--workers", type=click.IntRange(1), help="Processes to use (default: one a core).")


@cli.command()
@RECIPE
@OVERRIDES
@JSON
@WORKERS
def doctor(recipe: str, overrides: Sequence[str], as_json: bool, workers: int | None) -> None:
    """Reads all text of RECIPE once and says what is wrong with it. Changes nothing.

    Misaligned or unreadable files, empty and overlong lines, duplicates, copies of the source, lines in the wrong
    language, swapped columns, characters unknown in training, dev or test sentences that stand in some language's
    training text, dev sets too small for the probe. Ends with 1 if there is an error.
    """
    from cclm.cli import doctor as stage
    from cclm.recipe.schema import load_recipe

    if not stage.run(load_recipe(recipe, overrides), as_json=as_json, workers=workers):
        sys.exit(1)


@cli.command()
@RECIPE
@OVERRIDES
@JSON
@WORKERS
@click.option("--dry-run", is_flag=True, help="Say whether there is anything to do.")
def prepare(recipe: str, overrides: Sequence[str], as_json: bool, workers: int | None, dry_run: bool) -> None:
    """Checks, tokenises and memory-maps the text of RECIPE, into WORK/prepared.

    Done once: it is done again only when the text or a setting that matters has changed.
    """
    from cclm.experiments import prepare as stage
    from cclm.recipe.schema import load_recipe

    stage.run(load_recipe(recipe, overrides), as_json=as_json, dry_run=dry_run, workers=workers)


@cli.command()
@RECIPE
@OVERRIDES
@JSON
@WORKERS
def graph(recipe: str, overrides: Sequence[str], as_json: bool, workers: int | None) -> None:
    """Computes the language graph of RECIPE: vocabulary overlap between HRLs and LRLs (Eq. 9).

    Writes WORK/graph.json and WORK/graph.svg. A matrix of your own is taken with graph.file=FILE.
    """
    from cclm.experiments import graph as stage
    from cclm.recipe.schema import load_recipe

    stage.run(load_recipe(recipe, overrides), as_json=as_json, workers=workers)


DRY_RUN = click.option("--dry-run", is_flag=True, help="Say what would be done and what it would cost; do nothing.")
DRY_JSON = click.option("--json", "as_json", is_flag=True, help="With --dry-run: print that as JSON, for programs.")


def _is_dry(recipe: str, overrides: Sequence[str], command: str, dry_run: bool, as_json: bool) -> bool:
    """Whether the command was only to say what it would do; it has been said then."""
    if as_json and not dry_run:
        raise click.UsageError("--json goes with --dry-run")
    if dry_run:
        from cclm.experiments.dry_run import dry_run as stage
        from cclm.recipe.schema import load_recipe

        stage(load_recipe(recipe, overrides), command, as_json=as_json)
    return dry_run


@cli.command()
@RECIPE
@OVERRIDES
@click.option("--at-once", type=click.IntRange(1), help="Trainings side by side (default: one a core).")
@DRY_RUN
@DRY_JSON
def benchmark(recipe: str, overrides: Sequence[str], at_once: int | None, dry_run: bool, as_json: bool) -> None:
    """Trains one bitext model a language of RECIPE, for L*: what competence is measured against.

    They share the vocabularies and tags of the recipe. Done once; a benchmark that was killed goes on where it was. A
    table of your own is taken with benchmark.file=FILE.
    """
    if _is_dry(recipe, overrides, "benchmark", dry_run, as_json):
        return
    from cclm.experiments import train as stage
    from cclm.recipe.schema import load_recipe

    losses = stage.run_benchmark(load_recipe(recipe, overrides), at_once)
    for lang, loss in losses.items():
        click.echo(f"{lang}\t{loss:.4f}")


TENSORBOARD = click.option("--tensorboard", is_flag=True, help="Draw the log for TensorBoard, into RUN/tensorboard.")


@cli.command()
@RECIPE
@OVERRIDES
@TENSORBOARD
@click.option("--strict", is_flag=True, help="Fail if the newest checkpoint is damaged; do not use the one before it.")
@click.option("--force", is_flag=True, help="Resume with other settings of training; this is recorded in the run.")
@DRY_RUN
@DRY_JSON
def train(recipe: str, overrides: Sequence[str], dry_run: bool, as_json: bool, **how: bool) -> None:
    """Trains the model of RECIPE into WORK/runs/NAME; what is missing before it is made first.

    A run that exists is resumed, to the same bytes as if it had never stopped. A setting that would change the result
    is refused, and the difference is shown. --force allows other settings of training, which made_from.json and the
    manifests of later checkpoints then list.
    """
    if _is_dry(recipe, overrides, "train", dry_run, as_json):
        return
    from cclm.experiments import train as stage
    from cclm.recipe.schema import load_recipe

    if folder := stage.run_train(load_recipe(recipe, overrides), **how):
        click.echo(folder)


RUN = click.argument("run", type=click.Path(file_okay=False, path_type=Path))
SPLIT = click.option("--split", type=click.Choice(["dev", "test"]), default="test", show_default=True)


TEXT = click.Path(dir_okay=False, path_type=Path)


@cli.command()
@RUN
@SPLIT
@click.option("--source", help="Translate text from this language, a sentence a line.", metavar="LANGUAGE")
@click.option("--target", help="Into this one; it may be left out where there is only one.", metavar="LANGUAGE")
@click.option("--input", "given", type=TEXT, help="The text (default: standard input).")
@click.option("--output", "out", type=TEXT, help="Where to write (default: standard output).")
@click.option("--quantization", type=click.Choice(["float32", "int8"]), help="int8 is faster (default: float32).")
@click.option("--threads", type=click.IntRange(1), help="Sentences are translated on so many (default: one a core).")
def translate(run: Path, split: str, source: str | None, target: str | None, **options: Any) -> None:
    """Translates text with the best checkpoint of RUN; without --source, the test set (or dev) of every language.

    \b
      cclm translate work/phrasebook/runs/phrasebook --source aze < aze.txt > eng.txt

    The model is exported to CTranslate2 once, into RUN/ctranslate2, and must give the same probabilities as the trained
    one before it is used. In int8 single probabilities move; how much its dev loss and its translations differ is
    measured and told, and it is refused where it loses more than 0.25 bits a token.
    """
    chosen = {name: value for name, value in options.items() if value is not None}
    if source or target:
        from cclm.translation.text import translate_text

        translate_text(run, source, target, **chosen)
        return
    if chosen:
        raise click.UsageError("--input, --output, --quantization and --threads go with --source")
    from cclm.evaluation import evaluate as stage

    for path in stage.run_translate(run, split):
        click.echo(path)


@cli.command()
@RUN
@SPLIT
@click.option(
    "--scorer", "scorers", multiple=True, metavar="NAME=COMMAND", help="A program that scores too; repeatable."
)
@JSON
def score(run: Path, split: str, scorers: Sequence[str], as_json: bool) -> None:
    """Scores the translations of RUN: SacreBLEU and chrF a language, with intervals; writes RUN/scores.json.

    Out of one language, or between many, the share of translations in another language than asked for stands beside
    them. A scorer gets segments as JSON lines and answers a score for each; docs/scoring.md has the protocol:

    \b
      cclm score work/phrasebook/runs/phrasebook --scorer comet="comet-env/bin/python comet_scorer.py"
    """
    import json

    from cclm.evaluation import evaluate as stage
    from cclm.evaluation.more_scores import scorers_of

    scores = stage.run_score(run, split, scorers=scorers_of(scorers), quiet=as_json)
    if as_json:
        click.echo(json.dumps(scores, ensure_ascii=False))


@cli.command()
@click.argument("runs", nargs=-1, metavar="RUN RUN...", type=click.Path(file_okay=False, path_type=Path))
@SPLIT
@click.option("--metric", type=click.Choice(["bleu", "chrf"]), default="bleu", show_default=True)
@click.option(
    "--samples", type=click.IntRange(100), default=2000, show_default=True, help="Resamples of the bootstrap."
)
@JSON
def compare(runs: Sequence[Path], split: str, metric: Any, samples: int, as_json: bool) -> None:
    """Compares runs with the first RUN, or methods over seeds: differences, 95 % intervals and p values.

    Two runs are compared sentence by sentence: the test sentences of each language are resampled, the same for both.
    The means over all languages, HRLs and LRLs have an interval too. The folder of the bitext runs is a system like any
    other. What is not translated yet is translated first. Says in a sentence what may be concluded; from one seed that
    is nothing about a method.

    Runs whose recipes differ in name and seed alone are one method. Where several methods are given, and several runs
    of one, methods are compared with that of the first RUN over the seeds that both have, by a paired t-test:

    \b
      cclm compare uniform.1 uniform.2 uniform.3 ccl-m.1 ccl-m.2 ccl-m.3
    """
    if len(runs) < 2:
        raise click.UsageError("give two runs or more: the first is what the others are compared with")
    from cclm.evaluation import compare as stage

    stage.run(runs, split, metric=metric, samples=samples, as_json=as_json)


@cli.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
def report(folder: Path) -> None:
    """Writes DIR/report.html: one page about a run, a study or a sweep.

    Of a run: the language graph, the curves, the scores and translations to read. Of a study (WORK/studies/NAME) and a
    sweep (WORK/sweeps/NAME) also report.md and the figure as SVG.
    """
    from cclm.report import pages

    write = pages.write_study if pages.is_study(folder) else pages.write_sweep
    click.echo(write(folder) if pages.is_study(folder) or pages.is_sweep(folder) else pages.run_report(folder))


@cli.command()
@RECIPE
@OVERRIDES
@TENSORBOARD
@DRY_RUN
@DRY_JSON
def run(recipe: str, overrides: Sequence[str], tensorboard: bool, dry_run: bool, as_json: bool) -> None:
    """RECIPE from text to report: prepare, graph, benchmark, train, translate, score, report.

    Every stage that is done is passed over; interrupted anywhere, the same command goes on.
    """
    if _is_dry(recipe, overrides, "run", dry_run, as_json):
        return
    from cclm.experiments import run as stage
    from cclm.recipe.schema import load_recipe

    if page := stage.run(load_recipe(recipe, overrides), tensorboard=tensorboard):
        click.echo(page)


@cli.command()
@RECIPE
@OVERRIDES
@click.option("--threshold", "thresholds", type=click.FloatRange(0), multiple=True, help="Default: 0.5, 0.6 ... 1.0.")
@click.option("--aggregate", "aggregates", type=click.Choice(["max", "avg"]), multiple=True, help="Default: both.")
@click.option("--rival", type=click.Path(file_okay=False, path_type=Path), help="A run to draw across the figure.")
@click.option("--at-once", type=click.IntRange(1), help="Trainings side by side (default: one a core).")
def sweep(recipe: str, overrides: Sequence[str], thresholds: Sequence[float], aggregates: Any, **options: Any) -> None:
    """Trains RECIPE with every threshold and both ways to evaluate HRLs; chooses by weighted dev loss (Figure 2).

    Runs that decide alike are trained once: each comes out as if it had been trained by itself, at a fraction of the
    steps. Writes WORK/sweeps/NAME; interrupted anywhere, the same command goes on.

    \b
      cclm sweep phrasebook
      cclm sweep phrasebook --threshold 0.7 --threshold 0.9 --aggregate avg
    """
    from cclm.experiments import sweep_run as stage
    from cclm.recipe.schema import load_recipe

    grid = (thresholds or stage.THRESHOLDS, aggregates or stage.AGGREGATES)
    click.echo(stage.run(load_recipe(recipe, overrides), *grid, **options))


@cli.command()
@click.argument("study")
@OVERRIDES
@click.option("--at-once", type=click.IntRange(1), help="Trainings side by side (default: one a core).")
def study(study: str, overrides: Sequence[str], at_once: int | None) -> None:
    """Trains every arm of STUDY with every seed, everything else equal; translates, scores and compares them.

    STUDY is a YAML file, or one that comes with cclm: paper, phrasebook, phrasebook-exploratory. What is asked stands
    in it before the first run; all else is told as exploratory. A trial that fails is marked and the others go on; the
    same command does what is missing. Writes WORK/studies/NAME.

    Where STUDY has a section `tune`, its arms first get the values with the lowest macro dev loss, with another seed.
    `paper` has one: 36 trainings before its 70 trials (tune=null leaves them out).

    \b
      cclm study phrasebook
      cclm study paper recipe=ted8-diverse-o2m changes.data.path=ted/ seeds=[1,2,3]
    """
    from cclm.experiments import study_run as stage
    from cclm.recipe.study import load_study

    click.echo(stage.run(load_study(study, overrides), at_once))


@cli.command()
@OVERRIDES
def demo(overrides: Sequence[str]) -> None:
    """All of it on the built-in corpus, in minutes and with nothing to download.

    Trains a bilingual model a language, one model for all eight languages with CCL-M and one with proportional
    sampling; ends with their scores, translations to read and the page of the run. Done again, it only shows them. Any
    key of the recipe `phrasebook` can be changed: cclm demo work=elsewhere seed=2
    """
    from cclm.experiments import demo as stage

    stage.run(overrides)


@cli.command()
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@JSON
def runs(folder: Path, as_json: bool) -> None:
    """Lists the runs below DIR: running, interrupted or finished, how far, the best checkpoint, the scores.

    DIR is a work folder, its runs folder, or any folder above.
    """
    from cclm.cli import runs as stage

    stage.run(folder, as_json=as_json)


@cli.command()
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder to write into.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="The same seed, the same bytes.")
@click.option("--size", "sizes", multiple=True, metavar="LANG=TRAIN,DEV,TEST", help="Pairs of a language; repeatable.")
def phrasebook(out: Path, seed: int, sizes: Sequence[str]) -> None:
    """Writes the corpus that comes with cclm: sentence pairs in nine languages, as TSV with a short README.

    In a recipe, `data.format: phrasebook` uses it directly. With --size, the other languages keep their sizes.
    """
    from cclm.cli import phrasebook as stage

    stage.run(out, seed, stage.sizes(sizes))


@cli.command()
@click.argument("name", required=False)
def recipes(name: str | None) -> None:
    """Lists the recipes that come with cclm, or prints one: cclm recipes NAME > my.yaml."""
    from cclm.recipe.schema import built_in_recipes

    texts = built_in_recipes()
    if name is None:
        for known, text in texts.items():
            click.echo(f"{known:<20} {text.splitlines()[0].removeprefix('# ')}")
    elif name in texts:
        click.echo(texts[name], nl=False)
    else:
        raise ConfigError(f"no recipe {name!r}; there are {', '.join(texts)}")


TRAIN = {"torch", "sentencepiece", "safetensors", "sacrebleu", "ctranslate2"}
"""What the extra of this name brings."""


def main() -> None:
    """The `cclm` command: errors of the user's are told in a line or two, without a traceback."""
    received = raise_at_once()
    try:
        cli.main(prog_name="cclm", standalone_mode=False)
    except ConfigError as error:
        _end(str(error), 2)
    except (DataError, TrainingError) as error:
        _end(str(error), 1)
    except Interrupted as error:
        _end("interrupted; the same command goes on from here", 128 + error.number)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except OSError as error:
        if error.filename is None:
            raise
        _end(f"{error.filename}: {error.strerror}", 1)
    except ModuleNotFoundError as error:
        if error.name not in TRAIN:
            raise
        _end(f"this command needs {error.name}: pip install 'ccl-m[train]'", 1)
    except (KeyboardInterrupt, click.Abort):
        _end("interrupted", 130)
    except Exception:
        if not received.number:
            raise
        _end("interrupted", 128 + received.number)  # a library has turned the interruption into an error of its own
    finally:
        if received.number:
            ignore_from_now_on()


def _end(message: str, code: int) -> None:
    click.echo(f"cclm: {message}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
