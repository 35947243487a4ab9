"""What is pure in the benchmarks of speed: the work, its cost, the clock, and windows on a system that is known."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from cclm.data.batches import Batches, Direction
from cclm.data.prepared import Prepared
from cclm.model import Shape, Transformer

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SPEED = str(BENCHMARKS / "speed")
sys.path[:0] = [SPEED, str(BENCHMARKS)]

import decoding  # noqa: E402
import growth  # noqa: E402
import plot  # noqa: E402
import train_speed  # noqa: E402
import translate_speed  # noqa: E402
import workload  # noqa: E402
from machine import machine, others  # noqa: E402
from windows import Failed, Pauses, System, Window, running, spread  # noqa: E402


@pytest.mark.slow
def test_the_cost_of_a_pair_is_what_torch_counts_in_a_forward_pass_of_our_model_three_times() -> None:
    size = workload.Size(2, 32, 48, 2, 70, 60, False, 0)
    model = Transformer(Shape(70, 60, 2, 2, 32, 48, 0.0, 0.0, 0.0), 1)
    with FlopCounterMode(display=False) as counted:
        model(torch.full((1, 7), 5), torch.full((1, 9), 5))
    assert size.flops(7, 9) == 3 * counted.get_total_flops()


def test_lengths_have_the_mean_and_the_limit_that_were_asked_for() -> None:
    lengths = workload.draw_lengths(np.random.default_rng(1), 20_000, 25, 98).reshape(-1, 2)
    assert lengths.mean(axis=0) == pytest.approx([25, 25], rel=0.03)
    assert lengths.min() >= 1
    assert lengths.max() == 98
    assert np.corrcoef(lengths.T)[0, 1] > 0.9


@pytest.fixture(params=[True, False], ids=["joint", "apart"])
def vocabularies(request: pytest.FixtureRequest) -> workload.Vocabularies:
    return workload.Vocabularies(("aze", "tur"), 100 if request.param else 200, 100, request.param)


def test_prepared_pairs_are_read_by_the_trainer(vocabularies: workload.Vocabularies, tmp_path: Path) -> None:
    workload.write_prepared(tmp_path, {"tur": 300, "aze": 100}, vocabularies, dev=20)
    prepared = Prepared.open(tmp_path)
    assert prepared.sizes == {"tur": {"train": 300, "dev": 20}, "aze": {"train": 100, "dev": 20}}
    assert (len(prepared.other), len(prepared.pivot)) == (vocabularies.other, vocabularies.pivot)
    batches = Batches(prepared.corpus("tur", "train"), Direction(True), language="tur", seed=1, budget=500)
    seen = [batches.batch(i) for i in range(len(batches))]
    assert sum(len(batch.indices) for batch in seen) == 300
    first = vocabularies.first
    for batch in seen:
        ids = batch.source[batch.source >= first]
        assert ids.max() < vocabularies.other
        assert batch.target_output.max() < vocabularies.pivot


def test_languages_apart_use_ids_of_their_own(tmp_path: Path) -> None:
    vocabularies = workload.Vocabularies(("aze", "tur"), 207, 100, False)
    workload.write_prepared(tmp_path, {"tur": 50, "aze": 50}, vocabularies, dev=5)
    prepared = Prepared.open(tmp_path)
    used = {
        lang: {int(i) for n in range(50) for i in prepared.corpus(lang, "train").pair(n)[0]} for lang in ("aze", "tur")
    }
    assert min(used["aze"]) >= 7
    assert max(used["aze"]) < 107 <= min(used["tur"])


def test_the_text_says_the_same_as_the_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "TRAIN", dict.fromkeys(workload.TRAIN, 20))
    prepared = workload.prepared_folder(tmp_path, "TINY")
    folder = workload.text_folder(prepared, "TINY")
    pairs = workload.pairs_of(prepared, "train")
    sources = (folder / "train.src").read_text().splitlines()
    assert len(sources) == len(pairs) == 160
    assert [int(word[1:]) for word in sources[7].split()] == pairs[7][0].tolist()
    words = (folder / "trg.words").read_text().splitlines()
    assert len(words) == workload.SIZES["TINY"].target_symbols - 4
    assert {word for line in (folder / "train.trg").read_text().splitlines() for word in line.split()} <= set(words)


def test_the_clock_stands_still_while_a_system_is_stopped() -> None:
    clock = Pauses(10.0)
    clock.stop(14.0)
    clock.resume(20.0)
    assert clock.ran(12.0) == 2.0
    assert clock.ran(17.0) == 4.0
    assert clock.ran(23.0) == 7.0


# A system that does 50 tokens every 10 ms, or fails.
PROGRAM = f"""
import sys, time
sys.path.insert(0, {SPEED!r})
from pathlib import Path
from events import Events
events = Events(Path(sys.argv[1]))
for update in range(int(sys.argv[2])):
    time.sleep(0.01)
    events.tokens += 50
    events.tell()
print("out of text")
sys.exit(3)
"""


def known(tmp_path: Path, updates: int, align: int = 1) -> System:
    told = tmp_path / "known.events"
    return System("known", [sys.executable, "-c", PROGRAM, str(told), str(updates)], told, align=align)


@pytest.mark.slow
def test_a_window_counts_only_the_time_in_which_the_system_runs(tmp_path: Path) -> None:
    system, windows, begun = known(tmp_path, 10_000, align=4), [], time.monotonic()
    with running(8, system):
        for _ in range(2):
            time.sleep(0.5)  # stopped: neither tokens nor seconds
            windows.append(system.window(0.3))
        assert system.peak_memory() > 1e6
        assert sum(window.seconds for window in windows) < time.monotonic() - begun - 2 * 0.5
    for window in windows:
        assert window.updates % 4 == 0
        assert window.tokens == 50 * window.updates
        assert window.tokens / window.updates / window.rate == pytest.approx(0.01, abs=0.05)


def test_a_system_that_ends_has_failed_with_its_last_word(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="ended with 3: out of text"), running(50, known(tmp_path, 3)):
        pass


def test_spread_is_median_least_and_greatest() -> None:
    assert spread([3.0, 1.0, 2.0]) == (2.0, 1.0, 3.0)


def test_the_line_above_a_table_says_when_where_and_how_quiet() -> None:
    assert f"torch {torch.__version__}, 1 thread" in machine(1)
    windows = [Window(1, 1, 1, share) for share in (0.01, 0.02, 0.4)]
    assert others(windows) == "other processes used 2% of the cores (at most 40% in a window)"


@pytest.mark.slow
@pytest.mark.parametrize("length", [25, 40])
def test_a_model_that_is_let_end_ends_near_the_length(length: int) -> None:
    model = Transformer(Shape(50, 60, 2, 4, 512, 64, 0.0, 0.0, 0.0), 1).eval()
    state = model.state_dict()
    decoding.let_end(state, length)
    model.load_state_dict(state)
    targets = [1]
    with torch.no_grad():
        while targets[-1] != decoding.EOS and len(targets) < 80:
            logits = model(torch.tensor([[5, 6, 7, 2]]), torch.tensor([targets]))[-1]
            targets.append(int(logits.argmax()))
    assert len(targets) - 2 == pytest.approx(length, abs=2)


def test_made_up_text_is_the_same_again_and_in_letters_of_its_language() -> None:
    text = decoding.lines("α", 20, seed=3)
    assert text == decoding.lines("α", 20, seed=3)
    assert len(text.splitlines()) == 20
    assert set(text) <= {" ", "\n", *(chr(ord("α") + i) for i in range(decoding.LETTERS))}


def test_a_plot_has_a_line_for_each_and_round_numbers() -> None:
    drawn = plot.plot("title", "pairs", [10, 1000], [("MB", [("a & b", [1.0, 3.0]), ("c", [2.0, 2.0])])])
    assert drawn.count("<polyline") == 2
    assert "a &amp; b" in drawn
    assert [plot.nice(value) for value in (0.3, 3, 41, 79, 99)] == [0.4, 4, 50, 80, 100]
    assert plot.across(100, [10, 1000], 0, 8) == pytest.approx(4)


@pytest.mark.slow
def test_a_stopped_system_dies_with_the_benchmark(tmp_path: Path) -> None:
    told = tmp_path / "known.events"
    benchmark = f"""
import os, signal, sys
sys.path.insert(0, {SPEED!r})
from pathlib import Path
from windows import System
system = System("known", [sys.executable, "-c", {PROGRAM!r}, {str(told)!r}, "10000"], Path({str(told)!r}))
system.start(2)
print(system._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", benchmark], capture_output=True, text=True, check=False)
    pid = int(ended.stdout)
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(pid)


def alive(pid: int) -> bool:
    """Whether the process is there and not merely waiting to be noticed by its parent."""
    path = Path(f"/proc/{pid}/stat")
    return path.exists() and path.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.slow
def test_the_benchmark_of_training_prints_its_table(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "train_speed.py"), "--sizes", "TINY", "--against", "loop"]
    options = ["--precisions", "fp32", "--pairs", "1", "--seconds", "0.5", "--work", str(tmp_path)]
    result = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    row = result.stdout.splitlines()[-1]
    assert row.startswith("| TINY fp32 | loop | "), result.stderr
    ours, theirs = (int(cell.replace(",", "")) for cell in row.split(" | ")[2:4])
    assert min(ours, theirs) > 0
    steps = [int(cell.replace(",", "")) for cell in row.split(" | ")[7].split(" / ")]
    assert all(600 < tokens < 1500 for tokens in steps)  # about 1,024; a short window holds few of them


@pytest.mark.slow
def test_the_benchmark_of_start_up_prints_its_table(tmp_path: Path) -> None:
    few = ["data.high_resource=[por]", "data.low_resource=[glg]"]
    command = [sys.executable, str(BENCHMARKS / "start_up.py"), "--rounds", "1", "--work", str(tmp_path / "w"), *few]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [row.split("|") for row in result.stdout.splitlines()[-2:]]
    assert [row[1].strip() for row in rows] == ["`import torch`", "`cclm train` to its first update"]
    assert all(float(row[2].split()[0]) > 0 for row in rows)  # which is longer, a busy machine decides


def test_the_table_and_picture_of_growth_have_every_case() -> None:
    window = Window(tokens=5000, seconds=2, updates=4, others=0)
    cases = [growth.Case(place, 1.5, window, window, 300 * 2**20, 200 * 2**20) for place in (10_000, 100_000)]
    assert growth.table("corpus", cases).splitlines()[-1] == "| 100,000 | 2,500 | 2,500 | 1.5 | 300 | 200 |"
    assert growth.picture("corpus", cases).count("<polyline") == 4


def test_a_comparison_that_failed_says_why_in_the_table() -> None:
    failed = train_speed.Found("SMALL", "fp32", "eole", failed="ended with 1: no | here")
    row = train_speed.row(failed, Path())
    assert row.startswith("| SMALL fp32 | eole | ended with 1: no / here |")
    assert row.count("|") == train_speed.table([], Path()).splitlines()[0].count("|")
    assert "| sockeye | no sockeye |" in translate_speed.row(
        translate_speed.Found("int8", "sockeye", failed="no sockeye")
    )
