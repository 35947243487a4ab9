"""Annealing schedules, averaged weights and split pieces: what they do to a training, and that it resumes exactly."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from exact_runs import Runs
from safetensors.torch import load_file

from cclm.formats.run_folder import best_of, weights_of

WSD = ["training.schedule=wsd", "training.decay=9"]
EARLY = ["training.stop_on=worst", "training.patience=1", "training.learning_rate=0.5", "training.max_steps=200"]
"""At such a learning rate the loss soon stops falling."""
OPTIONS = {
    "linear": ["training.schedule=linear"],
    "cosine": ["training.schedule=cosine"],
    "wsd": WSD,
    "early": ["training.schedule=cosine", "training.decay=7", *EARLY],
    "ema": ["training.average.ema=0.9"],
    "last": ["training.average.last=3"],
    "pieces": ["training.split_pieces={source: 0.3, target: 0.2}"],
    "bounded": ["curriculum.dev_sample=null", "curriculum.probe.share=0.1"],
    "bounded average": ["curriculum.dev_sample=null", "training.average.last=3", "curriculum.gate.confidence=1"],
    "all": [*WSD, "training.average.ema=0.9", "training.split_pieces={source: 0.3, target: 0.2}"],
}
"""Settings of a training by a short name."""
RESUMED = ("early", "last", "all", "bounded", "bounded average")
"""Those that have a state of their own, or have all of them together."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    made = Runs(tmp_path_factory.mktemp("options"))
    yield made
    made.forks.close()


def whole(runs: Runs, option: str) -> Path:
    """The run directory of an undisturbed training, trained the first time."""
    name = option.replace(" ", "-")
    if not runs.folder(name).exists():
        finished = runs.train(name, *OPTIONS[option])
        assert finished.code == 0, finished.output
    return runs.folder(name)


def events(run: Path, kind: str) -> list[dict[str, object]]:
    lines = (json.loads(line) for line in (run / "log.jsonl").read_text().splitlines())
    return [event for event in lines if event["event"] == kind]


@pytest.mark.slow
@pytest.mark.parametrize("option", RESUMED)
def test_killed_and_told_to_stop_it_resumes_to_the_same_bytes(runs: Runs, option: str) -> None:
    whole(runs, option)
    name, settings = f"stopped-{option.replace(' ', '-')}", OPTIONS[option]
    for moment, code in {
        "validation:measured,2,SIGKILL": -signal.SIGKILL,
        "validation,3,SIGTERM": 143,
        "save:after_model,1,SIGKILL": -signal.SIGKILL,
        "probe,2,SIGINT": 130,
    }.items():
        assert runs.train(name, *settings, fault=moment).code == code
    finished = runs.train(name, *settings)
    assert finished.code == 0, finished.output
    assert runs.result(name) == runs.result(option.replace(" ", "-"))


def test_the_learning_rate_anneals(runs: Runs) -> None:
    rates = [event["learning_rate"] for event in events(whole(runs, "wsd"), "train")]
    assert rates == [0.01]  # step 50 of 60; the decay begins after step 51
    assert events(whole(runs, "wsd"), "decay") == [
        {"event": "decay", "step": 51, "until": 60, "reason": "the last 9 steps"}
    ]


@pytest.mark.slow
def test_a_longer_training_with_wsd_goes_on_from_before_the_decay(runs: Runs) -> None:
    short = ["training.max_steps=33"]
    assert runs.train("extended", *WSD, *short).code == 0
    assert runs.train("extended", *WSD, fault="save:after_model,1,SIGKILL").code == -signal.SIGKILL
    finished = runs.train("extended", *WSD)
    assert finished.code == 0, finished.output
    whole(runs, "wsd")
    assert runs.result("extended") == runs.result("wsd")


def test_a_decay_that_should_have_begun_earlier_is_refused(runs: Runs) -> None:
    whole(runs, "wsd")
    runs.copy("wsd", "shorter")
    for step in (60, 51):
        path = runs.folder("shorter") / "checkpoints" / f"step-{step:08}"
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    refused = runs.train("shorter", *WSD, "training.max_steps=50")
    assert refused.code == 1
    assert "would begin the decay after step 41, but step 48 was trained at the full learning rate" in refused.output
    assert "set it to at least 57" in refused.output
    assert runs.train("shorter", *WSD, "training.max_steps=57").code == 0


def test_without_the_checkpoint_before_the_decay_it_cannot_be_longer(runs: Runs) -> None:
    whole(runs, "wsd")
    runs.copy("wsd", "lost")
    (runs.folder("lost") / "checkpoints" / "step-00000051" / "model.safetensors").unlink()
    refused = runs.train("lost", *WSD, "training.max_steps=70")
    assert refused.code == 1
    assert "model.safetensors is missing; without this checkpoint, from before its decay" in refused.output


def test_schedules_that_fall_all_the_way_cannot_be_longer(runs: Runs) -> None:
    whole(runs, "linear")
    refused = runs.train("linear", *OPTIONS["linear"], "training.max_steps=70")
    assert refused.code == 1
    assert "  training.max_steps: 60 -> 70" in refused.output


def test_a_training_that_is_stopped_early_still_anneals_and_says_so(runs: Runs) -> None:
    run = whole(runs, "early")
    (decay,), (stopped,) = events(run, "decay"), events(run, "stopped")
    assert decay["reason"] == "no better in 1 validations"
    assert decay["until"] == int(str(decay["step"])) + 7 == stopped["step"] < 200
    assert stopped["reason"] == "no better in 1 validations, then annealed for 7 steps"


def test_an_early_stop_that_would_come_later_than_the_end_is_none(runs: Runs) -> None:
    assert runs.train("near", "training.schedule=linear", "training.decay=190", *EARLY[:3]).code == 0
    assert events(runs.folder("near"), "decay") == []
    assert events(runs.folder("near"), "stopped")[0]["reason"] == "all steps are done"


@pytest.mark.parametrize("option", ["ema", "last"])
def test_the_averaged_weights_are_validated_selected_and_exported(runs: Runs, option: str) -> None:
    best = best_of(whole(runs, option))
    average, own = load_file(best / "average.safetensors"), load_file(best / "model.safetensors")
    assert {name for name in average if "@" not in name} == own.keys()
    assert not torch.equal(average["target_embedding.weight"], own["target_embedding.weight"])
    manifest = json.loads((best / "manifest.json").read_text())
    assert weights_of(best) == manifest["files"]["average.safetensors"]["sha256"]
    source = runs.folder(option).parent.parent.parent / "text" / "aze.test.tsv"
    assert source.exists()
    translated = runs.forks.run("translate", str(runs.folder(option)), "--source", "aze", "--input", str(source))
    assert translated.code == 0, translated.output  # the export was compared with the averaged model


def test_the_average_of_the_last_validations_is_their_mean(runs: Runs) -> None:
    latest = sorted((whole(runs, "last") / "checkpoints").glob("step-*"))[-1]
    saved = load_file(latest / "average.safetensors")
    name = "encoder.norm.weight"
    window = [saved[f"{name}@{step}"] for step in (36, 48, 60)]
    torch.testing.assert_close(saved[name], sum(window) / 3)
    assert torch.equal(window[-1], load_file(latest / "model.safetensors")[name])
    assert len([label for label in saved if label.startswith(f"{name}@")]) == 3


def test_an_average_may_be_forced_upon_a_run_that_had_none(runs: Runs) -> None:
    assert runs.train("later", "training.max_steps=24").code == 0
    assert runs.train("later", "training.average.ema=0.9", "--force").code == 0
    assert (best_of(runs.folder("later")) / "average.safetensors").exists()


def test_split_pieces_change_what_is_learnt_but_not_which_sentences_are_drawn(runs: Runs) -> None:
    assert runs.train("plain").code == 0
    plain, split = (events(run, "train")[0] for run in (runs.folder("plain"), whole(runs, "pieces")))
    assert plain["draws"] == split["draws"]
    more = {lang: count for lang, count in split["tokens"].items() if count > plain["tokens"][lang]}  # type: ignore[attr-defined, index]
    assert more == split["tokens"]
    assert plain["loss"] != split["loss"]
