"""The command line: the one place that knows all the others. Exit codes: 0 done, 1 failed, 2 wrong usage."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from cclm import __version__
from cclm.config import ConfigError

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


def main() -> None:
    """The `cclm` command: errors of the user's are told in a line or two, without a traceback."""
    try:
        cli.main(prog_name="cclm", standalone_mode=False)
    except ConfigError as error:
        _end(str(error), 2)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (KeyboardInterrupt, click.Abort):
        _end("interrupted", 130)


def _end(message: str, code: int) -> None:
    click.echo(f"cclm: {message}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
