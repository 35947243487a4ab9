"""External scorers: the protocol, errors, and their scores in scores.json and in the terminal."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from corpora import write_tsv
from trained_run import trained_run

from cclm.errors import ConfigError, DataError
from cclm.evaluation.evaluate import Evaluation
from cclm.evaluation.external import parse_scorers, segment_scores
from cclm.evaluation.scores import read_lines
from cclm.formats.scores import Scores

ROOT = Path(__file__).parent.parent.parent


def trained(folder: Path, *changes: str) -> Path:
    write_tsv(folder / "text", train=80)
    return trained_run(folder, "training.max_steps=2", "training.validate_every=1", *changes)


def put(run: Path, pair: str, lines: list[str]) -> None:
    (run / "translations" / f"test.{pair}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


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
def test_more_data_than_a_pipe_buffer_holds_is_scored(program: str) -> None:
    """Scorers may read everything first, or answer line by line."""
    segments = [{"hypothesis": "x" * (i % 3000)} for i in range(2000)]
    assert segment_scores(python(program), segments) == [i % 3000 for i in range(2000)]


def test_stderr_of_the_scorer_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    segment_scores(python(READ + "print('loading the model', file=sys.stderr)"), [])
    assert capfd.readouterr().err == "loading the model\n"


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("print('hello')", "output line 1 is 'hello'; expected {\"id\""),
        ("print()", "output line 1 is ''"),
        ("print('[1, 2]')", r"output line 1 is '\[1, 2\]'"),
        ("print('{\"id\": 0}')", "output line 1"),
        ("print('{\"id\": 0, \"score\": \"0.5\"}')", "output line 1"),
        ("print('{\"id\": 0, \"score\": true}')", "output line 1"),
        ("print('{\"id\": 0, \"score\": NaN}')", "output line 1"),
        ("print('{\"id\": 0, \"score\": 1' + '0' * 400 + '}')", "output line 1"),
        ("print('{\"id\": \"0\", \"score\": 1}')", "output line 1"),
        ("sys.stdout.buffer.write(bytes([255, 10]))", "output line 1"),
        ("print('{\"id\": 0, \"score\": 1}\\n{\"id\": 7, \"score\": 1}')", "line 2 has id 7, but there are 3"),
        ("print('{\"id\": 0, \"score\": 1}\\n{\"id\": 0, \"score\": 1}')", "line 2 has id 0, which already has"),
        ("print('{\"id\": 1, \"score\": 1}')", "no answer for 2 of 3 segments, the first is id 0; expected"),
        ("sys.exit(3)", "failed with exit status 3; its messages are above"),
    ],
)  # fmt: skip
def test_an_invalid_answer_is_refused(program: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        segment_scores(python(READ + program), [{"hypothesis": "a"}] * 3)


def test_a_line_without_end_is_refused() -> None:
    endless = "import sys\nwhile True: sys.stdout.write('x' * 1000)"
    with pytest.raises(ValueError, match=r"printed [\d,]+ bytes without a newline; expected"):
        segment_scores(python(endless), [{"hypothesis": "a"}])


@pytest.mark.parametrize(
    "program", ["time.sleep(60)", "os.close(1); time.sleep(60)"], ids=["silent", "without standard output"]
)
def test_a_scorer_that_hangs_is_stopped_at_the_time_limit(program: str) -> None:
    with pytest.raises(ValueError, match=r"not finished after 0.5 s; --scorer-timeout sets the limit"):
        segment_scores(python(f"import os, time; {program}"), [{"hypothesis": "a"}], timeout=0.5)


def test_a_scorer_that_ends_without_reading_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"no answer for 5,000 of 5,000 segments"):
        segment_scores(python("pass"), [{"hypothesis": "x" * 1000}] * 5000)


def test_a_scorer_with_an_invalid_answer_is_killed_with_its_children(tmp_path: Path) -> None:
    """The scorer has a child that never ends and keeps the pipes open."""
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
        ("no-such-program --fast", "no-such-program: No such file or directory; give a program on the PATH"),
        ("python 'unclosed", "not a command: No closing quotation"),
        ("  ", "the command is empty"),
    ],
)
def test_a_command_that_cannot_be_started_is_an_error(command: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        segment_scores(command, [{"hypothesis": "a"}])


def test_commands_run_without_a_shell(tmp_path: Path) -> None:
    program = "import sys; print(sys.argv[1:], file=open(sys.argv[1], 'w'))"
    out = str(tmp_path / "said")
    segment_scores(f"{python(program)} {out} '$HOME | x' *", [])
    assert Path(out).read_text() == f"{[out, '$HOME | x', '*']}\n"


# --- in scores.json


def example(folder: Path) -> str:
    """The scorer of docs/scoring.md, as a command."""
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "scoring.md").read_text(), flags=re.DOTALL)
    (folder / "exact.py").write_text(program)
    return shlex.join([sys.executable, str(folder / "exact.py")])


@pytest.mark.slow
def test_external_scores_are_means_over_sentences_and_kept_with_the_translations(tmp_path: Path) -> None:
    run = trained(tmp_path)
    evaluation = Evaluation(run)
    evaluation.translate()
    references = read_lines(run / "translations/test.aze-eng.reference.txt")
    put(run, "aze-eng", [*references[:5], *(line + " x" for line in references[5:])])
    command = [sys.executable, "-m", "cclm", "score", str(run), "--scorer", f"exact={example(tmp_path)}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].split() == ["BLEU", "95", "%", "chrF", "exact"]
    (row,) = (line.split() for line in done.stdout.splitlines() if line.startswith("aze"))
    assert row[-1] == "0.25"
    scores = json.loads((run / "scores.json").read_text())
    assert {lang: row["exact"] for lang, row in scores["languages"].items()} == {
        "tur": 0,
        "por": 0,
        "aze": 0.25,
        "glg": 0,
    }
    assert scores["signature"]["scorers"] == {"exact": example(tmp_path)}
    assert "off_target" not in scores["languages"]["aze"]  # all translations are into English

    assert evaluation.scored() == evaluation.score() == Scores.parse(json.dumps(scores), "scores.json")
    fields = ["source", "language", "source_language", "target_language"]
    told = f"import json, sys; [print(json.dumps({{'id': s['id'], 'score': len(''.join(s[f] for f in {fields}))}}))"
    told += " for s in map(json.loads, sys.stdin)]"
    both = evaluation.score({"told": shlex.join([sys.executable, "-c", told])})
    assert set(both.signature.scorers) == {"exact", "told"}
    sources = read_lines(run / "translations/test.aze-eng.source.txt")
    assert both.languages["aze"]["told"] == pytest.approx(sum(map(len, sources)) / 20 + len("azeazeeng"))
    assert both.languages["aze"]["exact"] == 0.25

    before = (run / "scores.json").read_bytes()
    with pytest.raises(DataError, match=r"^scorer mine \(false\): failed with exit status 1; its messages are above$"):
        evaluation.score({"mine": "false"})
    assert (run / "scores.json").read_bytes() == before
    damaged = json.loads(before)
    del damaged["languages"]["aze"]["told"]
    (run / "scores.json").write_text(json.dumps(damaged))
    assert set(evaluation.score().signature.scorers) == {"exact"}
    best = run / "checkpoints" / "best"
    best.write_text("step-00000001\n" if "2" in best.read_text() else "step-00000002\n")
    assert evaluation.score().signature.scorers == {}


def test_scorers_are_parsed_as_name_and_command() -> None:
    assert parse_scorers([]) == {}
    assert parse_scorers(["comet-22=python x.py --a=b", "b=c"]) == {"comet-22": "python x.py --a=b", "b": "c"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["comet"], "--scorer comet: expected NAME=COMMAND, the name from letters, digits"),
        (["comet= "], "--scorer comet= : expected NAME=COMMAND"),
        (["=x"], "--scorer =x: expected NAME=COMMAND"),
        (["a b=x"], "--scorer a b=x: expected NAME=COMMAND"),
        (["chrf=x"], "--scorer chrf=x: the name 'chrf' is already used; choose another"),
        (["a=x", "a=y"], "--scorer a=y: the name 'a' is already used"),
    ],
)
def test_an_invalid_or_used_scorer_name_is_refused(given: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_scorers(given)
