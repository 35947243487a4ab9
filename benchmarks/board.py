"""What the board costs: 20 runs of 50,000 log lines each, one of them still being written.

    python benchmarks/board.py [--runs 20] [--lines 50000] [--seconds 20]

Prints the time until the first page has been drawn and until every log has been read, the time from an event in a log
until the page shows it, and the memory of both sides: of the server, and of the page in Chromium.
"""

import argparse
import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from live_browser import Page, chromium
from made_board import append, describe, running, save
from made_run import write_lines

from cclm import LanguageGraph

HRLS, LRLS = ["tur", "rus", "por", "ces"], ["aze", "bel", "glg", "slk"]


def lines(count: int, seed: int) -> list[str]:
    """A log of this many lines: two of three rounds are train and probe events, every tenth has a validation."""
    rng, made, step = random.Random(seed), [], 0
    while len(made) < count:
        step += 50
        share = 1 - math.exp(-step / (20 * count))
        values = {lang: 9 - 5 * share + rng.gauss(0, 0.05) for lang in HRLS + LRLS}
        admitted = HRLS + LRLS[: int(5 * share)]
        made.append(event("train", step, loss=8 - 4 * share, learning_rate=2e-4, draws=dict.fromkeys(admitted, 6),
                          tokens=dict.fromkeys(admitted, 3000)))  # fmt: skip
        competence = {lang: 2 ** (4 - value) for lang, value in values.items()}
        made.append(event("probe", step, dev_loss=values, competence=competence, admitted=admitted,
                          hrls_competence={lang: share for lang in LRLS},
                          weights=dict.fromkeys(admitted, 1 / len(admitted))))  # fmt: skip
        if step % 1000 == 0:
            made.append(event("validation", step, dev_loss=values, weighted=values["tur"], macro=values["aze"]))
    return made[:count]


def event(kind: str, step: int, **facts: Any) -> str:
    return json.dumps({"event": kind, "step": step, **facts})


def write(work: Path, runs: int, count: int) -> Path:
    """The runs; returns the one that will grow."""
    similarity = {lrl: {hrl: 0.6 if i == j else 0.1 for j, hrl in enumerate(HRLS)} for i, lrl in enumerate(LRLS)}
    graph = LanguageGraph(HRLS, LRLS, similarity).to_json()
    for number in range(runs):
        run = work / "runs" / f"run-{number:02}"
        run.mkdir(parents=True)
        write_lines(run / "log.jsonl", lines(count, number))
        (run / "graph.json").write_text(graph)
        describe(run, HRLS, LRLS, 50 * count)
        save(run, 1000)
    return work / "runs" / "run-00"


def resident(pid: int) -> float:
    """Megabytes that a process has in memory now."""
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * 4096 / 1e6


def first_paint(page: Page, address: str, ready: str) -> tuple[float, float]:
    """Seconds until the browser has painted anything, and until the page is complete."""
    start = time.monotonic()
    page.open(address)
    page.wait(ready, 120)
    complete = time.monotonic() - start
    paint = page.run("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")
    return (paint or math.nan) / 1000, complete


def latencies(page: Page, run: Path, seconds: float) -> list[float]:
    """Seconds from an event in the log until the page shows its step."""
    last = json.loads((run / "log.jsonl").read_text().splitlines()[-1])["step"]
    probe = json.loads([line for line in (run / "log.jsonl").read_text().splitlines() if '"probe"' in line][-1])
    found, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        last += 50
        start = time.monotonic()
        append(run, probe | {"step": last})
        page.wait(f"document.querySelector('.facts-line')?.innerText.includes('step {last:,} of')", 60)
        found.append(time.monotonic() - start)
        time.sleep(random.random() / 2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--lines", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=20)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, chromium() as page:
        measure(page, Path(folder), chosen.runs, chosen.lines, chosen.seconds)


def measure(page: Page, work: Path, runs: int, count: int, seconds: float) -> None:
    run = write(work, runs, count)
    size = sum(path.stat().st_size for path in work.glob("runs/*/log.jsonl")) / 1e6
    print(f"{runs} runs of {count:,} lines, {size:,.0f} MB of logs")
    command = [sys.executable, "-m", "cclm", "board", str(work), "--no-open"]
    with running(run), subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as board:
        try:
            assert board.stdout is not None
            start, address = time.monotonic(), board.stdout.readline().split()[-1]
            print(f"the board answers after {time.monotonic() - start:.1f} s")
            paint, complete = first_paint(
                page, address, f"document.querySelectorAll('.runs tbody tr').length === {runs}"
            )
            print(
                f"overview: first paint {paint:.2f} s, all {runs} rows {complete:.2f} s, while the logs are being read"
            )
            wait_until_read(page, start)
            print(f"memory of the server: {resident(board.pid):.0f} MB")
            link = page.run(
                "[...document.querySelectorAll('.runs a')].find((a) => a.textContent.includes('run-00')).href"
            )
            paint, complete = first_paint(page, link, "document.querySelectorAll('#competence .line').length === 8")
            print(f"a run: first paint {paint:.2f} s, complete {complete:.2f} s")
            heap = page.metrics()["JSHeapUsedSize"] / 1e6
            found = latencies(page, run, seconds)
            print(
                f"from log to page: median {statistics.median(found):.2f} s, worst {max(found):.2f} s of {len(found)}"
            )
            later = page.metrics()["JSHeapUsedSize"] / 1e6
            print(f"memory of the page: {heap:.0f} MB, {later:.0f} MB after {len(found)} updates")
            print(f"memory of the server then: {resident(board.pid):.0f} MB")
        finally:
            board.terminate()


def wait_until_read(page: Page, start: float) -> None:
    unread = "fetch('/api/overview').then((a) => a.json()).then((d) => d.runs.every((run) => run.is_read))"
    page.wait(unread, 300)
    print(f"every log has been read after {time.monotonic() - start:.1f} s")


if __name__ == "__main__":
    main()
