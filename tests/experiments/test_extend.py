"""`cclm extend`: a new run with more languages; the old one stays as it is, and old ids keep their meaning."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from command import cclm
from corpora import write_tsv
from safetensors.torch import load_file
from small_recipe import recipe

from cclm.data.prepare import Plan, prepare
from cclm.data.prepared import Prepared
from cclm.errors import ConfigError, TrainingError
from cclm.experiments.extend import check_against, extended_recipe, record_before
from cclm.experiments.pipeline import Pipeline
from cclm.formats.run_folder import best_of, tokens_of
from cclm.formats.scores import Before
from cclm.recipe.loading import with_values
from cclm.recipe.schema import Recipe
from cclm.recipe.section import check
from cclm.training.building import model_of, split
from cclm.training.run_inputs import data_of, recipe_of

pytestmark = pytest.mark.slow
NEW = {"name": "more", "data": {"low_resource": ["glg"]}, "training": {"max_steps": 4, "validate_every": 4}}


@pytest.fixture(scope="module", params=["many-to-one", "many-to-many"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run of three languages; its L* is a table."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("extend")
    write_tsv(folder / "text", train=60, dev=8, test=8)
    both = request.param == "many-to-many"
    changes = [f"data.direction={request.param}", f"vocabulary.joint={str(both).lower()}", "data.low_resource=[aze]"]
    changes += ["training.max_steps=6", "training.validate_every=6", "benchmark.max_steps=2", "translation.beam=1"]
    settings = recipe(folder, *changes)
    Pipeline(settings, workers=1).walk(("prepare", "graph", "benchmark", "train", "translate", "score"))
    return Path(settings.work) / "runs" / "small"


def prepared(settings: Recipe) -> Prepared:
    return prepare(Plan(settings.data, settings.vocabulary, settings.model), settings.prepared, workers=1)


def test_old_ids_and_weights_stay_and_new_pieces_start_from_their_parts(run: Path, tmp_path: Path) -> None:
    settings = extended_recipe(run, NEW, [], "new").model_copy(update={"work": str(tmp_path)})
    before, after = data_of(run, recipe_of(run)), prepared(settings)
    assert after.other.symbols[: len(before.other)] == before.other.symbols
    assert after.pivot.symbols[: len(before.pivot)] == before.pivot.symbols
    for split_name in ("train", "dev"):
        old, new = (data.corpus("aze", split_name).tokens.tolist() for data in (before, after))
        assert new == old
    assert not (after.corpus("glg", "train").tokens == 3).any()  # no subword of the new language is unknown
    saved, begun = load_file(best_of(run) / "model.safetensors"), model_of(settings, after).state_dict()
    grown = "target_embedding.weight" if before.joint else "source_embedding.weight"
    assert torch.equal(begun[grown][: len(before.other)], saved[grown])
    assert all(torch.equal(begun[name], saved[name]) for name in saved if not name.endswith("embedding.weight"))
    tags = set(after.other.tags.values())
    row = next(i for i in range(len(before.other), len(after.other)) if i not in tags)
    parts = split(after.other.symbols[row], before.other.ids)
    assert parts
    assert torch.allclose(begun[grown][row], saved[grown][parts].mean(dim=0))
    assert after.other.tags["glg"] >= len(before.other)


def test_a_piece_is_split_into_the_fewest_known_ones() -> None:
    ids = {"▁": 0, "ca": 1, "casa": 2, "s": 3, "a": 4, "▁ca": 5}
    assert split("▁casa", ids) == [0, 2]
    assert split("▁casxa", ids) == [5, 3, 4]  # x is unknown
    assert split("xyz", ids) == []


def test_the_command_makes_a_new_run_and_tells_what_changed(run: Path) -> None:
    kept = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and "lock" not in path.name}
    work = run.parents[1]
    (work / "new.yaml").write_text(json.dumps(NEW), encoding="utf-8")
    shown = cclm("extend", run, "--data", work / "new.yaml", "--dry-run", folder=work)
    assert "would train" in shown.stdout
    assert not (run.parent / "more").exists()
    ended = cclm("extend", run, "--data", work / "new.yaml", folder=work)
    assert ended.code == 0, ended
    name = "glg" if "many-to-one" in (run / "config.yaml").read_text() else "glg-eng"
    assert [line.split()[-1] for line in ended.stdout.splitlines() if line.startswith(f"{name} ")] == ["new"]
    assert "bitext tur" not in ended.stderr + ended.stdout  # L* of the old languages is that of the old run
    before = Before.read(run.parent / "more" / "before.json")
    assert name not in before.scores.languages
    assert '"change"' in (run.parent / "more" / "report.html").read_text(encoding="utf-8")
    assert {path: path.read_bytes() for path in kept} == kept
    again = cclm("extend", run, "--data", work / "new.yaml", folder=work)
    assert "train      skipped" in again.stderr + again.stdout


def test_it_is_compared_with_a_run_that_had_all_from_the_start(run: Path) -> None:
    work, parts = run.parents[1], {**NEW, "name": "compared"}
    (work / "compared.yaml").write_text(json.dumps(parts), encoding="utf-8")
    shown = cclm("extend", run, "--data", work / "compared.yaml", "--against", run, folder=work)
    assert shown.code == 2, shown
    assert "it was not trained on glg" in shown.stderr
    changes = {"name": "full", "data": {"low_resource": ["aze", "glg"]}}
    full = check(Recipe, with_values(recipe_of(run).model_dump(mode="json"), changes), "full")
    Pipeline(full, workers=1).walk(("prepare", "graph", "benchmark", "train"))
    ended = cclm("extend", run, "--data", work / "compared.yaml", "--against", run.parent / "full", folder=work)
    assert ended.code == 0, ended
    before = Before.read(run.parent / "compared" / "before.json")
    assert before.from_start is not None
    assert before.from_start.run == "full"
    tokens = [tokens_of(run.parent / name) for name in ("compared", "full")]
    assert 0 < tokens[0] < tokens[1]  # 4 steps and 6
    assert f"full, from the start: {tokens[1]:,} ({tokens[0] / tokens[1]:.0%})" in ended.stdout
    page = (run.parent / "compared" / "report.html").read_text(encoding="utf-8")
    assert f"this run took {tokens[0] / tokens[1]:.0%} of its target tokens" in page
    recorded = record_before(run, recipe_of(run.parent / "compared"))  # without --against, it stays
    assert recorded.from_start == before.from_start


def test_half_the_steps_are_annealed_from_the_old_rate(run: Path) -> None:
    before = recipe_of(run).training
    training = extended_recipe(run, {"data": {"low_resource": ["glg"]}}, [], "new").training
    assert (training.max_steps, training.schedule, training.warmup, training.validate_every) == (3, "linear", 0, 1)
    assert training.learning_rate == before.learning_rate
    given = {"data": {"low_resource": ["glg"]}, "training": {"schedule": "inverse-sqrt"}}
    training = extended_recipe(run, given, ["training.max_steps=200"], "new").training
    assert (training.max_steps, training.schedule, training.warmup, training.validate_every) == (
        200, "inverse-sqrt", min(before.warmup, 20), min(before.validate_every, 40),
    )  # fmt: skip


def test_what_cannot_be_added_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no language to add"):
        extended_recipe(run, {}, [], "new")
    with pytest.raises(ConfigError, match="knows aze already"):
        extended_recipe(run, {"data": {"low_resource": ["aze"]}}, [], "new")
    with pytest.raises(ConfigError, match="must be a list"):
        extended_recipe(run, {"data": {"low_resource": "glg"}}, [], "new")
    with pytest.raises(ConfigError, match="is that of"):
        extended_recipe(run, {**NEW, "name": "small"}, [], "new")
    with pytest.raises(ConfigError, match="no run here"):
        extended_recipe(tmp_path, NEW, [], "new")
    (tmp_path / "recipe.json").write_text("{}")
    with pytest.raises(ConfigError, match="folder of bitext models"):
        extended_recipe(tmp_path, NEW, [], "new")
    with pytest.raises(ConfigError, match=r"--against .*folder of bitext models"):
        check_against(tmp_path, recipe_of(run))
    assert extended_recipe(run, {"data": {"low_resource": ["glg"]}}, [], "new").name == "small-extended"


def test_a_run_that_does_not_fit_is_refused(run: Path, tmp_path: Path) -> None:
    settings = extended_recipe(run, NEW, [], "new").model_copy(update={"work": str(tmp_path)})
    data = prepared(settings)
    other = settings.model_copy(update={"model": settings.model.model_copy(update={"layers": 2})})
    with pytest.raises(TrainingError, match="its weights do not fit this recipe"):
        model_of(other, data)
    pivot = settings.model_copy(update={"data": settings.data.model_copy(update={"pivot": "deu"})})
    with pytest.raises(ConfigError, match="its pivot is eng"):
        prepared(pivot)
    shutil.copytree(run.parents[1], tmp_path / "copy", symlinks=True)
    copied = tmp_path / "copy" / "runs" / "small"
    (copied / "checkpoints" / "best").unlink()
    model = settings.model.model_copy(update={"pretrained": str(copied)})
    with pytest.raises(ConfigError, match="no best checkpoint"):
        prepared(settings.model_copy(update={"model": model}))
