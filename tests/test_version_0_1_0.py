"""What version 0.1.0 has left on disk opens, goes on and is reported; fixtures/make_version_0_1_0.py made it."""

import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from arithmetic import arithmetic
from warm_commands import warm

pytestmark = pytest.mark.slow
FIXTURE = Path(__file__).parent / "fixtures" / "version-0.1.0"
RUN, STUDY, SWEEP = "tiny/runs/tiny", "tiny/studies/two-arms", "tiny/sweeps/grid"
INTERRUPTED = ["train", "recipe.yaml", "name=interrupted"]
SWEPT = ["sweep", "recipe.yaml", "name=grid", "training.max_steps=60", "--threshold", "0.95", "--threshold", "9"]
TRAINED = ("prepared/**/*", "runs/**/checkpoints/**/*", "runs/**/log.jsonl", "runs/**/timing.jsonl")
"""Whoever prepares or trains writes to one of these, in the work folder."""
TRANSLATED = ("runs/*/translations/*", "runs/*/scores.json", "runs/*/ctranslate2/**/*")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of what version 0.1.0 has left, elsewhere: all paths in it are relative."""
    return shutil.copytree(FIXTURE, tmp_path / "copied")


def cclm(folder: Path, *arguments: str, status: int = 0) -> "subprocess.CompletedProcess[str]":
    """A command in this folder, which must end with this status."""
    done = warm(*arguments, folder=folder)
    assert done.returncode == status, done.stderr
    return done


def files(folder: Path, *patterns: str) -> dict[str, tuple[int, bytes]]:
    """When each file of the work folder was last written, and what is in it, by the name that version 0.1.0 gave it."""
    work = folder / "tiny"
    places = [(name, work / name) for name in os.listdir(work) if name != "cache"]
    places += [("prepared", path) for path in work.glob("cache/prepared/*") if path.is_dir()]
    places += [("runs/bitext", path) for path in work.glob("cache/benchmark/*") if path.is_dir()]
    found = {}
    for name, place in places:
        for path in place.rglob("*") if place.is_dir() else ():
            old = Path(name) / path.relative_to(place)
            if path.is_file() and any(fnmatch(old.as_posix(), pattern.replace("**/", "")) for pattern in patterns):
                found[str(old)] = (path.stat().st_mtime_ns, path.read_bytes())
    assert found
    return found


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def differences(before: Any, now: Any, tolerance: float = 0.0, place: str = "") -> list[str]:
    """Where two JSON values differ; a later version may have added keys."""
    if isinstance(before, dict) and isinstance(now, dict):
        missing = [f"{place}.{key} is missing" for key in before.keys() - now.keys()]
        shared = [key for key in before if key in now]
        return missing + [d for key in shared for d in differences(before[key], now[key], tolerance, f"{place}.{key}")]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        pairs = enumerate(zip(before, now, strict=True))
        return [d for i, pair in pairs for d in differences(*pair, tolerance, f"{place}[{i}]")]
    numbers = isinstance(before, float) and isinstance(now, float)
    same = math.isclose(before, now, rel_tol=tolerance, abs_tol=tolerance) if numbers else before == now
    return [] if same else [f"{place}: {before!r} -> {now!r}"]


def test_every_run_is_listed_with_its_state(folder: Path) -> None:
    listed = json.loads(cclm(folder, "runs", "tiny", "--json").stdout)
    short = [f"{name}.{seed}" for name in ("ccl-m", "uniform") for seed in (1, 2)]
    short += [f"grid-{aggregate}-{threshold}" for aggregate in ("avg", "max") for threshold in ("0.95", "9")]
    expected = {f"runs/{name}": ("finished", 60) for name in (*short, "bitext/aze", "bitext/tur")}
    expected |= {"runs/tiny": ("finished", 120), "runs/interrupted": ("interrupted", 85)}
    assert {row["run"]: (row["state"], row["step"]) for row in listed if row["step"] is not None} == expected
    bleu = {row["run"]: row["bleu"] for row in listed if row["bleu"]}
    assert bleu["runs/tiny"] == read(FIXTURE / RUN / "scores.json")["means"]


def test_the_scores_of_the_finished_run_are_the_same(folder: Path) -> None:
    trained = files(folder, *TRAINED)
    scores = json.loads(cclm(folder, "score", RUN, "--json").stdout)
    assert differences(read(FIXTURE / RUN / "scores.json"), scores) == []
    assert differences(scores, read(folder / RUN / "scores.json")) == []
    assert files(folder, *TRAINED) == trained


def test_the_best_checkpoint_translates_as_it_did(folder: Path) -> None:
    for name in ("translations", "ctranslate2"):
        shutil.rmtree(folder / RUN / name)
    trained = files(folder, *TRAINED)
    cclm(folder, "translate", RUN)
    for before in (FIXTURE / RUN / "translations").glob("test.*.txt"):
        assert (folder / RUN / "translations" / before.name).read_text() == before.read_text()
    assert files(folder, *TRAINED) == trained


def test_an_export_without_checksums_is_made_again_and_translates_the_same(folder: Path) -> None:
    there = FIXTURE / RUN / "translations"
    shutil.copy(there / "test.aze-eng.source.txt", folder / "aze.txt")
    cclm(folder, "translate", RUN, "--source", "aze", "--input", "aze.txt", "--output", "eng.txt")
    assert (folder / "eng.txt").read_text() == (there / "test.aze-eng.txt").read_text()
    assert all("sha256" in facts for facts in read(folder / RUN / "ctranslate2/float32/cclm.json")["files"].values())


def test_the_run_is_reported_with_its_scores(folder: Path) -> None:
    (folder / RUN / "report.html").unlink()
    cclm(folder, "report", RUN)
    shown = [float(number) for number in numbers(folder / RUN / "report.html")]
    for row in read(FIXTURE / RUN / "scores.json")["languages"].values():
        for score in (row["bleu"], row["bleu_low"], row["bleu_high"], row["chrf"]):
            assert any(math.isclose(abs(score), number, rel_tol=1e-4) for number in shown), score


@pytest.mark.parametrize("place", [STUDY, SWEEP])
def test_a_study_and_a_sweep_are_reported_with_their_numbers(folder: Path, place: str) -> None:
    before = numbers(FIXTURE / place / "report.md")
    for page in (folder / place).glob("report.*"):
        page.unlink()
    cclm(folder, "report", place)
    assert before - numbers(folder / place / "report.md") == set()
    assert (folder / place / "report.html").stat().st_size > 10_000


def numbers(page: Path) -> set[str]:
    """The numbers with decimals on a page, which are its results."""
    found = set(re.findall(r"\d+\.\d+", page.read_text(encoding="utf-8")))
    assert len(found) >= 5
    return found


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that was interrupted, after the same command once more."""
    copied = shutil.copytree(FIXTURE, tmp_path_factory.mktemp("resumed") / "copied")
    cclm(copied, *INTERRUPTED)
    return copied / "tiny" / "runs" / "interrupted"


def test_the_interrupted_run_goes_on_from_its_last_step(resumed: Path) -> None:
    """From the start it would come to the same end: only the clock tells."""
    before = (FIXTURE / "tiny" / "runs" / "interrupted" / "timing.jsonl").read_text()
    now = (resumed / "timing.jsonl").read_text()
    steps = [json.loads(line)["step"] for line in now.removeprefix(before).splitlines()]
    assert now.startswith(before)
    assert min(step for step in steps if step) == 90


def test_the_interrupted_run_ends_as_version_0_1_0_ended_it(resumed: Path) -> None:
    """The same bytes on a machine that computes like that one; elsewhere the last bits of the numbers may differ.

    A run that is trained here without interruption would be no measure elsewhere: most of this one is from there.
    """
    expected = read(FIXTURE / "expected.json")
    log = [json.loads(line) for line in (resumed / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    recorded = [{name: fact for name, fact in event.items() if name != "reason"} for event in expected["log"]]
    assert differences(recorded, log, tolerance=1e-4) == []  # a reason is a sentence with rounded numbers
    if arithmetic() == expected["arithmetic"]:
        checkpoint = resumed / "checkpoints" / expected["checkpoint"]
        paths = {name: (resumed if name == "log.jsonl" else checkpoint) / name for name in expected["sha256"]}
        assert {name: hashlib.sha256(p.read_bytes()).hexdigest() for name, p in paths.items()} == expected["sha256"]


def test_the_interrupted_run_refuses_other_settings(folder: Path) -> None:
    before = files(folder, *TRAINED)
    said = cclm(folder, *INTERRUPTED, "training.learning_rate=0.02", status=1).stderr
    assert "learning_rate: 0.03 -> 0.02" in said
    assert files(folder, *TRAINED) == before


@pytest.mark.parametrize(
    ("command", "result"),
    [
        (["run", "recipe.yaml"], f"{RUN}/scores.json"),
        (["study", "study.yaml"], f"{STUDY}/results.json"),
        (SWEPT, f"{SWEEP}/sweep.json"),
    ],
    ids=["run", "study", "sweep"],
)
def test_what_is_done_is_not_done_again(folder: Path, command: list[str], result: str) -> None:
    done = files(folder, *TRAINED, *TRANSLATED)
    cclm(folder, *command)
    assert files(folder, *TRAINED, *TRANSLATED) == done
    found = differences(read(FIXTURE / result), read(folder / result))
    # Version 0.1.0 did not count the tokens of the steps after the last train event: 10 of 60.
    assert [difference for difference in found if ".tokens: " not in difference] == []


SMALL = [
    "data.high_resource=[ces]", "data.low_resource=[slk]", "vocabulary.pieces=200", "work=work",
    "benchmark.max_steps=2",
    "model={layers: 1, heads: 2, width: 16, feed_forward: 32}", "training.max_steps=4", "training.validate_every=2",
    "training.batch_tokens=200", "curriculum.every=2", "curriculum.dev_sample=8", "translation.beam=1",
]  # fmt: skip


def of_version(version: str, folder: Path, *arguments: str) -> str:
    """What a command says on stderr when the package has another version."""
    program = f"import cclm; cclm.__version__ = {version!r}; from cclm.cli import main; main()"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stderr


def test_another_version_finds_everything_that_was_made_of_the_phrasebook(tmp_path: Path) -> None:
    """The text of the built-in corpus is the same: nothing is prepared or trained again, and the run resumes."""
    of_version("0.1.0", tmp_path, "run", "phrasebook", *SMALL)
    manifest = read(tmp_path / "work/prepared/manifest.json")
    assert manifest["made_from"]["cclm"] == "0.1.0"  # as that version wrote it
    again = of_version("0.2.0", tmp_path, "run", "phrasebook", *SMALL)
    assert len(re.findall("skipped: nothing has changed", again)) == 7
    of_version("0.2.0", tmp_path, "train", "phrasebook", *SMALL, "training.max_steps=6")
    log = (tmp_path / "work/runs/phrasebook/log.jsonl").read_text(encoding="utf-8")
    assert [json.loads(line)["step"] for line in log.splitlines() if '"stopped"' in line][-1] == 6
