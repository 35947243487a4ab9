"""Where trainings run: settings that decide no result. From the command line, the recipe, or a file of the user's."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from cclm.errors import ConfigError
from cclm.recipe.section import Count, Section, check


class ExecutionSection(Section):
    """Where the trainings of a study, sweep or benchmark run. No setting here changes a result or a fingerprint.

    The same keys may stand in `~/.config/cclm.yaml`; the recipe and the command line count more.
    """

    executor: Literal["processes", "slurm"] = "processes"
    """Processes on this machine, or jobs of SLURM (extra `slurm`)."""
    at_once: Count | None = None
    """The maximum number of trainings side by side. `null` means one per core or GPU of this machine, or 32 jobs of
    SLURM."""
    slurm: str = ""
    """Options of `sbatch` for each job, such as `partition=gpu,gres=gpu:1,time=240`. `time`, the limit in minutes, is
    required: a job that reaches it continues by itself."""


def users_file() -> Path:
    """The user's own settings: `cclm.yaml` in XDG_CONFIG_HOME, or in `~/.config`."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")) / "cclm.yaml"


def execution_of(recipe: ExecutionSection, given: Mapping[str, object]) -> ExecutionSection:
    """What the command line gives, else the recipe, else the user's file; options of sbatch are taken one by one."""
    from cclm.recipe.loading import read_yaml

    path = users_file()
    own = check(ExecutionSection, read_yaml(path), str(path)) if path.exists() else ExecutionSection()
    parts = [own, recipe, check(ExecutionSection, given, "command line")]
    merged = {name: value for part in parts for name, value in part.model_dump(exclude_unset=True).items()}
    options = {name: value for part in parts for name, value in sbatch_options(part.slurm).items()}
    return ExecutionSection(**merged | {"slurm": ",".join(f"{name}={value}" for name, value in options.items())})


def sbatch_options(text: str) -> dict[str, str]:
    """Options by name from `partition=gpu,time=240`. A part without `=` belongs to the value before it."""
    options: dict[str, str] = {}
    last = ""
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if equals and name:
            last, options[name] = name, value
        elif last and not equals:
            options[last] += f",{part}"
        else:
            raise ConfigError(f"slurm: {text!r}: give options of sbatch, as in partition=gpu,time=240")
    return options
