"""When translations and scores are reused, where references come from, data without a test set."""

import json
from pathlib import Path

import pytest
from corpora import write_tsv
from trained_run import trained_run

from cclm.errors import DataError
from cclm.evaluation.evaluate import Evaluation


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_tsv(tmp_path / "text", train=80)
    (tmp_path / "text" / "tur.test.tsv").unlink()
    return trained_run(tmp_path, "training.max_steps=2", "training.validate_every=1")


@pytest.mark.slow
def test_translations_and_scores_are_reused_until_something_changes(run: Path) -> None:
    evaluation = Evaluation(run)
    assert evaluation.translated() is None
    scores = evaluation.score()
    assert list(scores.languages) == ["por", "aze", "glg"]  # of which there are test sets
    assert evaluation.scored() == scores
    assert evaluation.translated() == [run / "translations" / f"test.{lang}-eng.txt" for lang in scores.languages]
    dev = Evaluation(run, "dev")
    assert dev.scored() is None
    assert set(dev.score().languages) == {"tur", "por", "aze", "glg"}
    assert evaluation.scored() is None  # scores.json is now of the dev sets
    assert evaluation.translated()
    assert evaluation.score() == scores
    mark = run / "translations" / "test.json"
    for break_it in (
        mark.unlink,
        lambda: mark.write_text("{"),
        lambda: (run / "translations" / "test.aze-eng.reference.txt").unlink(),
        lambda: (run / "checkpoints" / "best").write_text("step-00000001\n"),
    ):
        assert evaluation.scored()
        break_it()
        assert evaluation.translated() is None
        assert evaluation.scored() is None
        evaluation.score()
    (run / "scores.json").write_text("[]")
    assert evaluation.scored() is None
    assert json.loads(mark.read_text())["checkpoint"].startswith("step-00000001 ")


@pytest.mark.slow
def test_references_come_from_the_prepared_data_even_if_the_text_changed(run: Path) -> None:
    path = run.parent.parent.parent / "text" / "aze.test.tsv"
    expected = [line.split("\t")[0] for line in path.read_text().splitlines()]
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")
    assert Evaluation(run).lines()["aze"].references == expected


@pytest.mark.slow
def test_data_without_a_test_set_is_refused(run: Path) -> None:
    manifest = run.parent.parent / "prepared" / "manifest.json"
    content = json.loads(manifest.read_text())
    for splits in content["sizes"].values():
        splits.pop("test", None)
    manifest.write_text(json.dumps(content))
    with pytest.raises(DataError, match="no language has a test set: there is nothing to translate"):
        Evaluation(run)
