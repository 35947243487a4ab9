"""Every command with every kind of other settings in a work folder where everything is done: what is made, reused or
refused, and whether a finished file has changed.

    python tests/soak/matrix.py                             # about ten minutes on two cores
    python tests/soak/matrix.py --only train --only sweep

Each cell has a copy of the folder. Ends with 1 if a finished file has changed or is gone, if there was a traceback, if
a refusal took longer than five seconds, or if one of two processes at once failed.

Descriptions follow the recipe and are no results: config.yaml, the recipes beside a study or sweep, pages.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from forked_commands import Started, start, tracebacks, wait
from off_path.cli import write_text
from off_path.test_demo import FEW

STUDY = """version: 1
name: mini
recipe: recipe.yaml
seeds: [1]
arms:
  bitext: {}
  proportional: {curriculum.gate: {name: all}, curriculum.sampler: {name: temperature, tau: 1}}
  ccl-m: {}
"""
COMMANDS: dict[str, list[str]] = {
    "prepare": ["prepare", "recipe.yaml"],
    "graph": ["graph", "recipe.yaml"],
    "benchmark": ["benchmark", "recipe.yaml"],
    "train": ["train", "recipe.yaml"],
    "train, other name": ["train", "recipe.yaml", "name=other"],
    "run": ["run", "recipe.yaml"],
    "sweep": ["sweep", "recipe.yaml", "--threshold", "0.3", "--threshold", "9", "--aggregate", "max"],
    "study": ["study", "mini.yaml"],
    "demo": ["demo", *(each for each in FEW if not each.startswith("work=")), "work=work"],
}
BEGUN = ("run", "sweep", "study")
"""The commands that fill the folder; the demo has a corpus of its own, and a folder of its own."""
CHANGES: dict[str, str] = {
    "nothing": "",
    "other pieces": "vocabulary.pieces=80",
    "direction": "data.direction=one-to-many",
    "patience": "training.patience=40",
    "precision auto": "training.precision=auto",
    "precision bf16": "training.precision=bf16",
    "max_steps": "training.max_steps=20",
    "benchmark steps": "benchmark.max_steps=20",
    "one language more": "data.high_resource=[tur, por]",
    "two at once": "",
}
FOR_DEMO = {"one language more": "data.high_resource=[por, ces]", "other pieces": "vocabulary.pieces=150"}
DESCRIPTIONS = re.compile(
    r"(^|/)(config\.yaml|report\.html|environment\.json|timing\.jsonl|\.?[^/]*lock)$"
    r"|^(sweeps|studies)/[^/]+/(trials/)?(?!results|sweep|tuned|declared|losses)[^/]+\.json$|^runs/[^/]+\.json$"
)
LIMIT, REFUSAL = 300.0, 5.0
"""Seconds after which a command counts as hanging, and within which a refusal must come."""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int | None
    seconds: float
    stderr: str


def main() -> None:
    """Runs the cells, prints the table and judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(COMMANDS), help="a command; repeatable")
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="cclm-matrix-"))
    matrix = Matrix(scratch, options.only or list(COMMANDS))
    matrix.run()
    print("\n".join(matrix.complaints) or "no finished file has changed")
    if matrix.complaints:
        sys.exit(1)
    shutil.rmtree(scratch)


class Matrix:
    """The folders that the cells are copies of, and what was found."""

    def __init__(self, scratch: Path, commands: Sequence[str]) -> None:
        self.scratch, self.commands = scratch, commands
        self.complaints: list[str] = []
        write_text(scratch / "text")
        (scratch / "text" / "mini.yaml").write_text(STUDY)

    def run(self) -> None:
        """Fills the folders and prints a line per cell."""
        for name, commands in (("done", BEGUN), ("demo", ("demo",))):
            shutil.copytree(self.scratch / "text", self.scratch / name)
            for command in commands:
                if name == "done" or "demo" in self.commands:
                    self._judge(f"{command}, first", [self._ended(name, COMMANDS[command])], must_succeed=True)
        print(f"{'command':<19}{'change':<19}{'exit':<6}{'s':>5}  outcome", flush=True)
        for command in self.commands:
            for change in CHANGES:
                self._cell(command, change)

    def _cell(self, command: str, change: str) -> None:
        twice = change == "two at once"
        source = "text" if twice else "demo" if command == "demo" else "done"
        shutil.copytree(self.scratch / source, self.scratch / "cell", symlinks=True)
        before = contents(self.scratch / "cell" / "work")
        ended = self._all_ended([*COMMANDS[command], *self._override(command, change)], 2 if twice else 1)
        outcome = self._compare(f"{command}, {change}", before, change)
        self._judge(f"{command}, {change}", ended, must_succeed=twice)
        codes = " ".join(str(end.code) for end in ended)
        seconds = max(end.seconds for end in ended)
        if any(end.code for end in ended):
            reason = next(line for line in ended[0].stderr.splitlines()[::-1] if line.strip())
            outcome = f"refused: {reason.strip():.60}" + (f" (but {outcome})" if "made" in outcome else "")
        print(f"{command:<19}{change:<19}{codes:<6}{seconds:>5.1f}  {outcome}", flush=True)
        shutil.rmtree(self.scratch / "cell")

    def _override(self, command: str, change: str) -> list[str]:
        override = (FOR_DEMO.get(change) if command == "demo" else None) or CHANGES[change]
        if command == "study" and override:
            override = f"changes.{override}"
        return [override] if override else []

    def _ended(self, folder: str, arguments: list[str]) -> Ended:
        process = start(arguments, self.scratch / folder, self.scratch / "output", cold=True)
        return self._wait(process, time.monotonic())

    def _all_ended(self, arguments: list[str], number: int) -> list[Ended]:
        began, output = time.monotonic(), self.scratch / "output"
        processes = [start(arguments, self.scratch / "cell", output / str(i), cold=True) for i in range(number)]
        return [self._wait(process, began) for process in processes]

    def _wait(self, process: Started, began: float) -> Ended:
        code = wait(process, LIMIT)
        return Ended(code, time.monotonic() - began, process.stderr.read_text(encoding="utf-8", errors="replace"))

    def _judge(self, name: str, ended: list[Ended], *, must_succeed: bool = False) -> None:
        for end in ended:
            if tracebacks(end.stderr) or end.code is None or (must_succeed and end.code):
                self.complaints.append(f"{name}: exit code {end.code}\n{end.stderr}")
            elif end.code and end.seconds > REFUSAL:
                self.complaints.append(f"{name}: refused after {end.seconds:.1f} s\n{end.stderr}")

    def _compare(self, name: str, before: dict[str, str], change: str) -> str:
        """What the command has made, and complaints about finished files that changed or are gone."""
        work = self.scratch / "cell" / "work"
        after = contents(work)
        extended = self._extended(work, before, after) if change == "max_steps" else set()
        changed = [path for path, digest in before.items() if after.get(path) != digest and group(path) not in extended]
        self.complaints += [f"{name}: {path} {'changed' if path in after else 'is gone'}" for path in changed]
        made = sorted({group(path) for path in after.keys() - before.keys()} - extended)
        runs = sorted(each for each in extended if each.startswith("runs/"))
        parts = [f"made {', '.join(made)}"] if made else ["reused all"] if not runs else []
        parts += [f"extended {', '.join(runs)}"] if runs else []
        parts += [f"CHANGED {len(changed)} files"] if changed else []
        return "; ".join([*parts, f"kept {len(before) - len(changed)}"])

    def _extended(self, work: Path, before: dict[str, str], after: dict[str, str]) -> set[str]:
        """Runs that have got more steps: the log that was there is the beginning of that which is."""
        found = {"studies/mini", "sweeps/small"}  # their results are those of the runs
        for path in (path for path in before if path.endswith("log.jsonl") and after.get(path) != before[path]):
            old = self.scratch / ("done" if (self.scratch / "done/work" / path).exists() else "demo") / "work" / path
            if (work / path).read_bytes().startswith(old.read_bytes()):
                found.add(group(path))
        return found if len(found) > 2 else set()


def contents(work: Path) -> dict[str, str]:
    """The checksum of every finished file of a work folder, by its path."""
    found = {}
    for place, _, names in os.walk(work):
        for path in (Path(place, name) for name in names):
            relative = path.relative_to(work).as_posix()
            if not path.is_symlink() and not DESCRIPTIONS.search(relative):
                found[relative] = hashlib.sha256(_result(path)).hexdigest()
    return found


def _result(path: Path) -> bytes:
    """The content of a file; of the results of a study all but the changes that it was asked for with."""
    if path.name != "results.json":
        return path.read_bytes()
    content = json.loads(path.read_bytes())
    del content["study"]["changes"]
    return json.dumps(content).encode()


def group(path: str) -> str:
    """What a file belongs to: an entry of the cache, a run, a study, a sweep."""
    parts = path.split("/")
    return parts[1] if parts[0] == "cache" else "/".join(parts[:2])


if __name__ == "__main__":
    main()
