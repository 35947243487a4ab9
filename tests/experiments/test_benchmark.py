"""L*: trained once with everyone's vocabularies, kept while nothing that made it changes, or given."""

import json
from pathlib import Path
from typing import Any

import pytest
from small_recipe import events, prepared, recipe

from cclm.data.prepared import Prepared
from cclm.errors import ConfigError, TrainingError
from cclm.experiments.benchmark import benchmark, best_loss, bitext_folder, bitext_recipe, fingerprint


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
