"""L*: trained once with everyone's vocabularies, kept while nothing that made it changes, or given."""

import json
from pathlib import Path
from typing import Any

import pytest
from small_recipe import events, prepared, recipe

from cclm.data.prepared import Prepared
from cclm.errors import ConfigError, TrainingError
from cclm.experiments.benchmark import (
    benchmark,
    best_loss,
    bitext_folder,
    bitext_recipe,
    fingerprint,
    reference_folder,
)
from cclm.experiments.early_checks import refuse_impossible_curriculum, refuse_no_losses
from cclm.experiments.multilingual import at_level, multilingual_recipe
from cclm.training.run_inputs import recipe_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("benchmark")


@pytest.fixture(scope="module")
def data(folder: Path) -> Prepared:
    return prepared(folder)


@pytest.mark.slow
def test_one_bitext_model_per_language_is_trained_once(folder: Path, data: Prepared) -> None:
    settings = recipe(folder, "benchmark.max_steps=10")
    told: list[str] = []
    losses = benchmark(settings, data, say=told.append)
    assert set(losses) == {"tur", "por", "aze", "glg"}
    assert sum(line.startswith("bitext ") for line in told) == 4
    assert all(losses[name] == best_loss(bitext_folder(settings, data) / name, name) for name in losses)
    probe = next(event for event in events(bitext_folder(settings, data) / "aze") if event["event"] == "probe")
    assert probe["weights"] == {"aze": 1.0}
    told.clear()
    assert benchmark(settings, data, say=told.append) == losses
    assert told == []
    path = bitext_folder(settings, data) / "benchmark.json"
    content = json.loads(path.read_text())
    assert content["version"] == 1
    assert content["fingerprint"] == fingerprint(settings, data)
    path.write_text("{")  # damaged: the models are still there
    assert benchmark(settings, data, say=told.append) == losses
    told.clear()
    other = recipe(folder, "benchmark.max_steps=10", "training.learning_rate=0.02")
    assert benchmark(other, data, say=told.append) != losses
    assert sum(line.startswith("bitext ") for line in told) == 4
    assert benchmark(settings, data, say=told.append) == losses  # kept beside the others
    assert sum(line.startswith("bitext ") for line in told) == 4


@pytest.mark.slow
def test_a_model_that_fails_is_named(folder: Path, data: Prepared) -> None:
    settings = recipe(folder, "benchmark.max_steps=9", "training.validate_every=9", f"work={folder}/work")
    blocked = bitext_folder(settings, data) / "aze"
    blocked.parent.mkdir(parents=True, exist_ok=True)
    if blocked.exists():
        blocked.rename(blocked.with_name("moved"))
    blocked.write_text("a file where a folder should be")
    with pytest.raises(TrainingError, match="bitext model of aze failed"):
        benchmark(settings, data, say=lambda line: None)
    blocked.unlink()


def test_a_bitext_model_differs_in_the_curriculum_alone(folder: Path) -> None:
    settings = recipe(folder)
    bitext = bitext_recipe(settings)
    assert bitext.model == settings.model
    assert bitext.curriculum.gate.name == "all"
    assert bitext.training.learning_rate == settings.training.learning_rate


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "expected"),
        ({"losses": {}}, "no loss for aze, glg, por, tur"),
        ({"version": 2, "losses": {}}, "version 2; this program reads 1"),
        ({"version": 1, "losses": {"tur": 4.0}}, "no loss for aze, glg, por"),
        (
            {"version": 1, "losses": dict.fromkeys(("tur", "por", "aze", "glg"), -1)},
            r"losses\.tur: expected greater than 0, got -1",
        ),
        (
            {"version": 1, "losses": dict.fromkeys(("tur", "por", "aze", "glg"), 4), "fingerprint": "x"},
            "was made with other data or settings",
        ),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(folder: Path, data: Prepared, content: Any, message: str) -> None:
    path = folder / "table.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ConfigError, match=message):
        benchmark(recipe(folder, f"benchmark.file={path}"), data)


def test_a_table_without_a_fingerprint_is_taken_with_a_warning(folder: Path, data: Prepared) -> None:
    path = folder / "own.json"
    path.write_text(json.dumps({"version": 1, "losses": dict.fromkeys(("tur", "por", "aze", "glg", "xyz"), 4.5)}))
    told: list[str] = []
    losses = benchmark(recipe(folder, f"benchmark.file={path}"), data, say=told.append)
    assert losses == dict.fromkeys(("tur", "por", "aze", "glg"), 4.5)
    assert told == [f"warning: {path} has no fingerprint; it is used without checking that it belongs to this data"]


STATIC = ("curriculum.gate={name: all}", "curriculum.sampler={name: temperature}")
MULTILINGUAL = ("benchmark.method=multilingual", "benchmark.max_steps=10")


@pytest.mark.slow
def test_one_multilingual_training_gives_all_losses_and_is_made_once(folder: Path, data: Prepared) -> None:
    settings = recipe(folder, *MULTILINGUAL)
    told: list[str] = []
    losses = benchmark(settings, data, say=told.append)
    run = reference_folder(settings, data) / "multilingual"
    assert list(losses) == ["tur", "por", "aze", "glg"]
    assert all(losses[name] == best_loss(run, name) for name in losses)
    assert told[0].startswith("multilingual: L* of 4 languages, ")
    assert recipe_of(run).work == settings.work
    told.clear()
    assert benchmark(settings, data, say=told.append) == losses
    path = run.parent / "benchmark.json"
    content = json.loads(path.read_text())
    assert content["method"] == "multilingual"
    assert 10 * 100 < content["target_tokens"] <= 10 * 200  # ten batches
    path.write_text("{")  # damaged: the training is still there
    level = sum(losses[hrl] for hrl in ("tur", "por")) / 2 - 0.5
    lower = benchmark(recipe(folder, *MULTILINGUAL, f"benchmark.level={level}"), data, say=told.append)
    told.clear()
    assert lower == pytest.approx({name: loss - 0.5 for name, loss in losses.items()})
    given = benchmark(recipe(folder, f"benchmark.file={path}", "benchmark.max_steps=10"), data, say=told.append)
    assert (given, told) == (losses, [])  # its fingerprint is known


@pytest.mark.slow
def test_a_multilingual_training_that_fails_is_named(folder: Path, data: Prepared) -> None:
    settings = recipe(folder, "benchmark.method=multilingual", "benchmark.max_steps=9")
    reference_folder(settings, data).mkdir(parents=True)
    (reference_folder(settings, data) / "multilingual").write_text("a file where a folder should be")
    with pytest.raises(TrainingError, match="multilingual training failed"):
        benchmark(settings, data, say=lambda line: None)


def test_the_multilingual_training_is_a_twelfth_of_the_training_and_anneals(folder: Path) -> None:
    short = multilingual_recipe(recipe(folder, "benchmark.method=multilingual", "training.max_steps=1200"))
    assert (short.training.max_steps, short.training.schedule, short.benchmark.source) == (100, "wsd", "none")
    assert multilingual_recipe(recipe(folder, *MULTILINGUAL)).training.max_steps == 10
    assert multilingual_recipe(recipe(folder, "training.max_steps=5")).training.max_steps == 1


def test_methods_do_not_share_an_entry_of_the_cache(folder: Path, data: Prepared) -> None:
    bitext, one = recipe(folder), recipe(folder, "benchmark.method=multilingual")
    assert reference_folder(bitext, data) == bitext_folder(bitext, data) == bitext_folder(one, data)
    assert reference_folder(one, data) != bitext_folder(one, data)


def test_a_level_that_leaves_no_loss_is_refused(folder: Path) -> None:
    losses = {"tur": 6.0, "por": 5.0, "aze": 2.0, "glg": 7.0}
    low = recipe(folder, "benchmark.method=multilingual", "benchmark.level=3")
    with pytest.raises(ConfigError, match=r"level 3 is 2\.50 bits below the HRLs .* L\* of aze would not be above 0"):
        at_level(losses, low)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["benchmark.method=file"], "needs a file for method 'file'"),
        (["benchmark.method=none", "benchmark.file=x.json"], "must not have the file 'x.json' with method 'none': set"),
        (["benchmark.method=multilingual", "benchmark.file=x.json"], "benchmark.file=null to ignore it"),
        (["benchmark.level=4"], "must not have a level with method 'bitext'"),
        (
            ["benchmark.method=multilingual", "benchmark.level=4", "data.high_resource=[]"],
            "data.high_resource is empty",
        ),
        (["benchmark.method=guess"], "benchmark.method must be one of"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(folder: Path, changes: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe(folder, *changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([], "but curriculum.gate competence and curriculum.sampler inverse-competence cannot do without L"),
        (["curriculum.gate={name: all}"], "but curriculum.sampler inverse-competence cannot"),
        (
            ["curriculum.gate={name: all}", "curriculum.sampler={name: size-and-competence}"],
            "sampler size-and-competence",
        ),
        (["curriculum.sampler={name: temperature}"], "but curriculum.gate competence cannot"),
    ],
)
def test_no_losses_are_refused_where_they_are_needed(folder: Path, changes: list[str], message: str) -> None:
    settings = recipe(folder, "benchmark.method=none", *changes)
    with pytest.raises(ConfigError, match=message):
        refuse_impossible_curriculum(settings)
    with pytest.raises(ConfigError, match=r"benchmark\.method is none: there is no L"):
        refuse_no_losses(recipe(folder, "benchmark.method=none", *STATIC))
    refuse_impossible_curriculum(recipe(folder, "benchmark.method=none", *STATIC))


def test_a_bitext_model_without_a_finite_dev_loss_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"event": "stopped", "step": 1, "reason": "all steps are done"}\n')
    with pytest.raises(TrainingError, match=r"the dev loss of aze was never finite: lower training\.learning_rate"):
        best_loss(tmp_path, "aze")
