"""Kills `cclm run`, `study` and `sweep` at random moments, and compares their results with those of undisturbed ones.

    python tests/soak/kills.py                              # 1,000 kills, about an hour on one core
    python tests/soak/kills.py --kills 20 --seed 7

Every command is restarted until it is done. Killed is the command alone, its process group, it and everything that it
has started, or one of its processes; mostly by SIGKILL, sometimes by SIGTERM or SIGINT; at any moment. Then every file
of its work folder is compared byte by byte, but for clocks and locks, and everything else in the project folder with
what was there before. Ends with 1 if a byte differs, if there was a traceback or a wrong exit code, or if a file
outside of the work folder was touched.

What Python alone does does not count: its fork server prints a traceback when its parent is killed, and so does Python
itself when SIGINT comes before it has got to the code of cclm. If it has not even got ready, its exit code is 1.
"""

import argparse
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from command import descendants
from forked_commands import Started, differences, end_all, left_over, listing, load_everything, start, tracebacks, wait
from off_path.cli import write_text

STUDY = """version: 1
name: mini
recipe: recipe.yaml
changes: {benchmark.file: table.json}
seeds: [1]
primary: [[ccl-m, proportional]]
arms:
  proportional: {curriculum.gate: {name: all}, curriculum.sampler: {name: temperature, tau: 1}}
  ccl-m: {}
"""
COMMANDS = {
    "run": ["run", "recipe.yaml"],
    "study": ["study", "mini.yaml"],
    "sweep": ["sweep", "recipe.yaml", "benchmark.file=table.json", "--threshold", "0.3", "--threshold", "9"],
}
TARGETS = {"parent": 3, "group": 3, "all": 2, "one": 2}
SIGNALS = {signal.SIGKILL: 8, signal.SIGTERM: 1, signal.SIGINT: 1}
CLOCKS = re.compile(r"(^|/)(timing\.jsonl|environment\.json|\.?[^/]*lock)$")
"""Files that say when, how fast and where something was made, and locks."""
COST = re.compile(rb"## Cost\n.*?(?=\n## )|>Cost</h2>.*?(?=<h2)", re.DOTALL)
"""The section of a study's report that says how many seconds its trainings took."""
CHECKPOINT = re.compile(r"(.*/checkpoints)/step-(\d+)(/|$)")
NOT_READY = ("Fatal Python error: init", "Could not import runpy module")
"""How messages of Python begin that was interrupted before it could run any code of cclm."""
LIMIT = 300.0
"""Seconds after which a command counts as hanging."""
PATIENCE = 60.0
"""Seconds that the children of a killed command have to end. A fork server that is just loading torch ends when it has
loaded it, which takes long on a busy machine."""


@dataclass
class Tally:
    """What was found."""

    kills: int = 0
    runs: int = 0
    differing_bytes: int = 0
    tracebacks: int = 0
    wrong_codes: int = 0
    survivors: int = 0
    outside: int = 0
    complaints: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.runs} completed runs, {self.differing_bytes} differing bytes,"
            f" {self.tracebacks} tracebacks, {self.wrong_codes} wrong exit codes, {self.survivors} processes left,"
            f" {self.outside} files touched outside"
        )

    def complain(self, text: str) -> None:
        """Keeps and prints what is wrong."""
        self.complaints.append(text)
        print(text, flush=True)


def main() -> None:
    """Kills, compares and judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6, help="of the moments and the targets")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after this time, whatever is done")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    soak = Soak(Path(tempfile.mkdtemp(prefix="cclm-kills-")), random.Random(options.seed))
    soak.run(options.kills, time.monotonic() + 60 * options.minutes)
    print(soak.tally)
    if soak.tally.complaints:
        sys.exit(1)
    shutil.rmtree(soak.scratch)


class Soak:
    """A project folder, what undisturbed commands make of it, and what killed ones do."""

    def __init__(self, scratch: Path, chance: random.Random) -> None:
        self.scratch, self.tally = scratch, Tally()
        self._chance, self._shown = chance, time.monotonic()
        self._project, self._output = scratch / "project", scratch / "output"
        self._work = self._project / "work"
        (scratch / "temporary").mkdir()
        write_text(self._project, train=120)
        (self._project / "mini.yaml").write_text(STUDY)
        (self._project / "table.json").write_text('{"version": 1, "losses": {"tur": 5.0, "aze": 5.0}}')
        (self._project / "runs").mkdir()
        (self._project / "runs" / "notes.txt").write_text("of the user's own\n")
        load_everything()

    def run(self, kills: int, deadline: float) -> None:
        """Kills that often, and lets every command come to its end."""
        outside = listing(self._project)
        durations, expected = {}, {}
        for name in COMMANDS:
            began = time.monotonic()
            self._undisturbed(name)
            durations[name], expected[name] = time.monotonic() - began, self._result()
            if not self.tally.complaints:
                shutil.rmtree(self._work)
        while self.tally.kills < kills and time.monotonic() < deadline and not self._is_broken():
            name = self._chance.choice(list(COMMANDS))
            gently = self._killed_until_done(name, durations[name], kills, deadline)
            self._compare(name, expected[name], self._result(), gently)
            self.tally.runs += 1
            if self._work.exists():
                shutil.rmtree(self._work)
        for path in differences(outside, listing(self._project, [self._work])):
            self.tally.outside += 1
            self.tally.complain(f"outside of the work folder: {path}")

    def _is_broken(self) -> bool:
        return len(self.tally.complaints) >= 20

    def _start(self, name: str, cold: bool) -> Started:
        self._tell()
        environment = {"TMPDIR": str(self.scratch / "temporary")}
        return start(COMMANDS[name], self._project, self._output, cold=cold, environment=environment)

    def _tell(self) -> None:
        if time.monotonic() > self._shown + 30:
            self._shown = time.monotonic()
            print(self.tally, flush=True)

    def _undisturbed(self, name: str) -> None:
        process = self._start(name, cold=False)
        self._judge(name, process, wait(process, LIMIT), "nothing", (0,))

    def _killed_until_done(self, name: str, duration: float, kills: int, deadline: float) -> bool:
        """Whether a signal was among the kills that lets a training save its state."""
        gently = False
        for attempt in range(1000):
            process = self._start(name, cold=self._chance.random() < 0.25)
            # Early moments are more frequent: a command that goes on from where it was has less and less to do. They
            # become later with every attempt: on a busy machine it may take longer to start than it took undisturbed.
            moment = duration * self._chance.random() ** 2 * (1 + attempt / 20)
            if self.tally.kills >= kills or time.monotonic() > deadline:
                moment = LIMIT
            code = wait(process, moment)
            if code is None and moment < LIMIT:
                target = self._chance.choices(list(TARGETS), list(TARGETS.values()))[0]
                number = self._chance.choices(list(SIGNALS), list(SIGNALS.values()))[0]
                self._kill(process, target, number)
                gently |= number != signal.SIGKILL
                self._judge_killed(name, process, wait(process, LIMIT), target, number, moment)
            else:
                self._judge(name, process, code, "nothing", (0,))
                return gently
            # A command that is started before the processes of a killed one have ended waits for them.
            at_once = self._chance.random() < 0.25
            if not at_once and (alive := left_over(PATIENCE)):
                self.tally.survivors += len(alive)
                self.tally.complain(f"{name}: {len(alive)} processes still run {PATIENCE:.0f} s after it has ended")
                end_all(process)
        self.tally.complain(f"{name}: not done after 1000 starts")
        return gently

    def _kill(self, process: Started, target: str, number: int) -> None:
        self.tally.kills += 1
        tree = [process.pid, *descendants(process.pid)]
        chosen = {"parent": tree[:1], "one": [self._chance.choice(tree)], "all": tree}
        with suppress(ProcessLookupError):
            if target == "group":
                os.killpg(process.pid, number)
                return
        for pid in chosen.get(target, []):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _judge_killed(
        self, name: str, process: Started, code: int | None, target: str, number: int, moment: float
    ) -> None:
        """A killed command ends with the signal; where only one of its processes got it, also with 1 or not at all."""
        allowed = {0, -number, 128 + number} if number != signal.SIGKILL else {0, -number}
        if target == "one":
            allowed |= {1, 143}
        self._judge(name, process, code, f"{signal.Signals(number).name} to {target} at {moment:.2f} s", allowed)

    def _judge(self, name: str, process: Started, code: int | None, what: str, allowed: object) -> None:
        said = process.stderr.read_text(encoding="utf-8", errors="replace")
        assert isinstance(allowed, set | tuple)
        if found := tracebacks(said):
            self.tally.tracebacks += len(found)
            self.tally.complain(f"{name} after {what}:\n{said}")
        if code is None:
            end_all(process)
            self.tally.complain(f"{name} after {what}: still runs after {LIMIT:.0f} s\n{said}")
        elif code not in allowed and not (code == 1 and said.startswith(NOT_READY)):
            self.tally.wrong_codes += 1
            self.tally.complain(f"{name} after {what}: exit code {code}\n{said}")

    def _result(self) -> dict[str, bytes]:
        """The content of every file that is the same whenever and wherever it is made, and of every link."""
        result = {}
        for path in sorted(self._work.rglob("*")) if self._work.exists() else []:
            name = str(path.relative_to(self._work))
            if path.is_symlink():
                result[name] = os.readlink(path).encode()
            elif path.is_file() and not CLOCKS.search(name):
                result[name] = COST.sub(b"", path.read_bytes()) if name.startswith("studies/") else path.read_bytes()
        return result

    def _compare(self, name: str, expected: Mapping[str, bytes], found: Mapping[str, bytes], gently: bool) -> None:
        """A training that was asked to end saves its state where no checkpoint was due: that may take the place of one
        that would have been kept, but never of the last one."""
        for path in sorted(expected.keys() | found.keys()):
            checkpoint = CHECKPOINT.match(path)
            if path in expected and path in found:
                bad = _differing(expected[path], found[path])
            elif gently and checkpoint and checkpoint[2] != _last(expected, checkpoint[1]):
                continue
            else:
                bad = len(expected.get(path, b"")) + len(found.get(path, b"")) or 1
            if bad:
                self.tally.differing_bytes += bad
                state = "differs" if path in expected and path in found else "is missing or too much"
                self.tally.complain(f"{name}: {path} {state}, {bad} bytes")
                self._keep(path, expected, found)

    def _keep(self, path: str, expected: Mapping[str, bytes], found: Mapping[str, bytes]) -> None:
        place = self.scratch / "differing" / f"{len(self.tally.complaints)}"
        place.mkdir(parents=True)
        for which, files in (("expected", expected), ("found", found)):
            if path in files:
                (place / f"{which}-{Path(path).name}").write_bytes(files[path])
        print(f"  both are in {place}", flush=True)


def _differing(one: bytes, other: bytes) -> int:
    if one == other:
        return 0
    return sum(a != b for a, b in zip(one, other, strict=False)) + abs(len(one) - len(other))


def _last(files: Mapping[str, bytes], folder: str) -> str:
    """The step of the newest checkpoint in a folder of them."""
    return max((found[2] for path in files if (found := CHECKPOINT.match(path)) and found[1] == folder), default="")


if __name__ == "__main__":
    main()
