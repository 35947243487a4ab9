"""Does anything grow while it trains? Very many tiny steps with a hundred languages, watched from outside.

    python benchmarks/soak.py                                # 50,000 steps, some 20 minutes
    python benchmarks/soak.py --steps 3000 --every 500

`cclm train` runs as a process of its own, with a probe every 100 steps, a validation and a checkpoint every 500, LRLs
that are admitted one after the other, and TensorBoard. What the process holds is read from /proc: resident memory,
threads, open files; and how many checkpoints it keeps. Something grows if even the least of the last quarter is more
than the most of the second, for memory by 2 %; it then ends with 1.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STEPS, EVERY, LANGUAGES = 50_000, 5_000, 100
PAIRS = {"train": 40, "dev": 4, "test": 2}
WORDS = ("sea", "stone", "bird", "tree", "road", "day", "book", "house", "fire", "cloud")
GROWTH = 0.02
"""Share of memory that may come on top: the allocator keeps what the largest batches have needed."""


KEPT = 3
"""Checkpoints that there may be: the newest two, and the best where it is older."""


@dataclass(frozen=True)
class Reading:
    """What the process holds at a step."""

    step: int
    megabytes: float
    threads: int
    open_files: int
    checkpoints: int


def main() -> None:
    """Trains, watches and judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--every", type=int, default=EVERY, help="steps between two readings")
    parser.add_argument("--languages", type=int, default=LANGUAGES)
    parser.add_argument("--work", type=Path, default=Path("work/soak"), help="folder for data and run")
    options = parser.parse_args()
    shutil.rmtree(options.work, ignore_errors=True)
    recipe = write(options.work, options.languages, options.steps)
    print(f"{'step':>8} {'RSS MB':>9} {'threads':>8} {'open files':>11} {'checkpoints':>12} {'steps/s':>8}", flush=True)
    readings: list[Reading] = []
    begun = time.monotonic()
    for reading in watched(recipe, options.work / "runs" / "soak", options.every):
        readings.append(reading)
        rate = reading.step / (time.monotonic() - begun)
        print(
            f"{reading.step:>8,} {reading.megabytes:>9.1f} {reading.threads:>8} {reading.open_files:>11}"
            f" {reading.checkpoints:>12} {rate:>8.1f}",
            flush=True,
        )
    growing = grown(readings)
    print(f"growing: {', '.join(growing)}" if growing else "flat")
    sys.exit(bool(growing))


def write(work: Path, languages: int, steps: int) -> Path:
    """The text, the losses L* and the recipe; a fifth of the languages are HRLs."""
    names = [f"l{i:03}" for i in range(languages)]
    (work / "text").mkdir(parents=True)
    for number, name in enumerate(names):
        for split, count in PAIRS.items():
            lines = [line(number, split, i) for i in range(count)]
            (work / "text" / f"{name}.{split}.tsv").write_text("".join(lines), encoding="utf-8")
    # Loss falls from some 6 bits: with these, competence rises from language to language past the threshold.
    losses = {name: 2.0 + 3.0 * i / languages for i, name in enumerate(names)}
    (work / "losses.json").write_text(json.dumps({"version": 1, "losses": losses}), encoding="utf-8")
    hrls = max(1, languages // 5)
    content: dict[str, Any] = {
        "version": 1,
        "name": "soak",
        "work": str(work),
        "data": {
            "format": "tsv",
            "path": str(work / "text"),
            "high_resource": names[:hrls],
            "low_resource": names[hrls:],
        },
        "vocabulary": {"pieces": 150, "joint": True},
        "model": {"layers": 1, "heads": 1, "width": 8, "feed_forward": 8, "dropout": 0.1},
        "curriculum": {"gate": {"aggregate": "max", "threshold": 0.4}, "every": min(100, steps // 30), "dev_sample": 2},
        "benchmark": {"file": str(work / "losses.json")},
        "training": {
            "batch_tokens": 100,
            "accumulate": 1,
            "learning_rate": 1e-3,
            "warmup": 100,
            "max_steps": steps,
            "validate_every": min(500, steps // 20),
            "patience": steps,
            "device": "cpu",
            "precision": "fp32",
        },
    }
    recipe = work / "recipe.yaml"
    recipe.write_text(json.dumps(content), encoding="utf-8")
    return recipe


def line(language: int, split: str, number: int) -> str:
    """A pair of a made-up language: a word of English with the language's own ending."""
    words = [WORDS[(number * 7 + language * 3 + place * place) % 10] for place in range(2 + number % 5)]
    ending = "aeiou"[language % 5] + "nrst"[language % 4]
    return f"{' '.join(words)} {split} {language} {number}.\t{' '.join(word + ending for word in words)} {number}.\n"


def watched(recipe: Path, run: Path, every: int) -> Iterator[Reading]:
    """Trains, and reads what the process holds as it comes by every so many steps."""
    command = [sys.executable, "-m", "cclm", "train", str(recipe), "--tensorboard"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (recipe.parent / "output.txt").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        due = every
        for step in steps_of(run / "log.jsonl", process):
            if step >= due:
                yield read(process.pid, step, run)
                due = (step // every + 1) * every
    finally:
        process.terminate()
    if process.wait():
        sys.exit((recipe.parent / "output.txt").read_text(encoding="utf-8").splitlines()[-1])


def steps_of(log: Path, process: "subprocess.Popen[bytes]") -> Iterator[int]:
    """The step of every line that the log gets, until the process ends."""
    position, rest = 0, b""
    while process.poll() is None:
        if log.exists():
            with log.open("rb") as file:
                file.seek(position)
                rest += file.read()
                position = file.tell()
            *lines, rest = rest.split(b"\n")
            if lines:
                yield json.loads(lines[-1])["step"]
        time.sleep(0.02)


def read(pid: int, step: int, run: Path) -> Reading:
    """What /proc says of the process, and the run directory of itself."""
    facts = dict(entry.split(":", 1) for entry in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines())
    megabytes = int(facts["VmRSS"].split()[0]) / 1024
    checkpoints = len(list(run.glob("checkpoints/step-*")))
    return Reading(step, megabytes, int(facts["Threads"]), len(os.listdir(f"/proc/{pid}/fd")), checkpoints)


def grown(readings: list[Reading]) -> list[str]:
    """What was more at the end than before."""
    quarter = len(readings) // 4
    if not quarter:
        sys.exit(f"{len(readings)} readings are too few: ask for more steps, or for a reading more often")
    second, last = readings[quarter : 2 * quarter], readings[-quarter:]
    found = []
    for what in ("megabytes", "threads", "open_files", "checkpoints"):
        before = max(getattr(reading, what) for reading in second)
        allowed = {"megabytes": before * (1 + GROWTH), "checkpoints": max(before, KEPT)}.get(what, before)
        if min(getattr(reading, what) for reading in last) > allowed:
            found.append(what)
    return found


if __name__ == "__main__":
    main()
