"""The `cclm` command group, and the arguments and options that several commands share."""

import math
from pathlib import Path
from typing import Any

import click

from cclm import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="cclm")
def cli() -> None:
    """One translation model, many languages, unequal data: a curriculum driven by measured competence.

    Begin with `cclm demo`; for text of your own, write a recipe (`cclm recipes phrasebook` prints one), then
    `cclm doctor RECIPE` and `cclm run RECIPE`.
    """


class FiniteRange(click.FloatRange):
    """A range of numbers without NaN, which no bound excludes, and without infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number that an option is given."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


RECIPE = click.argument("recipe")
OVERRIDES = click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
RUN = click.argument("run", type=click.Path(file_okay=False, path_type=Path))
JSON = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON, for programs.")
WORKERS = click.option("--workers", type=click.IntRange(1, 1024), help="Processes to use (default: one per core).")
AT_ONCE = click.option(
    "--at-once",
    "--at-most",
    "at_once",
    type=click.IntRange(1),
    help="Trainings side by side (default: one per core or GPU; 32 jobs of SLURM).",
)
EXECUTOR = click.option("--executor", type=click.Choice(["processes", "slurm"]), help="Where trainings run.")
SLURM = click.option("--slurm", multiple=True, metavar="KEY=VALUE,...", help="Options of sbatch, with time=MINUTES.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Say what would be done and what it would cost; do nothing.")
DRY_JSON = click.option("--json", "as_json", is_flag=True, help="With --dry-run: print that as JSON, for programs.")
TENSORBOARD = click.option("--tensorboard", is_flag=True, help="Draw the log for TensorBoard, into RUN/tensorboard.")
TRACKIO = click.option("--trackio", is_flag=True, help="Log to Trackio too; `trackio show` displays it.")
BOARD = click.option("--board", "shows_board", is_flag=True, help="Show the training in a browser: `cclm board WORK`.")
SPLIT = click.option("--split", type=click.Choice(["dev", "test"]), default="test", show_default=True)
TEXT = click.Path(dir_okay=False, path_type=Path)
