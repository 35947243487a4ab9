"""Commands that need no corpus of one's own: demo, simulate, phrasebook, recipes."""

from collections.abc import Sequence
from pathlib import Path

import click

from cclm.cli.group import OVERRIDES, cli
from cclm.errors import ConfigError

RECOMMENDED = ("strong-small", "strong-medium", "strong-large")
"""The recipes that are listed first."""


@cli.command(short_help="Show what a curriculum would do; nothing is trained.")
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
    from cclm.simulate import display

    if "=" in scenario:  # the scenario was left out
        scenario, overrides = "related", (scenario, *overrides)
    output: display.Output = "json" if as_json else "yaml" if as_yaml else "text"
    display.run(scenario, overrides, output=output, compare=thresholds, svg=svg)


@cli.command(short_help="Train and compare on the built-in corpus, in minutes.")
@OVERRIDES
def demo(overrides: Sequence[str]) -> None:
    """Everything on the built-in corpus, in minutes and with nothing to download.

    Trains one model for all eight languages with the competence gate and tau = 5 and one with proportional sampling,
    both for as many steps, after a short training of one bilingual model per language; ends with their scores,
    translations to read and the page of the run. Done again, it only shows them. Any key of the recipe `phrasebook` can
    be changed: cclm demo work=elsewhere seed=2. Keys of the curriculum change the gated model alone.
    """
    from cclm.experiments import demo as command

    command.run(overrides)


@cli.command(short_help="Write the built-in corpus as TSV files.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder to write into.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="The same seed, the same bytes.")
@click.option("--size", "sizes", multiple=True, metavar="LANG=TRAIN,DEV,TEST", help="Pairs of a language; repeatable.")
def phrasebook(out: Path, seed: int, sizes: Sequence[str]) -> None:
    """Writes the corpus that comes with cclm: sentence pairs in nine languages, as TSV with a short README.

    In a recipe, `data.format: phrasebook` uses it directly. With --size, the other languages keep their sizes.
    """
    from cclm.cli import phrasebook as command

    command.run(out, seed, command.sizes(sizes))


@cli.command(short_help="List the built-in recipes, or print one.")
@click.argument("name", required=False)
@click.option("--keys", is_flag=True, help="Print every key of a recipe with its type, default and meaning.")
def recipes(name: str | None, keys: bool) -> None:
    """Lists the recipes that come with cclm, or prints one: cclm recipes NAME > my.yaml.

    Those of the family `strong` are recommended for text of your own: one each for little, more and much text.
    """
    from cclm.recipe.loading import built_in_recipes

    texts = built_in_recipes()
    if keys:
        from cclm.recipe.configuration import configuration

        click.echo(configuration(), nl=False)
    elif name is None:
        for known in dict.fromkeys((*RECOMMENDED, *texts)):
            click.echo(f"{known:<20} {texts[known].splitlines()[0].removeprefix('# ')}")
    elif name in texts:
        click.echo(texts[name].rstrip())
    else:
        raise ConfigError(f"no recipe {name!r}; there are {', '.join(texts)}")
