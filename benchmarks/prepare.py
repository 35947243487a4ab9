"""How fast and how large `cclm prepare` is: MB/s against a plain SentencePiece loop, and peak memory.

    python benchmarks/prepare.py                      # 200,000 pairs
    python benchmarks/prepare.py --memory 2000000 4000000      # flat memory: the second line against the first

Synthetic pairs of 20 words (Zipfian over 50,000 made-up words) in one HRL and one LRL. The loop reads the same file,
encodes both sides with the very models that prepare learnt, one sentence after the other, in one process, and keeps
nothing. "encoding" is prepare's own encoding stage, which also checks, counts and writes; "prepare" is all of it, with
the first reading and the learning of the subwords. Memory is the largest sum of PSS over prepare's processes.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

RECIPE = """version: 1
name: synthetic
work: {work}
data: {{format: tsv, path: {path}, high_resource: [hrl], low_resource: [lrl]}}
"""


def write_corpus(folder: Path, pairs: int) -> int:
    """Synthetic text in the folder; its size in bytes."""
    chance = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(chance.choices(letters, k=chance.randint(2, 9))) for _ in range(50_000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    for lang, count in (("hrl", pairs * 19 // 20), ("lrl", pairs // 20)):
        for split, size in (("train", count), ("dev", 500), ("test", 500)):
            with (folder / f"{lang}.{split}.tsv").open("w") as file:
                for _ in range(0, size, 1000):
                    drawn = chance.choices(words, weights, k=40 * 1000)
                    for i in range(min(1000, size)):
                        row = drawn[40 * i : 40 * i + 40]
                        file.write(" ".join(row[:20]) + "\t" + " ".join(row[20:]) + "\n")
    return sum(path.stat().st_size for path in folder.glob("*.tsv"))


def processes(root: int) -> Iterator[int]:
    """A process and all its descendants."""
    yield root
    children = Path(f"/proc/{root}/task/{root}/children")
    try:
        for child in children.read_text().split():
            yield from processes(int(child))
    except OSError:
        return


def proportional_set_size(root: int) -> int:
    """Bytes of memory that a process and its descendants use, shared pages counted once."""
    total = 0
    for pid in processes(root):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024
        except (OSError, StopIteration):
            continue
    return total


def run_watched(command: list[str]) -> tuple[float, int]:
    """Seconds and peak PSS of a command."""
    peak = 0
    start = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        done = threading.Event()
        threading.Thread(target=lambda: (process.wait(), done.set()), daemon=True).start()
        while not done.wait(0.2):
            peak = max(peak, proportional_set_size(process.pid))
        if process.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return time.monotonic() - start, peak


def plain_loop(folder: Path, models: Path) -> float:
    """Seconds of a single process that reads and encodes every training line, and does nothing else."""
    from sentencepiece import SentencePieceProcessor

    start = time.monotonic()
    pivot = SentencePieceProcessor(model_file=str(models / "eng.model"))
    for lang in ("hrl", "lrl"):
        other = SentencePieceProcessor(model_file=str(models / f"{lang}.model"))
        with (folder / f"{lang}.train.tsv").open(encoding="utf-8") as lines:
            for line in lines:
                left, right = line.rstrip("\n").split("\t")
                pivot.encode(left)
                other.encode(right)
    return time.monotonic() - start


def encoding_stage(recipe: Path) -> float:
    """Seconds of prepare's encoding alone, told by its progress reports."""
    from cclm.data.prepare import Plan, prepare
    from cclm.recipe import load_recipe

    settings = load_recipe(str(recipe), ["work=" + str(recipe.parent / "again")])
    times: list[float] = []
    plan = Plan(settings.data, settings.vocabulary)
    # The stage begins when the last model has been learnt.
    prepare(
        plan,
        settings.prepared,
        progress=lambda stage, n: times.append(time.monotonic()) if stage != "reading" else None,
    )
    return times[-1] - times[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="*", type=int, default=[200_000], help="how many, one corpus for each number")
    parser.add_argument("--memory", action="store_true", help="measure peak memory alone")
    options = parser.parse_args()
    print(
        f"{'pairs':>10} {'MB':>6} {'plain loop':>12} {'encoding':>12} {'ratio':>6} {'prepare':>12} {'peak memory':>12}"
    )
    for pairs in options.pairs:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            size = write_corpus(folder, pairs) / 1e6
            recipe = folder / "synthetic.yaml"
            recipe.write_text(RECIPE.format(work=folder / "work", path=folder))
            seconds, peak = run_watched([sys.executable, "-m", "cclm", "prepare", str(recipe)])
            if options.memory:
                print(f"{pairs:>10,} {size:>6.0f} {seconds:>57.1f} s {peak / 2**30:>8.2f} GiB", flush=True)
                continue
            loop = plain_loop(folder, folder / "work" / "prepared" / "models")
            encoding = encoding_stage(recipe)
            print(
                f"{pairs:>10,} {size:>6.0f} {size / loop:>7.1f} MB/s {size / encoding:>7.1f} MB/s"
                f" {loop / encoding:>6.2f} {seconds:>10.1f} s {peak / 2**30:>8.2f} GiB",
                flush=True,
            )


if __name__ == "__main__":
    main()
