"""What the board asks of a run beside its log: how much a pass is, whether it failed, and how to continue it."""

from pathlib import Path

import pytest
from made_board import board_run, save
from small_recipe import prepared, recipe

from cclm.data.batches import Batches
from cclm.formats.run import NOT_FINITE, DrawnBatch, NotFinite, settings_text
from cclm.training.run_state import continue_command, state_of, tokens_per_pass
from cclm.training.tasks import tasks


@pytest.mark.parametrize("direction", ["many-to-one", "one-to-many"])
def test_a_pass_has_the_target_tokens_of_all_batches(tmp_path: Path, direction: str) -> None:
    wanted = recipe(tmp_path, f"data.direction={direction}")
    data = prepared(tmp_path)
    run = tmp_path / "work" / "runs" / "small"
    run.mkdir(parents=True)
    (run / "config.yaml").write_text(settings_text(wanted.model_dump(mode="json")))
    if not (tmp_path / "work" / "prepared").exists():
        (tmp_path / "work" / "prepared").symlink_to(data.folder)
    expected = {}
    for name, task in tasks(wanted.data, data).items():
        batches = Batches(data.corpus(task.language, "train"), task.direction, language=name, seed=1, budget=200)
        expected[name] = sum(batches.batch(i).target_tokens for i in range(len(batches)))
    assert tokens_per_pass(run) == expected


def test_a_loss_that_was_not_finite_after_the_last_checkpoint_is_a_failure(tmp_path: Path) -> None:
    run = board_run(tmp_path, "run", up_to=3000)
    NotFinite(batches=[DrawnBatch(step=3012, number=1, language="aze", batch=1, loss=None)]).write(run / NOT_FINITE)
    found = state_of(run)
    assert (found.state, found.step) == ("failed", 3000)
    assert str(found.reason).startswith("step 3,012: loss or gradient not finite")
    save(run, 4000)  # it was resumed and went on
    assert state_of(run).state == "interrupted"


def test_the_command_that_continues_a_run_works_from_where_it_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = board_run(tmp_path / "work", "run", up_to=3000)
    assert continue_command(run) == f"cclm train {run}/config.yaml"
    moved = tmp_path / "moved elsewhere"
    (tmp_path / "work").rename(moved)
    there = moved / "runs" / "run"
    assert continue_command(there) == f"cclm train '{there}/config.yaml' 'work={moved}'"
    monkeypatch.chdir(moved)
    assert continue_command(Path("runs/run")) == "cclm train runs/run/config.yaml work=."


def test_a_bitext_model_has_no_command_of_its_own(tmp_path: Path) -> None:
    run = board_run(tmp_path, "bitext", up_to=1000)
    (run / "recipe.json").write_text("{}")
    assert continue_command(run) is None
    (run.parent / "recipe.json").write_text("{}")
    assert continue_command(run) is None
