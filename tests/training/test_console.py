"""What people see while it trains: on a terminal, in a file, and when neither can be written to."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from small_recipe import prepared, recipe
from terminal import Terminal, on_a_terminal

from cclm.formats.checkpoint import Progress, SinceShown
from cclm.formats.log import PerLanguage, Probe, Train
from cclm.training.console import Shown, TrainingConsole, duration, fitting, language_table


def trained(step: int, tokens: dict[str, int] | None = None) -> Train:
    counted = {"tur": 600, "aze": 400} if tokens is None else tokens
    return Train(step=step, loss=4.313, learning_rate=2e-4, tokens=counted)


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)


def console(progress: Progress, max_steps: int, timing: Path | None = None) -> TrainingConsole:
    shown = Shown("x", max_steps, {"tur": 10, "aze": 2})
    return TrainingConsole(shown, progress, Probe(step=0, weights={"tur": 1.0}), timing=timing)


def test_the_time_left_follows_the_speed_since_this_process_began(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    clock = Clock(monkeypatch)
    progress = Progress(step=70, shown=SinceShown(tokens={"tur": 250}))  # resumed at step 70
    display = console(progress, max_steps=400)
    clock.now += 60
    display.trained(trained(100))  # 30 steps in 60 s, so 600 s for 300; of the 1,000 tokens 250 are not of this process
    clock.now += 40
    display.trained(trained(150))  # 80 steps in 100 s, so 312.5 s for 250
    first, second = capfd.readouterr().err.splitlines()
    assert first == "x  step 100/400  loss 4.313  lr 2.0e-04  12 tokens/s  10 min left"
    assert second == "x  step 150/400  loss 4.313  lr 2.0e-04  25 tokens/s  5 min left"


def test_a_process_that_made_no_step_yet_shows_no_time(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    Clock(monkeypatch)
    display = console(Progress(step=50), max_steps=400)  # it was stopped between step 50 and its line
    display.trained(trained(50, tokens={}))
    assert capfd.readouterr().err == "x  step 50/400  loss 4.313  lr 2.0e-04  0 tokens/s  time unknown\n"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (3540, "59 min"), (11_100, "3 h 05 min"), (100_000, "1 d 3 h")],
)
def test_a_duration_has_at_most_two_units(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_of_too_many_languages_those_nearest_to_admission_and_those_drawn_most_are_shown() -> None:
    hrls, lrls = [f"h{i}" for i in range(10)], [f"l{i}" for i in range(90)]
    weights: PerLanguage = {hrl: (i + 1) / 55 for i, hrl in enumerate(hrls)}
    ready = {lrl: ((i * 37) % 90) / 90 for i, lrl in enumerate(lrls)}
    nearest = sorted(lrls, key=lambda lrl: -ready[lrl])

    def shown(rows: int) -> list[str]:
        return fitting([*hrls, *lrls], weights, {**ready}, rows)

    assert shown(10) == [*hrls[5:], *(lrl for lrl in lrls if lrl in nearest[:5])]  # in the order of the recipe
    assert shown(20) == [*hrls, *(lrl for lrl in lrls if lrl in nearest[:10])]
    assert shown(100) == [*hrls, *lrls]


MANY = """
from cclm.formats.checkpoint import Progress
from cclm.formats.log import Probe, Train
from cclm.training.console import Shown, TrainingConsole
names = [f"lang-{i:02}" for i in range(100)]
probe = Probe(
    step=0,
    weights={name: 1 / 30 for name in names[:30]},
    competence={name: 0.5 for name in names},
    hrls_competence={name: i / 200 for i, name in enumerate(names[30:])},
    dev_loss={name: 6.25 for name in names},
)
shown = Shown("x", 10**6, dict.fromkeys(names, 4), 0.8)
with TrainingConsole(shown, Progress(counters=dict.fromkeys(names, 6)), probe, timing=None) as console:
    for step in range(50, 2050, 50):
        console.trained(Train(step=step, loss=4.313, learning_rate=2e-4, tokens={"lang-00": 123456}))
        console.probed(probe)
        if step % 500 == 0:
            console.admitted(step, "lang-30", "it is ready")
"""


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40)])
def test_a_hundred_languages_do_not_scroll_the_terminal_away(columns: int, rows: int) -> None:
    terminal = on_a_terminal([sys.executable, "-c", MANY], columns, rows)
    assert [line for line in (*terminal.scrolled, *terminal.screen) if "admitted: it is ready" in line] == [
        f"step {step:,}: lang-30 admitted: it is ready" for step in (500, 1000, 1500, 2000)
    ]
    assert not [line for line in terminal.scrolled if "it is ready" not in line]  # the table has never left the screen
    table = terminal.screen[-rows:]
    start = next(i for i, line in enumerate(table) if line.startswith("step 2,000/1,000,000"))
    assert "loss 4.313  lr 2.0e-04" in table[start]
    shown = [line.split() for line in table[start:] if line.startswith("lang-")]
    assert len(shown) == rows - 4
    assert shown[0] == ["lang-00", "admitted", ".50", "3.3%", "1.5", "6.25"]
    assert shown[-1] == ["lang-99", "waiting", ".50", ".34/.80", "0.0%", "1.5", "6.25"]  # nearest to admission
    left = 100 - len(shown)
    assert f"and {left} more: {30 - (rows - 4) // 2} admitted, {70 - (rows - 4) // 2} waiting" in table[-2]


@pytest.mark.slow
@pytest.mark.parametrize("columns", [80, 120])
def test_a_training_on_a_terminal_shows_its_languages(columns: int, tmp_path: Path) -> None:
    prepared(tmp_path)
    losses = {"version": 1, "losses": dict.fromkeys(("tur", "por", "aze", "glg"), 4.0)}
    (tmp_path / "losses.json").write_text(json.dumps(losses))
    settings = recipe(
        tmp_path, f"benchmark.file={tmp_path}/losses.json", "training.max_steps=50", "curriculum.gate.threshold=0.5"
    )
    (tmp_path / "recipe.yaml").write_text(settings.model_dump_json())
    command = [sys.executable, "-m", "cclm", "train", str(tmp_path / "recipe.yaml")]
    screen = on_a_terminal(command, columns, 24).screen
    start = screen.index("step 50/50  all steps are done")
    assert screen[start + 1].split() == ["competence", "HRLs-evaluated", "share", "passes", "dev", "loss"]
    rows = [line.split() for line in screen[start + 2 : start + 6]]
    assert [row[0] for row in rows] == ["tur", "por", "aze", "glg"]
    assert all(row[1] in ("admitted", "waiting") for row in rows)
    assert all(row[3].endswith("/.50") for row in rows[2:])
    assert any("dev loss weighted" in line for line in screen[:start])


UNHEARD = """
import sys
from cclm.formats.checkpoint import Progress
from cclm.formats.log import Probe, Train
from cclm.training.console import Shown, TrainingConsole
sys.stdin.readline()  # until nobody reads any more
with TrainingConsole(Shown("x", 9, {"tur": 1}), Progress(), Probe(step=0, weights={"tur": 1}), timing=None) as console:
    for step in range(3):
        console.trained(Train(step=step, loss=1.0, learning_rate=1.0))
        console.print("still there")
print("trained")
"""


def test_a_reader_that_is_gone_does_not_stop_a_training() -> None:
    reading, writing = os.pipe()
    command = [sys.executable, "-c", UNHEARD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=writing, text=True) as process:
        os.close(writing)
        os.close(reading)
        assert process.communicate("\n")[0] == "trained\n"


def test_a_full_disk_ends_timing_jsonl_and_not_the_training(capfd: pytest.CaptureFixture[str]) -> None:
    with console(Progress(), 400, timing=Path("/dev/full")) as display:
        display.trained(trained(50))
        display.print("still there")
    told = capfd.readouterr().err
    assert told.count("timing.jsonl: No space left on device; times are no longer recorded") == 1
    assert told.endswith("still there\n")


def test_the_terminal_of_these_tests_scrolls_and_overwrites() -> None:
    terminal = Terminal(10, 3)
    terminal.feed("one\r\ntwo\r\nthree\r\nfour and more")
    assert terminal.scrolled == ["one", "two"]
    assert terminal.screen == ["three", "four and m", "ore"]
    terminal.feed("\r\x1b[2K\x1b[1A\x1b[2Kx\x1b[1;32my\x1b[0m")
    assert terminal.screen == ["three", "xy", ""]


def test_a_competence_is_shown_with_its_standard_error_where_it_is_known() -> None:
    latest = Probe(
        step=5, dev_loss={"tur": 4.0, "aze": 5.0}, competence={"tur": 0.7, "aze": 0.5}, competence_se={"tur": 0.034}
    )
    table = language_table(latest, {"tur": 1.0, "aze": 0.0}, threshold=None, height=20)
    assert list(table.columns[2].cells) == [".70 ±.03", ".50"]
