"""A signal in the first moments of a command, while it is still importing, ends it without a traceback."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import Ended, Started, finish, start, wait_for
from corpora import write_tsv

LARGE = ("numpy", "click", "pydantic", "rich", "torch", "multiprocessing", "typing", "threading")
STARTS = 12
RECIPE = """version: 1
name: small
work: work
data: {format: tsv, path: text, high_resource: [tur], low_resource: [aze]}
"""


def handles_signals(process: Started) -> bool:
    """Whether a handler for SIGTERM is in place. Python itself has none."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    caught = next((int(line.split()[1], 16) for line in lines if line.startswith("SigCgt")), 0)
    return bool(caught >> (signal.SIGTERM - 1) & 1)


def signalled(command: list[str], folder: Path, number: int, delay: float) -> Ended:
    process = start(*command, folder=folder)
    wait_for(lambda: handles_signals(process), process)
    time.sleep(delay)
    process.send_signal(number)
    return finish(process)


def test_nothing_large_is_imported_before_signals_are_handled() -> None:
    program = "import sys, cclm.cli; print([name for name in sys.argv[1:] if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program, *LARGE], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
@pytest.mark.parametrize("command", [["--version"], ["train", "recipe.yaml", "--dry-run"]], ids=["version", "train"])
def test_a_signal_at_any_moment_of_the_start_ends_without_a_traceback(
    tmp_path: Path, command: list[str], number: int
) -> None:
    """The exit code is that of the signal, or the command was faster. Python ends by the signal itself at its exit."""
    write_tsv(tmp_path / "text", train=20)
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    began = time.monotonic()
    assert finish(start(*command, folder=tmp_path)).code == 0
    moments = [(time.monotonic() - began) * i / STARTS for i in range(STARTS)]
    ended = [signalled(command, tmp_path, number, moment) for moment in moments]
    assert ended[0].code == 128 + number
    assert ended[0].stderr == "cclm: interrupted\n"
    for end in ended:
        assert end.code in (0, 128 + number, -number), end
        assert "Traceback" not in end.stderr, end
        assert "Exception ignored" not in end.stderr, end


@pytest.mark.slow
def test_a_script_that_calls_main_unguarded_does_not_run_again_in_worker_processes(tmp_path: Path) -> None:
    write_tsv(tmp_path / "text", train=20)
    (tmp_path / "recipe.yaml").write_text(RECIPE + "vocabulary: {pieces: 60}\n")
    (tmp_path / "script.py").write_text("from cclm.cli import main\nmain()\n")
    command = [sys.executable, "script.py", "prepare", "recipe.yaml", "--workers", "2"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert "waiting for" not in ended.stderr
