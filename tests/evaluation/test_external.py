"""The conversation with a scorer: its answers, its failures, and that neither side waits for the other forever."""

import shlex
import sys
from pathlib import Path

import pytest

from cclm.evaluation.external import segment_scores
from cclm.evaluation.off_target import off_target

READ = "import json, sys; asked = [json.loads(line) for line in sys.stdin]; "
LENGTH = READ + "[print(json.dumps({'id': a['id'], 'score': len(a['hypothesis'])})) for a in reversed(asked)]"


def python(program: str) -> str:
    return shlex.join([sys.executable, "-c", program])


def test_scores_come_back_in_the_order_of_the_segments() -> None:
    lines = ["one", "", "three \u2028 \"quoted\" 'so'", "čtyři", "\U0001f600"]
    assert segment_scores(python(LENGTH), [{"hypothesis": line} for line in lines]) == [len(line) for line in lines]
    assert segment_scores(python(LENGTH), []) == []


AT_ONCE = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"id": asked["id"], "score": len(asked["hypothesis"])}), flush=True)
"""


@pytest.mark.parametrize("program", [LENGTH, AT_ONCE], ids=["all-first", "line-by-line"])
def test_more_than_a_pipe_holds_goes_through(program: str) -> None:
    """Whether it reads everything first or answers line by line."""
    segments = [{"hypothesis": "x" * (i % 3000)} for i in range(2000)]
    assert segment_scores(python(program), segments) == [i % 3000 for i in range(2000)]


def test_what_it_says_on_stderr_is_seen(capfd: pytest.CaptureFixture[str]) -> None:
    segment_scores(python(READ + "print('loading the model', file=sys.stderr)"), [])
    assert capfd.readouterr().err == "loading the model\n"


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("print('hello')", "line 1 of its answers is 'hello'; expected {\"id\""),
        ("print()", "line 1 of its answers is ''"),
        ("print('[1, 2]')", r"line 1 of its answers is '\[1, 2\]'"),
        ("print('{\"id\": 0}')", "line 1 of its answers"),
        ("print('{\"id\": 0, \"score\": \"0.5\"}')", "line 1 of its answers"),
        ("print('{\"id\": 0, \"score\": true}')", "line 1 of its answers"),
        ("print('{\"id\": 0, \"score\": NaN}')", "line 1 of its answers"),
        ("print('{\"id\": 0, \"score\": 1' + '0' * 400 + '}')", "line 1 of its answers"),
        ("print('{\"id\": \"0\", \"score\": 1}')", "line 1 of its answers"),
        ("sys.stdout.buffer.write(bytes([255, 10]))", "line 1 of its answers"),
        ("print('{\"id\": 0, \"score\": 1}\\n{\"id\": 7, \"score\": 1}')", "line 2 .* about id 7, which it was not"),
        ("print('{\"id\": 0, \"score\": 1}\\n{\"id\": 0, \"score\": 1}')", "line 2 .* about id 0, which it has ans"),
        ("print('{\"id\": 1, \"score\": 1}')", "no answer for 2 of 3 segments, the first of them id 0; it must answer"),
        ("sys.exit(3)", "ended with exit status 3; it may have said why above"),
    ],
)  # fmt: skip
def test_an_answer_that_is_none_is_refused(program: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        segment_scores(python(READ + program), [{"hypothesis": "a"}] * 3)


def test_a_scorer_that_leaves_without_reading_is_told() -> None:
    with pytest.raises(ValueError, match=r"no answer for 5,000 of 5,000 segments"):
        segment_scores(python("pass"), [{"hypothesis": "x" * 1000}] * 5000)


def test_a_scorer_that_answers_nonsense_is_ended_with_what_it_started(tmp_path: Path) -> None:
    """Its child neither reads nor ends by itself, and holds the pipes open."""
    child = f"import time; open({str(tmp_path / 'begun')!r}, 'w').close(); time.sleep(60)"
    program = f"""
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {child!r}])
while not os.path.exists({str(tmp_path / "begun")!r}):
    time.sleep(0.01)
print("nonsense", flush=True)
time.sleep(60)
"""
    with pytest.raises(ValueError, match="'nonsense'"):
        segment_scores(python(program), [{"hypothesis": "x" * 1000}] * 5000)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("no-such-program --fast", "no-such-program: No such file or directory; give a program that is on the path"),
        ("python 'unclosed", "not a command: No closing quotation"),
        ("  ", "not a command: it is empty"),
    ],
)
def test_what_cannot_be_started_is_told(command: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        segment_scores(command, [{"hypothesis": "a"}])


def test_no_shell_stands_between(tmp_path: Path) -> None:
    program = "import sys; print(sys.argv[1:], file=open(sys.argv[1], 'w'))"
    out = str(tmp_path / "said")
    segment_scores(f"{python(program)} {out} '$HOME | x' *", [])
    assert Path(out).read_text() == f"{[out, '$HOME | x', '*']}\n"


def test_the_off_target_rate_leaves_empty_lines_out() -> None:
    def identify(line: str) -> str:
        return "por" if "ão" in line else "glg"

    assert off_target(["o pan", "", "o pão", " ", "non", "son"], "glg", identify) == 1 / 4
    assert off_target(["o pan"], "por", identify) == 1.0
    assert off_target(["", "\t"], "glg", identify) is None
