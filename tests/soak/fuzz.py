"""Gives `cclm` damaged recipes, run directories, prepared data and text, and sees that it answers with a message.

    python tests/soak/fuzz.py                               # 30 minutes
    python tests/soak/fuzz.py --minutes 1 --seed 7
    python tests/soak/fuzz.py --seed 7 --case 123           # one case once more

Every case damages a copy of a small finished project and runs one command in it. That must end with 0, 1 or 2 within a
minute, with a message if not with 0, without a traceback, and must not have touched a file outside of the work folder.
What fails is printed, each kind once, and kept as a folder with the damaged project, the command and what it printed.
A case is decided by the seed and its number alone.
"""

import argparse
import json
import math
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from forked_commands import Started, differences, end_all, left_over, listing, load_everything, start, tracebacks, wait
from off_path.cli import write_text

LIMIT = 60.0
"""Seconds after which a command counts as hanging."""
GIGABYTES = 16
"""Address space of a command: a size in a damaged file must not make the machine run out of memory."""
RUN = "work/runs/small"
SCALARS: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 7, 10**6, 2**31, 2**63, 10**30, -(2**63), 0.5, 1e308, -0.0, 1e-320,
    math.nan, math.inf, -math.inf, "", " ", ".", "a", "eng", "tur", "aze", "models", "NaN", "1e5", "é", "\u202e", "[/]",
    "*", "{lang}", "{", "{}{}", "{lang!r}", "~", "x" * 300, "x/" * 2000, "\t", "a\nb", "text", "recipe.yaml",
    "table.json", "work", "work/prepared", "cpu", "cuda", "meta", "fp16", "auto",
]  # fmt: skip
JUNK = [
    b"", b"\n", b"\0" * 64, b"null", b"[]", b"{}", b"0", b'""', b"NaN", b"1e999", b"[" * 100_000, b'{"a":' * 20_000,
    b"\xff\xfe\x00", b"\xef\xbb\xbf{}", b"PK\x03\x04", b"\x93NUMPY\x01\x00", b"<html>", b"- a\n- b\n", b"a: &a [*a]\n",
    b"!!python/object/apply:os.getcwd []\n", b"%TAG ! x\n---\n", b"\x1b[31m", b'{"version": 1}', b'{"version": 999}',
    b"9" * 5000, b"\t\t\t\n" * 50, b"\r\n" * 50, "\u2028".encode() * 9, b"\xed\xa0\x80",
]  # fmt: skip


@dataclass
class Case:
    """A damaged project and the command that is run in it."""

    number: int
    area: str
    damage: str
    command: list[str]


def main() -> None:
    """Fuzzes and judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    parser.add_argument("--case", type=int, help="run this one alone and print what it says")
    parser.add_argument("--keep", type=Path, help="folder for what fails (default: a new one for temporary files)")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    fuzzer = Fuzzer(Path(tempfile.mkdtemp(prefix="cclm-fuzz-")), options.seed, options.keep)
    if options.case is not None:
        fuzzer.run(options.case)
        print(fuzzer.said)
    else:
        fuzzer.run_for(60 * options.minutes)
    codes = ", ".join(f"{count} x {code}" for code, count in sorted(fuzzer.codes.items(), key=str))
    print(f"exit codes: {codes}")
    print(
        f"{sum(fuzzer.codes.values())} cases, {fuzzer.failures['traceback']} tracebacks,"
        f" {fuzzer.failures['code']} wrong exit codes, {fuzzer.failures['silent']} without a message,"
        f" {fuzzer.failures['hang']} endless, {fuzzer.failures['outside']} with files touched outside"
    )
    if not fuzzer.kinds or options.keep:
        shutil.rmtree(fuzzer.scratch)
    sys.exit(bool(fuzzer.kinds))


class Fuzzer:
    """A finished project, and what came of damaging copies of it."""

    def __init__(self, scratch: Path, seed: int, keep: Path | None) -> None:
        self.scratch, self.seed, self.said = scratch, seed, ""
        self.codes: Counter[object] = Counter()
        self.failures: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self._keep = (keep or scratch / "failures").absolute()
        self._template, self._case = scratch / "template", scratch / "case"
        load_everything()
        self._make_template()
        self._known = listing(self._template)
        self._keys = _keys(self._template)

    def run_for(self, seconds: float) -> None:
        """As many cases as there is time for."""
        began = shown = time.monotonic()
        number = 0
        while time.monotonic() < began + seconds:
            self.run(number)
            number += 1
            if time.monotonic() > shown + 30:
                shown = time.monotonic()
                print(f"{number} cases, {sum(self.kinds.values())} failed in {len(self.kinds)} ways", flush=True)
                self._look_at_the_template()
        self._look_at_the_template()

    def run(self, number: int) -> None:
        """One case."""
        case = self._make(number)
        project = self._case / "project"
        before = listing(self._case, [project / "work"])
        process = start(
            case.command,
            project,
            self.scratch / "output",
            environment={"TMPDIR": str(self.scratch / "temporary"), "COLUMNS": "200"},
            gigabytes=GIGABYTES,
        )
        code = wait(process, LIMIT)
        if code is None:
            end_all(process)
        for pid in left_over(5):
            os.kill(pid, 9)
        self.codes[code] += 1
        self.said = process.stdout.read_text(errors="replace") + process.stderr.read_text(errors="replace")
        touched = [path for path in differences(before, listing(self._case, [project / "work"])) if path in before]
        self._judge(case, process, code, touched)

    def _judge(self, case: Case, process: Started, code: int | None, touched: list[str]) -> None:
        stderr = process.stderr.read_text(errors="replace")
        if tracebacks(stderr):
            self._fail(case, "traceback", _signature(stderr))
        elif code is None:
            self._fail(case, "hang", " ".join(case.command[:1]))
        elif code not in (0, 1, 2):
            self._fail(case, "code", f"{code} {case.command[0]}")
        elif code and not self.said.strip():
            self._fail(case, "silent", " ".join(case.command[:1]))
        if touched:
            self._fail(case, "outside", " ".join(touched))

    def _fail(self, case: Case, kind: str, signature: str) -> None:
        self.failures[kind] += 1
        self.kinds[f"{kind}: {signature}"] += 1
        if self.kinds[f"{kind}: {signature}"] > 1:
            return
        place = self._keep / f"seed-{self.seed}-case-{case.number}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        said = self.said
        self._make(case.number)
        shutil.move(self._case / "project", place / "project")
        facts = {"seed": self.seed, "case": case.number, "damage": case.damage, "arguments": case.command}
        (place / "case.json").write_text(json.dumps(facts, indent=1))
        (place / "output.txt").write_text(said)
        print(
            f"FAILED {kind}: seed {self.seed}, case {case.number}: {case.area}: {case.damage[:300]}\n"
            f"  cclm {' '.join(case.command)[:300]}\n  {signature[:1000]}\n  kept in {place}",
            flush=True,
        )

    def _look_at_the_template(self) -> None:
        if touched := differences(self._known, listing(self._template)):
            self.failures["outside"] += 1
            self.kinds["outside: the project that is copied"] += 1
            print(f"FAILED: the project that is copied was touched: {touched}", flush=True)
            sys.exit(1)

    def _make_template(self) -> None:
        """A project with two finished runs, a study and a sweep of nothing more than these, and a file to translate."""
        project = self._template
        write_text(project, train=120)
        (project / "table.json").write_text('{"version": 1, "losses": {"tur": 5.0, "aze": 5.0}}')
        (project / "input.txt").write_text("ev kitap su\nköy taş\n", encoding="utf-8")
        (self.scratch / "temporary").mkdir()
        short = ["benchmark.file=table.json", "training.max_steps=5"]
        recipe = (project / "recipe.yaml").read_text()
        recipe = recipe.replace("benchmark: {max_steps: 10}", "benchmark: {file: table.json}\ngraph: {file: null}")
        (project / "recipe.yaml").write_text(recipe)
        for command in (
            ["run", "recipe.yaml"],
            ["run", "recipe.yaml", "name=second", "seed=2"],
            ["sweep", "recipe.yaml", *short, "--threshold", "0.3", "--aggregate", "max"],
        ):
            process = start(command, project, self.scratch / "output")
            if wait(process, 300) != 0:
                sys.exit(f"cclm {' '.join(command)} failed:\n{process.stderr.read_text()}")
            left_over(20)

    def _make(self, number: int) -> Case:
        """The damaged copy of a case, and its command."""
        chance = random.Random(f"{self.seed} {number}")
        shutil.rmtree(self._case, ignore_errors=True)
        project = self._case / "project"
        shutil.copytree(self._template, project, symlinks=True)
        (self._case / "beside").mkdir()
        (self._case / "beside" / "notes.txt").write_text("of the user's own\n")
        area, make = chance.choice(AREAS)
        damage, command = make(self, chance, project)
        return Case(number, area, damage, command)

    def recipe_values(self, chance: random.Random, project: Path) -> tuple[str, list[str]]:
        """One to three settings with values that hardly anybody would choose."""
        values = [(chance.choice(self._keys), _value(chance)) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
        overrides = [f"{key}={_shown(value)}" for key, value in values if "\0" not in str(value)]
        overrides += ["work=work"] * (chance.random() < 0.5)  # the last one counts: mostly in the place that is there
        return " ".join(overrides), chance.choice(RECIPE_COMMANDS)[:] + overrides

    def recipe_text(self, chance: random.Random, project: Path) -> tuple[str, list[str]]:
        """The YAML text of the recipe with damage."""
        path = project / "recipe.yaml"
        damage = _damage(chance, path)
        return f"recipe.yaml {damage}", chance.choice(RECIPE_COMMANDS)[:]

    def run_directory(self, chance: random.Random, project: Path) -> tuple[str, list[str]]:
        """A file of a finished run, or two."""
        return _damage_some(chance, project, project / RUN), chance.choice(RUN_COMMANDS)[:]

    def prepared(self, chance: random.Random, project: Path) -> tuple[str, list[str]]:
        """A file of the prepared data, of the graph or of the benchmark."""
        place = chance.choice(("work/cache/prepared", "work/cache/prepared", "work/cache"))
        return _damage_some(chance, project, project / place), chance.choice(PREPARED_COMMANDS)[:]

    def manifests(self, chance: random.Random, project: Path) -> tuple[str, list[str]]:
        """A value inside a JSON file of the work folder: the file can be read, but says what cannot be."""
        paths = sorted(path for path in (project / "work").rglob("*.json") if not path.is_symlink())
        path = chance.choice(paths)
        damage = _damage_json(chance, path)
        name = str(path.relative_to(project))
        commands = SWEEP_COMMANDS if "sweeps" in name else RUN_COMMANDS if "runs" in name else PREPARED_COMMANDS
        return f"{name} {damage}", chance.choice(commands)[:]

    def table(self, chance: random.Random, project: Path) -> tuple[str, list[str]]:
        """The table of L* that the recipe names."""
        path = project / "table.json"
        damage = (_damage_json if chance.random() < 0.6 else _damage)(chance, path)
        return f"table.json {damage}", chance.choice((["train", "recipe.yaml", "--dry-run"], ["train", "recipe.yaml"]))

    def text(self, chance: random.Random, project: Path) -> tuple[str, list[str]]:
        """A file of the parallel text, or the text to translate."""
        if chance.random() < 0.15:
            damage = _damage(chance, project / "input.txt")
            return f"input.txt {damage}", [
                "translate",
                RUN,
                "--source",
                "tur",
                "--input",
                "input.txt",
                "--threads",
                "1",
            ]
        return _damage_some(chance, project, project / "text"), chance.choice(TEXT_COMMANDS)[:]


DRY_RUN = ["train", "recipe.yaml", "--dry-run"]
PREPARE = ["prepare", "recipe.yaml", "--workers", "1"]
DOCTOR = ["doctor", "recipe.yaml", "--workers", "1"]
TRANSLATE = ["translate", RUN]
COMPARE = ["compare", RUN, "work/runs/second", "--samples", "100"]
RECIPE_COMMANDS = [DRY_RUN, DRY_RUN, [*DRY_RUN, "--json"], DOCTOR, PREPARE, ["prepare", "recipe.yaml", "--dry-run"]]
RUN_COMMANDS = [
    ["runs", "work"], ["runs", "work", "--json"], ["report", RUN], ["report", RUN], ["score", RUN],
    ["score", RUN, "--json"], TRANSLATE, [*TRANSLATE, "--source", "tur", "--input", "input.txt"], COMPARE,
    [*COMPARE, "--metric", "chrf", "--json"], DRY_RUN, ["train", "recipe.yaml"], ["clean", "work"],
]  # fmt: skip
PREPARED_COMMANDS = [DRY_RUN, PREPARE, ["score", RUN], TRANSLATE, ["report", RUN], COMPARE, ["train", "recipe.yaml"]]
SWEEP_COMMANDS = [["report", "work/sweeps/small"], ["runs", "work"], ["clean", "work"]]
TEXT_COMMANDS = [DOCTOR, DOCTOR, [*DOCTOR, "--json"], PREPARE, PREPARE, DRY_RUN]
Area = Callable[[Fuzzer, random.Random, Path], tuple[str, list[str]]]
AREAS: list[tuple[str, Area]] = [
    ("recipe values", Fuzzer.recipe_values),
    ("recipe text", Fuzzer.recipe_text),
    ("run directory", Fuzzer.run_directory),
    ("prepared data", Fuzzer.prepared),
    ("manifest", Fuzzer.manifests),
    ("table", Fuzzer.table),
    ("text", Fuzzer.text),
]


def _keys(project: Path) -> list[str]:
    """The name of every setting, sections too."""
    from cclm.recipe import load_recipe

    found: list[str] = []

    def walk(content: Any, prefix: str) -> None:
        for key, value in content.items() if isinstance(content, dict) else ():
            found.append(f"{prefix}{key}")
            walk(value, f"{prefix}{key}.")

    walk(load_recipe(str(project / "recipe.yaml"), []).model_dump(), "")
    return [*found, "data.length_ratio", "model", "name", "no_such_key"]


def _value(chance: random.Random) -> Any:
    kind = chance.random()
    if kind < 0.75:
        return chance.choice(SCALARS)
    if kind < 0.85:
        return [chance.choice(SCALARS) for _ in range(chance.randrange(4))]
    if kind < 0.95:
        keys = ("name", "threshold", "tau", "file", "a")
        return {chance.choice(keys): chance.choice(SCALARS) for _ in range(chance.randrange(3))}
    return chance.randrange(-5, 10 ** chance.randrange(1, 12))


def _shown(value: Any) -> str:
    """As it is written in YAML."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"nan": ".nan", "inf": ".inf", "-inf": "-.inf"}[str(value)]
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | list | dict | bool) else str(value)


def _damage_some(chance: random.Random, project: Path, place: Path) -> str:
    paths = sorted(path for path in place.rglob("*") if path.is_file() and not path.is_symlink())
    chosen = chance.sample(paths, chance.choice((1, 1, 1, 2)))
    return ", ".join(f"{path.relative_to(project)} {_damage(chance, path)}" for path in chosen)


def _damage(chance: random.Random, path: Path) -> str:
    """Damages a file; says how."""
    content = path.read_bytes()
    place = chance.randrange(len(content) + 1)
    length = min(len(content), chance.choice((1, 2, 8, 100)))
    how = chance.choice(
        ("cut", "flip", "flip", "junk", "empty", "remove", "folder", "insert", "delete", "repeat", "swap")
    )
    if how == "cut":
        path.write_bytes(content[:place])
    elif how == "flip":
        changed = bytearray(content)
        for _ in range(chance.choice((1, 1, 3, 20)) if changed else 0):
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
    elif how == "junk":
        path.write_bytes(chance.choice(JUNK))
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "remove":
        path.unlink()
    elif how == "folder":
        path.unlink()
        path.mkdir()
    elif how == "insert":
        path.write_bytes(content[:place] + chance.choice(JUNK)[:200] + content[place:])
    elif how == "delete":
        path.write_bytes(content[:place] + content[place + length :])
    elif how == "repeat":
        path.write_bytes(content[:place] + content[place : place + length] * 3 + content[place + length :])
    else:
        lines = content.splitlines(keepends=True)
        chance.shuffle(lines)
        path.write_bytes(b"".join(lines))
    return how


def _damage_json(chance: random.Random, path: Path) -> str:
    """Changes one value, or removes or adds a key, somewhere in a JSON file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in items:
            places.append((value, key))
            walk(inner)

    walk(content)
    if not places:
        return "as it was"
    holder, key = chance.choice(places)
    if chance.random() < 0.25:
        del holder[key]
        done = f"without {key}"
    else:
        holder[key] = _value(chance)
        done = f"{key}={holder[key]!r}"
    path.write_text(json.dumps(content), encoding="utf-8")
    return done[:200]


def _signature(stderr: str) -> str:
    """What tells one traceback from another: the places in our code, and the error."""
    last = stderr[stderr.rindex("Traceback") :]
    places = re.findall(r'File "[^"]*?/(cclm/[^"]+)", line (\d+)', last)
    error = [line for line in last.splitlines() if re.match(r"[\w.]+(:|$)", line)]
    kind = (error or [last.splitlines()[-1]])[-1]
    return " < ".join(f"{file}:{line}" for file, line in places[::-1][:4]) + f": {kind.partition(':')[0]}"


if __name__ == "__main__":
    main()
