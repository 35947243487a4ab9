"""Each extra alone: every command works, or names an extra that it needs."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest
from off_path.cli import done, write_text
from packaging.requirements import Requirement

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent
EXTRAS = ("none", "train", "board", "serve", "tensorboard", "trackio", "hf", "slurm", "langid", "zstd")
HIDE = """import sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in {names!r} else self.finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = map(Without, sys.meta_path)
"""
RUN = "work/runs/small"
ZSTD = "data.path=zst/{lang}.{split}.tsv.zst"
COMMANDS = [
    ("", "doctor recipe.yaml"),
    ("", "recipes"),
    ("langid", "doctor recipe.yaml data.wrong_language=drop"),
    ("zstd", f"doctor recipe.yaml {ZSTD}"),
    ("hf", "doctor recipe.yaml data.format=huggingface data.path=rows/{lang}.{split}.jsonl"),
    ("train", "prepare recipe.yaml"),
    ("train", "graph recipe.yaml"),
    ("train", "benchmark recipe.yaml"),
    ("train", "train recipe.yaml"),
    ("train", "run recipe.yaml"),
    ("train", "sweep recipe.yaml --dry-run"),
    ("train", "study phrasebook --dry-run"),
    ("train", f"translate {RUN}"),
    ("train", f"score {RUN}"),
    ("train", f"compare {RUN} work/runs/other"),
    ("train", f"report {RUN}"),
    ("train", "runs work"),
    ("train", "clean work --dry-run"),
    ("train", f"extend {RUN} --data more.yaml --dry-run"),
    ("train", f"export {RUN} --to ctranslate2 --output export"),
    ("train hf", f"export {RUN} --to huggingface --output model"),
    ("train slurm", "benchmark recipe.yaml work=elsewhere --executor slurm --slurm partition=x,time=5"),
    ("board", "board work --no-open"),
    ("serve", f"serve {RUN}"),
]
"""The extras that a command needs, and the command."""
SERVERS = {"board": ("board", "serve"), "serve": ("serve",)}
"""Commands that do not end where one of these extras is there."""


@cache
def hidden(extra: str) -> frozenset[str]:
    """The modules that an installation with this extra alone does not have, of those that are here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    there = installed([*project["dependencies"], *project["optional-dependencies"].get(extra, [])])
    return frozenset(name for name, by in owners().items() if not there & {plain(each) for each in by}) - {"cclm"}


@cache
def owners() -> Mapping[str, list[str]]:
    """The packages that each module here comes from."""
    return importlib.metadata.packages_distributions()


def installed(requirements: Iterable[str]) -> set[str]:
    """The names of all packages that come with these requirements."""
    found: set[str] = set()
    waiting = list(requirements)
    while waiting:
        requirement = Requirement(waiting.pop())
        is_wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if is_wanted and plain(requirement.name) not in found:
            found.add(plain(requirement.name))
            try:
                waiting += importlib.metadata.requires(requirement.name) or []
            except importlib.metadata.PackageNotFoundError:
                continue
    return found


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two finished runs, and the text in other forms."""
    import zstandard

    place = tmp_path_factory.mktemp("extras")
    write_text(place)
    recipe = (place / "recipe.yaml").read_text()
    (place / "table.json").write_text(json.dumps({"version": 1, "losses": dict.fromkeys(("tur", "aze", "por"), 5.0)}))
    (place / "recipe.yaml").write_text(recipe.replace("benchmark: {max_steps: 10}", "benchmark: {file: table.json}"))
    more = "version: 1\nname: more\nwork: more\ndata: {format: tsv, path: text, high_resource: [por]}\n"
    (place / "more.yaml").write_text(more)
    (place / "zst").mkdir()
    (place / "rows").mkdir()
    for path in (place / "text").iterdir():
        (place / "zst" / f"{path.name}.zst").write_bytes(zstandard.compress(path.read_bytes()))
        lang = path.name.partition(".")[0]
        pairs = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
        rows = [json.dumps({"translation": {"eng": pair[0], lang: pair[1]}}) for pair in pairs]
        (place / "rows" / path.with_suffix(".jsonl").name).write_text("\n".join(rows) + "\n")
    for name in ("small", "other"):
        done(place, "run", "recipe.yaml", f"name={name}")
    return place


def environment(place: Path, extra: str) -> dict[str, str]:
    """The environment of an installation with this extra alone."""
    place.mkdir()
    (place / "sitecustomize.py").write_text(HIDE.format(names=set(hidden(extra))))
    paths = os.pathsep.join([str(place), os.environ.get("PYTHONPATH", "")])
    return os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}


@pytest.mark.parametrize("extra", EXTRAS)
def test_every_command_works_or_names_an_extra_that_it_needs(folder: Path, tmp_path: Path, extra: str) -> None:
    """The extra that is named is not the one that is there: so one of them is enough where a command needs one."""
    asked = [(needs, text) for needs, text in COMMANDS if extra not in SERVERS.get(text.split()[0], ())]
    (tmp_path / "commands.json").write_text(json.dumps([text.split() for _, text in asked]))
    program = [sys.executable, str(ROOT / "tests" / "commands_alone.py"), str(tmp_path / "commands.json")]
    ended = subprocess.run(
        program, cwd=folder, env=environment(tmp_path / "hide", extra), capture_output=True, text=True, check=True
    )
    wrong = []
    for (needs, text), (code, told) in zip(asked, json.loads(ended.stdout.splitlines()[-1]), strict=True):
        named = {one for one in needs.split() if one != extra and f"ccl-m[{one}]" in told}
        if "Traceback" in told or not (code == 0 or (code in (1, 2) and named)):
            wrong.append(f"{text}: {code}\n{told}")
    assert wrong == []


@pytest.mark.parametrize(("extra", "command"), [("board", "board work --no-open"), ("serve", f"serve {RUN}")])
def test_the_extra_of_a_server_is_enough(folder: Path, tmp_path: Path, extra: str, command: str) -> None:
    done(folder, "translate", RUN)  # an export is there
    variables = environment(tmp_path / "hide", extra) | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "cclm", *command.split()],
        cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
        assert "http://127.0.0.1:" in line, line + process.stdout.read()
