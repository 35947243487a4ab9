"""How long `cclm train` takes to its first step, beside the import of torch alone.

    python benchmarks/start_up.py

The built-in corpus and its recipe, prepared beforehand, with a table of benchmark losses; one thread. Start-up of a
training is what stands between a change and its effect: reading the recipe, checking the data, dividing it into
batches, drawing the model, the first update. Both take turns; the table has the median and the least and greatest.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "speed"))

from machine import machine  # noqa: E402
from windows import System, running, spread  # noqa: E402

from cclm.recipe import load_recipe  # noqa: E402


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", type=Path, default=Path("work/start-up"), help="folder for data and runs")
    parser.add_argument("changes", nargs="*", metavar="KEY=VALUE", help="of the recipe")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    changes = [f"work={options.work}", f"benchmark.file={options.work / 'losses.json'}", *options.changes]
    losses = dict.fromkeys(load_recipe("phrasebook", changes).data.languages, 3.0)
    (options.work / "losses.json").write_text(json.dumps({"version": 1, "losses": losses}))
    subprocess.run([sys.executable, "-m", "cclm", "prepare", "phrasebook", *changes], check=True, capture_output=True)
    imports, trainings = [], []
    for _ in range(options.rounds):
        imports.append(import_torch())
        trainings.append(first_update(options.work, changes))
    print(f"{machine(1)}\n\n{table(imports, trainings)}")


def import_torch() -> float:
    """Seconds."""
    begun = time.monotonic()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return time.monotonic() - begun


def first_update(work: Path, changes: list[str]) -> float:
    """Seconds from the start of `cclm train` to the end of its first update, in a new run."""
    shutil.rmtree(work / "runs", ignore_errors=True)
    told = work / "start.events"
    command = [sys.executable, HERE / "speed" / "run_start.py", told, "train", "phrasebook", *changes]
    training = System("start", [str(part) for part in command], told, threads=1)
    begun = time.monotonic()
    with running(1, training):
        return training.first_update - begun


def table(imports: list[float], trainings: list[float]) -> str:
    """Markdown."""
    rows = ["| | seconds (least-greatest) |", "|---|---|"]
    for name, found in (("`import torch`", imports), ("`cclm train` to its first update", trainings)):
        median, low, high = spread(found)
        rows.append(f"| {name} | {median:.1f} ({low:.1f}-{high:.1f}) |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
