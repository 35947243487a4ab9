"""A training that was stopped, however and wherever, goes on to the same bytes."""

import json
import os
import random
import re
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from exact_runs import Runs
from forks import send

from cclm.training.lock import Lock, owner_of

SOURCE = Path(__file__).parent.parent.parent / "src" / "cclm" / "training"
PLACES = [
    place
    for file in ("session.py", "trainer.py", "checkpoint.py")
    for place in re.findall(r'fault\("(\w+:\w+)"\)', (SOURCE / file).read_text())
]
"""Every place of ours: before the first step, around probes and validations, in a save."""
KILLS = 8


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Trainings, of which one has gone through without a stop: `whole`."""
    made = Runs(tmp_path_factory.mktemp("exact"))
    finished = made.train("whole")
    assert finished.code == 0, finished.output
    yield made
    made.forks.close()


def test_two_runs_are_equal_to_the_byte(runs: Runs) -> None:
    assert runs.train("again").code == 0
    assert runs.result("again") == runs.result("whole")


def test_the_log_has_every_kind_of_event(runs: Runs) -> None:
    events = [json.loads(line) for line in runs.result("whole")["log"].splitlines()]
    assert {event["event"] for event in events} >= {"train", "probe", "validation", "admitted", "saved", "stopped"}
    admitted = [event for event in events if event["event"] == "admitted"]
    assert {event["language"] for event in admitted} == {"aze", "glg"}
    assert all(event["hrls_competence"] >= event["threshold"] == 0.3 for event in admitted)
    probe = next(event for event in events if event["event"] == "probe")
    assert set(probe) == {"event", "step", "dev_loss", "competence", "hrls_competence", "weights", "admitted"}


@pytest.mark.slow
def test_killed_at_every_place_in_turn_it_goes_on_to_the_same_bytes(runs: Runs) -> None:
    for place in PLACES:
        assert runs.train("tour", fault=f"{place},1,SIGKILL").code == -signal.SIGKILL, place
    assert runs.train("tour").code == 0
    assert runs.result("tour") == runs.result("whole")
    assert list((runs.folder("tour") / "checkpoints").glob(".*")) == []
    assert {path.name for path in runs.folder("tour").iterdir()} == {
        path.name for path in runs.folder("whole").iterdir()
    }


@pytest.mark.slow
@pytest.mark.parametrize("place", [place for place in PLACES if place != "begin:described"])
def test_killed_on_its_last_steps_it_goes_on_to_the_same_bytes(runs: Runs, place: str) -> None:
    """Nothing comes after these that would mend what a kill has left undone."""
    name = f"last-{place.replace(':', '-')}"
    runs.copy("whole", name)
    shutil.rmtree(runs.folder(name) / "checkpoints" / "step-00000060")
    (runs.folder(name) / "checkpoints" / "best").write_text("step-00000048\n")
    assert runs.train(name, fault=f"{place},1,SIGKILL").code == -signal.SIGKILL
    assert runs.train(name).code == 0
    assert runs.result(name) == runs.result("whole")


@pytest.mark.slow
def test_killed_again_and_again_it_goes_on_to_the_same_bytes(runs: Runs) -> None:
    """One run, killed at moments that nobody chose: wherever it has got to, or before, at a place of ours."""
    seed = random.SystemRandom().randrange(10**6)
    chance = random.Random(seed)
    whole = runs.result("whole")
    moments = sorted(chance.uniform(0, 0.9) * len(whole["log"]) for _ in range(KILLS))
    places = [*PLACES, "probe", "validation"]
    faults = [
        f"{chance.choice(places)},{chance.randint(1, 3)},SIGKILL" if chance.random() < 0.5 else "" for _ in moments
    ]
    told = f"moments {[round(moment) for moment in moments]}, faults {faults}: random.Random({seed})"
    for moment, fault in zip(moments, faults, strict=True):
        pid = runs.start("chain", fault=fault)
        _wait_for(runs.folder("chain") / "log.jsonl", moment, pid)
        send(pid, signal.SIGKILL)
        ended = runs.forks.finish()
        assert ended.code == -signal.SIGKILL, f"{told}: {ended.output}"
    finished = runs.train("chain")
    assert finished.code == 0, f"{told}: {finished.output}"
    assert runs.result("chain") == whole, told


def _wait_for(log: Path, length: float, pid: int) -> None:
    """Returns when the log has grown so long, or nobody is there to write it."""
    while Path(f"/proc/{pid}").exists() and (not log.exists() or log.stat().st_size < length):
        time.sleep(0.002)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "moment"),
    [
        ("SIGTERM", "probe,2"),
        ("SIGINT", "probe,2"),
        ("SIGTERM", "validation,3"),
        ("SIGINT", "validation,3"),
        ("SIGTERM", "bleu,6"),
        ("SIGTERM", "save:before_rename,2"),
        ("SIGUSR1", "probe,2"),
        ("SIGUSR1", "validation,3"),
        ("SIGUSR1", "save:before_rename,2"),
    ],
)
def test_told_to_stop_it_saves_and_goes_on_to_the_same_bytes(runs: Runs, name: str, moment: str) -> None:
    whole, settings = "whole", []  # type: tuple[str, list[str]]
    if moment.startswith("bleu"):  # of the second language in the second validation
        whole, settings = translating(runs)
    run = f"{name}-{moment[:4]}"
    stopped = runs.train(run, *settings, fault=f"{moment},{name}")
    assert stopped.code == {"SIGTERM": 143, "SIGINT": 130, "SIGUSR1": 138}[name], stopped.output
    assert "interrupted; run the same command to continue" in stopped.output
    assert "Traceback" not in stopped.output
    progress = json.loads(_newest(runs.folder(run) / "checkpoints", "progress.json").read_text())
    waiting = {"probe": "probe", "validation": "validate", "bleu": "validate"}.get(moment.split(",")[0])
    assert waiting is None or progress["due"][0] == waiting  # it was in the middle of that
    assert runs.train(run, *settings).code == 0
    assert runs.result(run) == runs.result(whole)


@pytest.mark.slow
def test_killed_while_it_translates_it_goes_on_to_the_same_bytes(runs: Runs) -> None:
    whole, settings = translating(runs)
    assert runs.train("killed-bleu", *settings, fault="bleu,6,SIGKILL").code == -signal.SIGKILL
    assert runs.train("killed-bleu", *settings).code == 0
    assert runs.result("killed-bleu") == runs.result(whole)
    assert not list(runs.folder("killed-bleu").glob("ctranslate2*"))


def translating(runs: Runs) -> tuple[str, list[str]]:
    """A whole run that measures BLEU, and its settings."""
    whole, settings = "whole-bleu", ["training.select_on=bleu", "training.max_steps=24"]
    if not runs.folder(whole).exists():
        assert runs.train(whole, *settings).code == 0
    return whole, settings


def _newest(checkpoints: Path, file: str) -> Path:
    return sorted(checkpoints.glob("step-*"))[-1] / file


@pytest.mark.slow
def test_a_second_signal_ends_it_at_once(runs: Runs) -> None:
    pid = runs.start("twice")
    _wait_for(runs.folder("twice") / "log.jsonl", 1, pid)
    send(pid, signal.SIGSTOP)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
        send(pid, number)
    ended = runs.forks.finish()
    assert ended.code == 143
    assert "interrupted" not in ended.output  # it had no time for that, nor for a save
    assert runs.train("twice").code == 0
    assert runs.result("twice") == runs.result("whole")


def test_a_damaged_checkpoint_is_passed_over_and_that_is_said(runs: Runs) -> None:
    runs.copy("whole", "damaged")
    newest = _newest(runs.folder("damaged") / "checkpoints", "model.safetensors")
    content = bytearray(newest.read_bytes())
    content[-5] ^= 1
    newest.write_bytes(content)
    again = runs.train("damaged")
    assert again.code == 0
    assert "model.safetensors is damaged (checksum); falling back to the one before" in again.output
    assert runs.result("damaged") == runs.result("whole")


def test_a_changed_setting_is_refused_with_the_difference(runs: Runs) -> None:
    refused = runs.train("whole", "training.learning_rate=0.02")
    assert refused.code == 1
    assert "was begun with other settings" in refused.output
    assert "  training.learning_rate: 0.01 -> 0.02" in refused.output


def test_more_steps_may_be_asked_for(runs: Runs) -> None:
    assert runs.train("longer", "training.max_steps=24").code == 0
    assert runs.train("longer").code == 0
    assert runs.result("longer")["model.safetensors"] == runs.result("whole")["model.safetensors"]


def test_more_checkpoints_change_neither_log_nor_result(runs: Runs) -> None:
    assert runs.train("often", "training.save_every=7", "training.max_steps=50").code == 0
    kept = [path.name for path in (runs.folder("often") / "checkpoints").glob("step-*")]
    assert "step-00000049" in kept
    shutil.rmtree(runs.folder("often") / "checkpoints" / "step-00000050")
    assert runs.train("often", "training.save_every=11").code == 0  # and they may change
    assert runs.result("often") == runs.result("whole")


def test_a_forced_setting_stays_recorded_in_every_later_checkpoint(runs: Runs) -> None:
    runs.copy("whole", "forced")
    assert runs.train("forced", "training.max_steps=61", "training.clip=1.0", "--force").code == 0
    assert runs.train("forced", "training.max_steps=62", "training.clip=1.0").code == 0  # now its own setting
    made = json.loads((runs.folder("forced") / "made_from.json").read_text())
    manifest = json.loads(_newest(runs.folder("forced") / "checkpoints", "manifest.json").read_text())
    assert made["forced"] == manifest["forced"] == ["recipe.training.clip: None -> 1.0"]


def test_what_checkpoints_cannot_continue_with_is_refused_even_if_forced(runs: Runs) -> None:
    refused = runs.train("whole", "model.width=32", "training.clip=1.0", "--force")
    assert refused.code == 1
    assert "  model.width: 16 -> 32" in refused.output
    assert "training.clip" not in refused.output


def test_a_run_has_one_owner(runs: Runs) -> None:
    with ThreadPoolExecutor(1) as pool:
        with Lock(runs.folder("owned")):
            training = pool.submit(runs.train, "owned", "training.max_steps=1")
            assert not wait([training], timeout=2).done
            assert not (runs.folder("owned") / "log.jsonl").exists()
        done = training.result()
    assert done.code == 0
    assert f"waiting for {os.getpid()}@" in done.output
    assert owner_of(runs.folder("owned")) is None
