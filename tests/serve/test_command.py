"""`cclm serve` as a command: its address, its exit codes, its end under load, and what it refuses."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from translation_server import ServedModels

import cclm as library
from cclm.cli.entry import cli
from cclm.errors import ConfigError, DataError
from cclm.serve.models import open_models
from cclm.translation.package import export_run


def started(*arguments: str | Path) -> tuple[subprocess.Popen[str], ServedModels]:
    """A service in a process of its own."""
    command = [sys.executable, "-m", "cclm", "serve", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.fullmatch(r"serving (.+) at http://127\.0\.0\.1:(\d+)/\n", line)
    assert found, (line, process.communicate())
    return process, ServedModels(int(found[2]))


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_under_load_ends_it_after_what_it_has_begun(both_ways: Path, number: int, code: int) -> None:
    library.load(both_ways)  # exported before
    process, found = started(both_ways, "--threads", "1")
    answers: list[object] = []
    is_sent = threading.Event()

    def ask() -> None:
        try:
            while True:
                status, _, answer = found.post({"text": "su ev\n" * 50, "source": "aze"})
                answers.append(status if status != 200 else len(answer["translations"][0]["sentences"]))
                is_sent.set()
        except OSError:
            pass  # it no longer listens, or closed the connection before the request was sent

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert is_sent.wait(30)
    start = time.monotonic()
    process.send_signal(number)
    printed = process.communicate(timeout=30)[1]
    for thread in threads:
        thread.join(30)
    assert (process.returncode, printed.strip()) == (code, "cclm: interrupted")
    assert time.monotonic() - start < 20
    assert set(answers) == {50}  # whatever was accepted was answered, and completely


@pytest.mark.slow
def test_a_service_of_one_export_and_one_run(both_ways: Path, into_english: Path) -> None:
    library.load(into_english)
    process, found = started(f"a={export_run(both_ways, 'ctranslate2')}", f"b={into_english}", "--max-characters", "5")
    try:
        assert json.loads(found.ask("/health")[2])["models"] == ["a", "b"]
        assert found.post({"text": "123456", "source": "aze", "model": "a"})[0] == 413
        assert found.post({"text": "su", "source": "aze", "model": "b"})[0] == 200
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_what_cannot_be_served_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises((ConfigError, DataError), match=str(tmp_path / "empty")):
        open_models([str(tmp_path / "empty")])
    assert CliRunner().invoke(cli, ["serve"]).exit_code == 2
    shown = CliRunner().invoke(cli, ["serve", "--help"])
    assert shown.exit_code == 0
    options = "--host --port --token CCLM_TOKEN --threads --quantization --max-characters --timeout"
    assert [option for option in options.split() if option not in shown.output] == []


def test_without_its_packages_the_extra_is_named(tmp_path: Path) -> None:
    program = "import sys; sys.modules['uvicorn'] = None; from cclm.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", program, "serve", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert (result.returncode, result.stderr) == (1, "cclm: this command needs uvicorn: pip install 'ccl-m[serve]'\n")


def test_an_export_is_served_without_torch(both_ways: Path) -> None:
    program = (
        "import sys; sys.modules |= dict.fromkeys(('torch', 'safetensors', 'sacrebleu', 'transformers'))\n"
        "import cclm.serve.http; from cclm.serve.models import open_models\n"
        "open_models([sys.argv[1]])['both-ways'].load()"
    )
    subprocess.run([sys.executable, "-c", program, str(export_run(both_ways, "ctranslate2"))], check=True)
