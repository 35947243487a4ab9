"""The command line as a program: exit codes, messages without tracebacks, help."""

import os
import signal
import subprocess
import sys
import time

import pytest


def cclm(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cclm", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_help_lists_the_commands() -> None:
    result = cclm("--help")
    assert result.returncode == 0
    assert "simulate" in result.stdout
    assert cclm("simulate", "-h").stdout.startswith("Usage: cclm simulate")


def test_version() -> None:
    import cclm as package

    assert cclm("--version").stdout == f"cclm, version {package.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulat"], "No such command 'simulat'"),
        (["simulate", "--jsn"], "No such option"),
        (["simulate", "nope"], "cclm: no scenario 'nope'"),
        (["simulate", "related", "curriculum.gate.name=competance"], "must be one of 'all', 'competence', 'step'"),
        (["run", "phrasebook", "--json"], "--json goes with --dry-run"),
        (["simulate", "related", "max_steps"], "cclm: 'max_steps' is not an override; write key=value"),
    ],
)
def test_wrong_usage_ends_with_2_and_a_message(arguments: list[str], message: str) -> None:
    result = cclm(*arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("missing", ["sentencepiece", "sacrebleu", "ctranslate2"])
def test_what_is_not_installed_is_named_with_the_extra_that_brings_it(missing: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; from cclm.cli import main; main()"
    command = [sys.executable, "-c", program, "score", "."]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr == f"cclm: this command needs {missing}: pip install 'ccl-m[train]'\n"


def test_an_interrupt_ends_with_130() -> None:
    ready = "import sys, cclm.cli; print(flush=True); sys.argv = ['cclm', *sys.argv[1:]]; cclm.cli.main()"
    command = [sys.executable, "-c", ready, "simulate", "thousand", "curriculum.every=10"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        process.stdout.readline()
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        try:
            _, stderr = process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()  # or leaving the block would wait for ever
            raise
    assert process.returncode == 130
    assert "cclm: interrupted" in stderr
    assert "Traceback" not in stderr


def test_a_reader_that_leaves_early_causes_no_complaint() -> None:
    shell = f"{sys.executable} -m cclm simulate related --json --no-thresholds | head -c 10"
    result = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True)
    assert (result.stdout, result.stderr) == ('{"version"', "")


def test_output_can_be_piped_without_a_terminal() -> None:
    environment = {**os.environ, "TERM": "dumb"}
    command = [sys.executable, "-m", "cclm", "simulate", "--no-thresholds"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "\x1b" not in result.stdout
    assert result.stderr == ""
