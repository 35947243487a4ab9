"""`cclm board` as a command, and beside a training: exit codes, messages, and a training that does not notice it."""

import http.client
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import cclm
from made_board import board_run


def started(folder: Path, *options: str) -> tuple[subprocess.Popen[str], int]:
    """A board in a process of its own, and its port."""
    command = [sys.executable, "-m", "cclm", "board", str(folder), "--no-open", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"is at http://127\.0\.0\.1:(\d+)/", line)
    assert found, line
    return process, int(found[1])


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONUNBUFFERED": "1"}


def ask(port: int, path: str = "/api/overview") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_even_while_pages_are_open(tmp_path: Path, number: int, code: int) -> None:
    board_run(tmp_path, "run", up_to=1000)
    process, port = started(tmp_path)
    streams = []
    for _ in range(5):
        streams.append(http.client.HTTPConnection("127.0.0.1", port, timeout=30))
        streams[-1].request("GET", "/api/events")
        assert streams[-1].getresponse().status == 200
    start = time.monotonic()
    process.send_signal(number)
    _, complaints = process.communicate(timeout=30)
    assert (process.returncode, "Traceback" in complaints) == (code, False), complaints
    assert time.monotonic() - start < 15
    for stream in streams:
        stream.close()


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    result = cclm("board", tmp_path / "typo", folder=tmp_path)
    assert result.code == 2
    assert "no such folder; give a run, a work folder, or a folder above" in result.stderr


@pytest.mark.slow
def test_a_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    process, port = started(tmp_path)
    try:
        result = cclm("board", tmp_path, "--no-open", "--port", str(port), folder=tmp_path)
        assert result.code == 2
        assert f"cannot listen on 127.0.0.1 port {port}" in result.stderr
        assert "Traceback" not in result.stderr
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_without_its_packages_the_extra_is_named(tmp_path: Path) -> None:
    program = "import sys; sys.modules['uvicorn'] = None; from cclm.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", program, "board", str(tmp_path), "--no-open"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (1, "cclm: this command needs uvicorn: pip install 'ccl-m[board]'\n")


def test_the_extra_board_is_enough() -> None:
    program = "import sys; sys.modules |= dict.fromkeys(sys.argv[1:]); import cclm.report.board"
    others = ("torch", "safetensors", "sacrebleu", "ctranslate2", "tensorboard", "trackio", "transformers", "datasets")
    subprocess.run([sys.executable, "-c", program, *others], check=True)


@pytest.mark.slow
def test_a_board_beside_a_training_ends_when_the_training_is_gone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "cclm", "board", str(tmp_path / "not-yet"), "--no-open", "--beside"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    assert process.stderr is not None
    found = re.search(r":(\d+)/", process.stderr.readline())
    assert found
    assert ask(int(found[1])) == 200
    board_run(tmp_path / "not-yet", "run", up_to=1000)  # now it is there
    process.communicate(timeout=30)  # which closes the pipe
    assert process.returncode == 0


SMALL = [
    "data.high_resource=[aze]",
    "data.low_resource=[bel]",
    "vocabulary.pieces=200",
    "graph.k=100",
    "curriculum.every=2",
]
SMALL += ["model={layers: 1, heads: 2, width: 16, feed_forward: 16, dropout: 0.1}", "benchmark.file=losses.json"]
SMALL += ["training.max_steps=4", "training.validate_every=2", "training.warmup=2", "work=here"]


@pytest.mark.slow
def test_a_training_with_a_board_beside_it_is_the_same_training(tmp_path: Path) -> None:
    (tmp_path / "losses.json").write_text('{"version": 1, "losses": {"aze": 4.0, "bel": 5.0}}')
    shown = cclm("train", "phrasebook", *SMALL, "--board", folder=tmp_path)
    assert (shown.code, shown.stdout) == (0, "here/runs/phrasebook\n"), shown
    found = re.search(r"the board of here is at http://127\.0\.0\.1:(\d+)/", shown.stderr)
    assert found, shown
    with pytest.raises(ConnectionRefusedError):
        ask(int(found[1]))  # it has ended with the training
    alone = cclm("train", "phrasebook", *SMALL, "name=alone", folder=tmp_path)
    assert alone.code == 0
    runs = tmp_path / "here" / "runs"
    assert (runs / "alone" / "log.jsonl").read_bytes() == (runs / "phrasebook" / "log.jsonl").read_bytes()
