"""How the cost of training grows: with the corpus, with the number of languages, with the length of sentences.

    python benchmarks/growth.py                              # about 20 minutes, 1 GB of disk
    python benchmarks/growth.py --what corpus --seconds 5

The real trainer on random ids, written straight into the prepared form, with a model so small (1+1 layers, width 64)
that what surrounds it shows: batches, curriculum, probes, logs. Each case is a process of its own, with one thread,
which serves so small a model best. Tokens/s are of real target tokens after the first updates, with probes (256
sentences a language every 100 steps, in portions) and without; "start" is the time to the first update. Memory is the
most that was resident; pages of the memory-mapped corpus, which the system takes back at need, are told apart. The
plots go to docs/pictures/growth-*.svg.
"""

import argparse
import shutil
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "speed"))

from machine import machine, others  # noqa: E402
from plot import plot  # noqa: E402
from run_ours import EVERY  # noqa: E402
from windows import System, Window, running, say  # noqa: E402
from workload import SIZES, Vocabularies, write_prepared  # noqa: E402

PAIRS, LANGUAGES, LENGTH = 100_000, 8, 25
CASES = {
    "corpus": (10_000, 100_000, 1_000_000, 4_000_000),
    "languages": (8, 20, 50, 100, 200),
    "length": (5, 10, 25, 50, 100),
}
AXES = {"corpus": "pairs", "languages": "languages", "length": "mean tokens a sentence"}


@dataclass(frozen=True)
class Case:
    """What one case found."""

    place: int
    start: float
    with_probes: Window
    without_probes: Window
    memory: int
    own_memory: int


def main() -> None:
    """Measures, prints and draws."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--seconds", type=float, default=20, help="of a window")
    parser.add_argument("--most", type=int, default=10**9, help="leave out cases above this")
    parser.add_argument("--work", type=Path, default=Path("work/growth"), help="folder for data and runs")
    parser.add_argument("--pictures", type=Path, default=HERE.parent / "docs" / "pictures")
    options = parser.parse_args()
    for what in options.what:
        cases = [measure(what, place, options) for place in CASES[what] if place <= options.most]
        windows = [window for case in cases for window in (case.with_probes, case.without_probes)]
        print(f"\n{machine(1)}; {others(windows)}\n\n{table(what, cases)}", flush=True)
        options.pictures.mkdir(parents=True, exist_ok=True)
        (options.pictures / f"growth-{what}.svg").write_text(picture(what, cases), encoding="utf-8")


def measure(what: str, place: int, options: argparse.Namespace) -> Case:
    """One case: its data is written, measured and removed."""
    folder = options.work / f"{what}-{place}"
    shutil.rmtree(folder, ignore_errors=True)
    say(f"{what} {place:,}: writing")
    write(folder / "prepared", **{what: place})
    say(f"{what} {place:,}: measuring")
    begun = time.monotonic()
    systems = [system(kind, folder) for kind in ("probes", "plain")]
    with running(EVERY, systems[0]):
        start = systems[0].first_update - begun
        with_probes = systems[0].window(options.seconds)
        memory, own_memory = systems[0].peak_memory(), systems[0].own_memory()
    with running(EVERY, systems[1]):
        without_probes = systems[1].window(options.seconds)
    shutil.rmtree(folder)
    return Case(place, start, with_probes, without_probes, memory, own_memory)


def write(prepared: Path, *, corpus: int = PAIRS, languages: int = LANGUAGES, length: int = LENGTH) -> None:
    """The prepared pairs of a case; half of the languages have four times the pairs of the others."""
    names = tuple(f"l{i:03}" for i in range(languages))
    small = corpus * 2 // (5 * languages)
    sizes = {name: 4 * small if i < languages // 2 else small for i, name in enumerate(names)}
    size = SIZES["GROWTH"]
    vocabularies = Vocabularies(names, size.source_symbols, size.target_symbols, size.joint)
    write_prepared(prepared, sizes, vocabularies, dev=256, mean_length=length, longest=4 * length)


def system(kind: str, folder: Path) -> System:
    """The trainer with or without probes, not yet started."""
    told = folder / f"{kind}.events"
    command = [sys.executable, HERE / "speed" / "run_growth.py", folder / "prepared", kind, folder / kind, told]
    return System(kind, [str(part) for part in command], told, align=EVERY if kind == "probes" else 1, threads=1)


def table(what: str, cases: Iterable[Case]) -> str:
    """Markdown: a row a case."""
    rows = [
        f"| {AXES[what]} | tokens/s | without probes | start, s | peak memory, MB | of it not of files |",
        "|---|---|---|---|---|---|",
    ]
    rows += [
        f"| {case.place:,} | {case.with_probes.rate:,.0f} | {case.without_probes.rate:,.0f} | {case.start:.1f}"
        f" | {case.memory / 2**20:,.0f} | {case.own_memory / 2**20:,.0f} |"
        for case in cases
    ]
    return "\n".join(rows)


def picture(what: str, cases: list[Case]) -> str:
    """Tokens/s and memory along the places."""
    rates = [
        ("with probes", [case.with_probes.rate for case in cases]),
        ("without", [case.without_probes.rate for case in cases]),
    ]
    memory = [
        ("peak", [case.memory / 2**20 for case in cases]),
        ("not of files", [case.own_memory / 2**20 for case in cases]),
    ]
    panels = [("target tokens/s", rates), ("memory, MB", memory)]
    return plot(f"training, by {AXES[what]}", AXES[what], [case.place for case in cases], panels)


if __name__ == "__main__":
    main()
