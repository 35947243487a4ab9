"""How fast translating is: `cclm translate` on text against bare CTranslate2, a beam search in torch, and Sockeye.

    python benchmarks/translate_speed.py                                  # about 15 minutes
    python benchmarks/translate_speed.py --against bare --quantizations int8 --pairs 3

A model of the paper's size with random weights, whose translations have about 25 tokens by construction
(benchmarks/speed/decoding.py); beam 5, length penalty 1.0, 256 sentences at a time in batches of 64, two threads. Ours
reads lines and writes lines: segmenting, looking up, searching, putting together. Bare CTranslate2 gets symbols and
gives symbols, of the very same model. Sockeye gets words, as many as ours has subwords. The systems take turns as in
benchmarks/train_speed.py; loading is left out. Output tokens/s, and the median of the ratios of neighbouring windows.
"""

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "speed"))

from decoding import output_tokens, run_folder  # noqa: E402
from machine import machine, others  # noqa: E402
from peers import NoPeer, python_of  # noqa: E402
from windows import Failed, System, Window, running, say, spread  # noqa: E402

AGAINST = {"bare": ("float32", "int8"), "sockeye": ("float32", "int8"), "beam": ("float32",)}
"""What ours is compared with, and in which precision of ours; the peers but bare CTranslate2 have float32 alone."""
BARS = {("bare", "float32"): 0.9, ("bare", "int8"): 0.9, ("sockeye", "float32"): 1.5, ("sockeye", "int8"): 2.5}


@dataclass
class Found:
    """The windows of one pair of systems."""

    quantization: str
    peer: str
    ours: list[Window] = field(default_factory=list)
    theirs: list[Window] = field(default_factory=list)
    failed: str = ""


def main() -> None:
    """Measures and prints."""
    options = arguments()
    run_folder(options.work)
    found = [
        compare(quantization, peer, options)
        for quantization in options.quantizations
        for peer in options.against
        if quantization in AGAINST[peer]
    ]
    windows = [window for each in found for window in (*each.ours, *each.theirs)]
    print(f"\n{machine()}; {others(windows)}\n\n{table(found)}")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quantizations", nargs="+", choices=("float32", "int8"), default=["float32", "int8"])
    parser.add_argument("--against", nargs="+", choices=AGAINST, default=list(AGAINST))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10, help="of a window; it ends when all sentences are done")
    parser.add_argument("--work", type=Path, default=Path("work/translate"), help="folder for the model and its text")
    parser.add_argument("--peers", type=Path, default=Path("work/peers"), help="folder for the peers' environments")
    return parser.parse_args()


def compare(quantization: str, peer: str, options: argparse.Namespace) -> Found:
    """Takes turns; a system that fails ends the comparison, not the program."""
    found = Found(quantization, peer)
    say(f"{quantization}, against {peer}: starting")
    output_tokens(options.work, quantization)  # counted here, so that both need not
    try:
        ours = system("ours", quantization, peer, options.work, Path(sys.executable))
        python = python_of(peer, options.peers) if peer == "sockeye" else Path(sys.executable)
        theirs = system(peer, quantization, peer, options.work, python)
        with running(1, ours, theirs):
            for number in range(options.pairs):
                found.ours.append(ours.window(options.seconds))
                found.theirs.append(theirs.window(options.seconds))
                a, b = found.ours[-1], found.theirs[-1]
                say(f"  pair {number + 1}: ours {a.rate:,.0f} tokens/s, {peer} {b.rate:,.0f}: {a.rate / b.rate:.2f}")
    except (Failed, NoPeer) as failure:
        found.failed = str(failure)
        say(f"  failed: {failure}")
    return found


def system(name: str, quantization: str, peer: str, work: Path, python: Path) -> System:
    """A system by name, not yet started."""
    told = work / "events" / f"{quantization}-{peer}" / f"{name}.events"
    command = [python, HERE / "speed" / f"decode_{name}.py", work, quantization, told]
    # Sockeye tells of every batch of 64, the others of all 256 sentences.
    return System(name, [str(part) for part in command], told, align=4 if name == "sockeye" else 1)


def table(found: list[Found]) -> str:
    """Markdown: a row a comparison."""
    rows = [
        "| ours | against | ours, output tokens/s | theirs | ratio (least-greatest) | bar |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*rows, *map(row, found)])


def row(found: Found) -> str:
    """One comparison; what failed says why."""
    head = f"| {found.quantization} | {found.peer} "
    if found.failed:
        return f"{head}| {found.failed.replace('|', '/')} | | | |"
    ours, theirs = ([window.rate for window in windows] for windows in (found.ours, found.theirs))
    ratio, low, high = spread([a / b for a, b in zip(ours, theirs, strict=True)])
    bar = BARS.get((found.peer, found.quantization), "")
    return (
        f"{head}| {spread(ours)[0]:,.0f} | {spread(theirs)[0]:,.0f} | **{ratio:.2f}** ({low:.2f}-{high:.2f}) | {bar} |"
    )


if __name__ == "__main__":
    main()
