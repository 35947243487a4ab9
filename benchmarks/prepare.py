"""How fast and how large `cclm prepare` is: against a plain SentencePiece loop, and as the corpus grows.

    python benchmarks/prepare.py                                       # 200,000 pairs, five times
    python benchmarks/prepare.py --growth 1000000 4000000 16000000     # doctor, prepare and train at three sizes

Synthetic pairs of 20 words (Zipfian over 50,000 made-up words) in one HRL and one LRL. The loop reads the same file,
encodes both sides with the very models that prepare learnt, one sentence after the other, in one process, and keeps
nothing. "encoding" is prepare's own encoding stage with two workers, which also checks, counts and writes. Both are
measured in turn: in seconds of the clock, which count on a quiet machine, and in seconds of processor time, where two
cores would give at best twice the ratio that is printed.

Memory is the largest sum over a command's processes, without pages of files (the kernel takes these back when memory is
short), with the bytes per pair that were added since the size before.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cclm.data.encode import EncodingTask, RawFile
from cclm.data.encode import encode_all as stream_of
from cclm.data.filtering import Rules
from cclm.data.texts import Texts
from cclm.data.vocabulary import segmenter_of
from cclm.data.workers import Workers
from cclm.recipe import load_recipe

RECIPE = """version: 1
name: synthetic
work: {work}
data: {{format: tsv, path: {path}, high_resource: [hrl], low_resource: [lrl]}}
curriculum: {{gate: {{name: all}}, sampler: {{name: temperature, tau: 1}}}}
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


def memory_of(pid: int) -> int:
    """Bytes of memory of a process, its share of what several processes have; without pages of files."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:"))) * 1024


def processor_time_of(pid: int) -> float:
    """Seconds that a process has used, with those of its children that have ended and were waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Watched:
    """What a command took."""

    seconds: float
    processor: float
    memory: int


def run_watched(*arguments: str) -> Watched:
    """Runs a command of cclm and looks at its processes, twenty times per second."""
    peak, used = 0, dict[int, float]()
    start = time.monotonic()
    with subprocess.Popen([sys.executable, "-m", "cclm", *arguments], stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            memory = 0
            for pid in processes(process.pid):
                with suppress(OSError):
                    memory += memory_of(pid)
                    used[pid] = processor_time_of(pid)
            peak = max(peak, memory)
            time.sleep(0.05)
    if process.returncode:
        raise SystemExit(f"cclm {' '.join(arguments)} ended with {process.returncode}")
    return Watched(time.monotonic() - start, sum(used.values()), peak)


def plain_loop(folder: Path, models: Path) -> None:
    """Reads and encodes every training line, and does nothing else."""
    from sentencepiece import SentencePieceProcessor

    pivot = SentencePieceProcessor(model_file=str(models / "eng.model"))
    for lang in ("hrl", "lrl"):
        other = SentencePieceProcessor(model_file=str(models / f"{lang}.model"))
        with (folder / f"{lang}.train.tsv").open(encoding="utf-8") as lines:
            for line in lines:
                left, right = line.rstrip("\n").split("\t")
                pivot.encode(left)
                other.encode(right)


def encode_all(folder: Path, models: Path, recipe: Path, workers: Workers) -> None:
    """Prepare's encoding of the training text, into files."""
    data = load_recipe(str(recipe), []).data
    texts, rules = Texts(data), Rules(data, thorough=False)
    paths = {lang: models / f"{lang}.model" for lang in ("hrl", "lrl", "eng")}
    pieces = {lang: len(segmenter_of(path).pieces) for lang, path in paths.items()}
    tasks = (
        EncodingTask(chunk, lang, "train", rules, paths[lang], paths["eng"])
        for lang in ("hrl", "lrl")
        for chunk in texts.chunks(lang, "train")
    )
    for (lang, _), chunks in stream_of(tasks, workers):
        RawFile(folder / "raw" / lang, pieces[lang], pieces["eng"]).write(chunks)


def both_times(function: Callable[[], None]) -> tuple[float, float]:
    """Seconds of the clock and of the processors, those of worker processes included."""

    def used() -> float:
        total = 0.0
        for pid in processes(os.getpid()):
            with suppress(OSError):
                total += processor_time_of(pid)
        return total

    clock, before = time.monotonic(), used()
    function()
    return time.monotonic() - clock, used() - before


def compare(pairs: int, repeats: int) -> None:
    """Encoding against the loop, in turn."""
    with tempfile.TemporaryDirectory() as name, Workers(2) as workers:
        folder = Path(name)
        size = write_corpus(folder, pairs) / 1e6
        recipe, models = write_recipe(folder), folder / "work" / "prepared" / "models"
        run_watched("prepare", str(recipe))
        encode_all(folder, models, recipe, workers)  # starts the workers
        print(f"{pairs:,} pairs, {size:.0f} MB; seconds of the clock (of the processors)")
        ratios = []
        for _ in range(repeats):
            loop = both_times(lambda: plain_loop(folder, models))
            ours = both_times(lambda: encode_all(folder, models, recipe, workers))
            ratios.append((loop[0] / ours[0], loop[1] / ours[1]))
            print(
                f"plain loop {loop[0]:6.2f} ({loop[1]:6.2f})  encoding {ours[0]:6.2f} ({ours[1]:6.2f})"
                f"  ratio {ratios[-1][0]:.2f} ({ratios[-1][1]:.2f})",
                flush=True,
            )
        medians = [statistics.median(column) for column in zip(*ratios, strict=True)]
        print(f"median ratio {medians[0]:.2f} ({medians[1]:.2f})")


COMMANDS = {
    "doctor": (),
    "prepare": (),
    "train": (
        "training.max_steps=30",
        "training.validate_every=30",
        "training.batch_tokens=1000",
        "training.accumulate=1",
        "training.precision=fp32",
        "model.layers=1",
        "model.width=64",
        "model.feed_forward=128",
    ),
}


def grow(sizes: Sequence[int]) -> None:
    """Time and memory of the commands at several sizes of the corpus."""
    last: dict[str, tuple[int, int]] = {}
    print(f"{'pairs':>12} {'command':<8} {'clock':>8} {'processors':>11} {'us/pair':>8} {'memory':>9}  more bytes/pair")
    for pairs in sizes:
        with tempfile.TemporaryDirectory() as name:
            write_corpus(Path(name), pairs)
            recipe = write_recipe(Path(name))
            for command, settings in COMMANDS.items():
                found = run_watched(command, str(recipe), *settings)
                growth = ""
                if command in last:
                    before, memory = last[command]
                    growth = f"{(found.memory - memory) / (pairs - before):.1f}"
                last[command] = pairs, found.memory
                print(
                    f"{pairs:>12,} {command:<8} {found.seconds:>6.1f} s {found.processor:>9.1f} s"
                    f" {found.processor / pairs * 1e6:>8.1f} {found.memory / 2**20:>5.0f} MiB  {growth:>6}",
                    flush=True,
                )


def write_recipe(folder: Path) -> Path:
    """A recipe for the corpus in the folder."""
    path = folder / "synthetic.yaml"
    path.write_text(RECIPE.format(work=folder / "work", path=folder))
    return path


def main() -> None:
    """Compares with the loop, or measures growth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="*", type=int, default=[200_000], help="one corpus for each number")
    parser.add_argument("--growth", action="store_true", help="time and memory of doctor, prepare and train")
    parser.add_argument("--repeats", type=int, default=5, help="of loop and encoding in turn")
    options = parser.parse_args()
    if options.growth:
        grow(options.pairs)
    else:
        for pairs in options.pairs:
            compare(pairs, options.repeats)


if __name__ == "__main__":
    main()
