"""Disturbs a training on two nodes of a real SLURM at random moments, and compares it with an undisturbed one.

    python tests/soak/cluster.py                            # 20 of each kind, about an hour, mostly of waiting
    python tests/soak/cluster.py --each 2 --seed 7

The kinds are scancel, preemption, the time limit (with and without a warning), the failure of a node, and the failure
of its slurmd alone, while the old training lives on. SLURM's own delays are cut short: a requeued job starts at once,
and a node that has failed counts as down at once. Every run gets each kind once, in any order, if it lasts. Ends with
1 if a byte differs, if a training did not save after a signal, or if one of our processes waited for longer than two
minutes.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from cluster_training import DISTURBANCES, ClusterRun, result, write_recipe
from slurm_box import Slurm, slurm, why_not


class Tally:
    """What was done, and what was found."""

    def __init__(self) -> None:
        self.disturbed: Counter[str] = Counter()
        self.runs, self.equal, self.waited = 0, 0, 0.0
        self.complaints: list[str] = []

    def __str__(self) -> str:
        kinds = ", ".join(f"{self.disturbed[kind]} x {kind}" for kind in DISTURBANCES)
        return (
            f"{kinds}; {self.equal} of {self.runs} runs equal to the byte, longest wait {self.waited:.0f} s,"
            f" {len(self.complaints)} complaints"
        )

    def complain(self, text: str) -> None:
        """Keeps and prints what is wrong."""
        self.complaints.append(text)
        print(text, flush=True)


def main() -> None:
    """Disturbs, compares and judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=20, help="disturbances of each kind")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6, help="of the moments and the order")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after this time, whatever is done")
    options = parser.parse_args()
    if reason := why_not():
        sys.exit(f"no SLURM here: {reason}")
    for number in (signal.SIGINT, signal.SIGTERM):  # nothing of SLURM may stay behind
        signal.signal(number, signal.default_int_handler)
    print(f"seed {options.seed}", flush=True)
    scratch, tally, end = (
        Path(tempfile.mkdtemp(prefix="cclm-cluster-")),
        Tally(),
        time.monotonic() + 60 * options.minutes,
    )
    recipe = write_recipe(scratch, steps=1000)
    command = [sys.executable, "-m", "cclm", "train", str(recipe), "name=whole"]
    subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, check=True)
    with slurm(scratch / "slurm") as box:
        chance = random.Random(options.seed)
        while any(tally.disturbed[kind] < options.each for kind in DISTURBANCES) and time.monotonic() < end:
            kinds = [kind for kind in DISTURBANCES if tally.disturbed[kind] < options.each]
            chance.shuffle(kinds)
            disturb(box, recipe, kinds, chance, tally)
            print(tally, flush=True)
            if len(tally.complaints) >= 5:
                break
    print(tally)
    if tally.complaints:
        sys.exit(1)
    shutil.rmtree(scratch)


def disturb(box: Slurm, recipe: Path, kinds: list[str], chance: random.Random, tally: Tally) -> None:
    """Trains a run to its end, and disturbs it by each of these kinds."""
    run = ClusterRun(box, recipe, f"run-{tally.runs}")
    tally.runs += 1
    try:
        run.submit()
        for kind in kinds:
            if run.disturb(kind, chance):
                tally.disturbed[kind] += 1
        run.finish()
    except AssertionError as error:
        tally.complain(f"{run.name}, {', '.join(kinds)}: {error}\n{box.output(run.job)}")
        box.heal()
        return
    finally:
        tally.waited = max(tally.waited, run.waited)
    for text in run.lost:
        tally.complain(f"{run.name}: not everything was saved: {text}")
    if result(run.folder) == result(run.folder.with_name("whole")):
        tally.equal += 1
        shutil.rmtree(run.folder)
    else:
        tally.complain(f"{run.name}: differs from the undisturbed run")


if __name__ == "__main__":
    main()
