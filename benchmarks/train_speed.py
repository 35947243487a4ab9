"""How fast training is: cclm against its peers on the same work, in target tokens/s and peak memory.

    python benchmarks/train_speed.py                  # everything: about 35 minutes on two cores with bf16
    python benchmarks/train_speed.py --against loop --sizes SMALL --precisions fp32
    python benchmarks/train_speed.py --against sockeye eole --pairs 5 --seconds 40

Every pair of systems takes turns (ours, peer, ours, peer ...), each in a process of its own with two threads that is
stopped while the other is measured: benchmarks/speed/windows.py. Start-up and the first updates are left out. A ratio
is that of two neighbouring windows; the table has the median of the ratios, and the least and greatest. Between them
the machine multiplies matrices of the same shapes: what that allows is the limit. Ours has the competence gate, the
probes at the paper's interval, schedule and logs on; validations and checkpoints are left out everywhere.

The peers live in environments of their own under work/peers, made on first use (a few minutes and gigabytes each).
"""

import argparse
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "speed"))

from machine import machine, others  # noqa: E402
from peers import PEERS, NoPeer, python_of  # noqa: E402
from run_ours import EVERY  # noqa: E402
from windows import Failed, System, Window, running, say, spread  # noqa: E402
from workload import SIZES, flops_a_target_token, prepared_folder  # noqa: E402

WARM_UP = 3
LIMIT_SECONDS = 2.0
PRECISIONS = {"loop": ("fp32", "bf16"), "sockeye": ("fp32",), "eole": ("fp32", "bf16"), "joeynmt": ("fp32",)}
"""What each can do on a CPU, with float32 weights."""


@dataclass
class Found:
    """The windows of one pair of systems."""

    size: str
    precision: str
    peer: str
    ours: list[Window] = field(default_factory=list)
    theirs: list[Window] = field(default_factory=list)
    limit: list[Window] = field(default_factory=list)
    memory: tuple[int, int] = (0, 0)
    failed: str = ""


def main() -> None:
    """Measures and prints."""
    options = arguments()
    found = []
    for size in options.sizes:
        prepared = prepared_folder(options.work, size)
        for precision in options.precisions:
            for peer in options.against:
                if precision in PRECISIONS[peer]:
                    found.append(compare(size, precision, peer, prepared, options))
    windows = [window for each in found for window in (*each.ours, *each.theirs)]
    print(f"\n{machine()}; {others(windows)}\n\n{table(found, options.work)}")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["SMALL", "PAPER"])
    parser.add_argument("--precisions", nargs="+", choices=("fp32", "bf16"), default=["fp32", "bf16"])
    parser.add_argument("--against", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8, help="of a window; it ends with an update")
    parser.add_argument("--work", type=Path, default=Path("work/speed"), help="folder for data and runs")
    parser.add_argument("--peers", type=Path, default=Path("work/peers"), help="folder for the peers' environments")
    return parser.parse_args()


def compare(size: str, precision: str, peer: str, prepared: Path, options: argparse.Namespace) -> Found:
    """Takes turns; a system that fails ends the comparison, not the program."""
    found = Found(size, precision, peer)
    folder = options.work / size / f"{peer}-{precision}"
    shutil.rmtree(folder, ignore_errors=True)
    say(f"{size} {precision}, against {peer}: starting")
    try:
        python = {peer: python_of(peer, options.peers)} if peer in PEERS else {}
        ours, theirs, limit = (
            system(name, size, precision, prepared, folder, python.get(name, Path(sys.executable)))
            for name in ("ours", peer, "limit")
        )
        with running(WARM_UP, ours, theirs, limit):
            for number in range(options.pairs):
                found.limit.append(limit.window(min(LIMIT_SECONDS, options.seconds)))
                found.ours.append(ours.window(options.seconds))
                found.theirs.append(theirs.window(options.seconds))
                a, b = found.ours[-1], found.theirs[-1]
                say(
                    f"  pair {number + 1}: ours {a.rate:,.0f} tokens/s in {a.seconds:.1f} s ({a.updates} updates),"
                    f" {peer} {b.rate:,.0f} in {b.seconds:.1f} s ({b.updates}): {a.rate / b.rate:.2f}"
                )
            found.memory = ours.peak_memory(), theirs.peak_memory()
    except (Failed, NoPeer) as failure:
        found.failed = str(failure)
        say(f"  failed: {failure}")
    return found


def system(name: str, size: str, precision: str, prepared: Path, folder: Path, python: Path) -> System:
    """A system by name, not yet started."""
    told, script = folder / f"{name}.events", HERE / "speed" / f"run_{name}.py"
    command = [python, script, prepared, size, precision, folder / name, told]
    return System(name, [str(part) for part in command], told, align=EVERY if name == "ours" else 1)


def table(found: list[Found], work: Path) -> str:
    """Markdown: a row a comparison."""
    rows = [
        "| size | against | ours, tokens/s | theirs | ratio (least-greatest) | limit | our share"
        " | tokens per step, ours / theirs | peak GB, ours / theirs | memory ratio |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*rows, *(row(each, work) for each in found)])


def row(found: Found, work: Path) -> str:
    """One comparison; what failed says why."""
    head = f"| {found.size} {found.precision} | {found.peer} "
    if found.failed:
        return f"{head}| {found.failed.replace('|', '/')} " + "| " * 7 + "|"
    ours, theirs, limit = ([window.rate for window in windows] for windows in (found.ours, found.theirs, found.limit))
    ratio, low, high = spread([a / b for a, b in zip(ours, theirs, strict=True)])
    share = spread([a / b for a, b in zip(ours, limit, strict=True)])[0]
    most = spread(limit)[0]
    gflops = most * flops_a_target_token(SIZES[found.size], work / found.size / "prepared") / 1e9
    steps = " / ".join(f"{mean_step(windows):,.0f}" for windows in (found.ours, found.theirs))
    memory = " / ".join(f"{value / 2**30:.1f}" for value in found.memory)
    return (
        f"{head}| {spread(ours)[0]:,.0f} | {spread(theirs)[0]:,.0f} | **{ratio:.2f}** ({low:.2f}-{high:.2f})"
        f" | {most:,.0f} ({gflops:,.0f} GFLOP/s) | {share:.0%} | {steps} | {memory}"
        f" | {found.memory[0] / found.memory[1]:.2f} |"
    )


def mean_step(windows: list[Window]) -> float:
    """Real target tokens of an update."""
    return sum(window.tokens for window in windows) / sum(window.updates for window in windows)


if __name__ == "__main__":
    main()
