"""Zero-shot pairs: which pairs exist, their references, and their scores in scores.json and in the table."""

import json
import warnings
from pathlib import Path

import pytest
from corpora import sentences, write_tsv
from trained_run import trained_run

from cclm.cli.tables import print_scores
from cclm.data.batches import Direction
from cclm.evaluation import evaluate
from cclm.evaluation.evaluate import Evaluation, zero_shot_pairs
from cclm.evaluation.scores import read_lines
from cclm.training.tasks import Task


def both_ways(*languages: str) -> dict[str, Task]:
    made = [Task(f"{lang}-eng", lang, lang, "eng", Direction(to_pivot=True)) for lang in languages]
    made += [Task(f"eng-{lang}", lang, "eng", lang, Direction(to_pivot=False)) for lang in languages]
    return {task.name: task for task in made}


TEXTS = {
    "tur": (["ev", "su", "", "yol", "yine ev"], ["house", "water", "sea", "road", "house"]),
    "aze": (["dəniz", "su", "ev"], ["sea", "water", "house"]),
    "glg": (["pan"], ["bread"]),
}


def test_references_are_sentences_with_the_same_pivot_sentence() -> None:
    found = zero_shot_pairs(both_ways("tur", "aze", "glg"), lambda task: TEXTS[task.language])
    assert list(found) == ["tur-aze", "aze-tur"]  # Galician shares no sentence with them
    assert (found["tur-aze"].sources, found["tur-aze"].references) == (["ev", "su"], ["ev", "su"])
    assert (found["aze-tur"].sources, found["aze-tur"].references) == (["su", "ev"], ["su", "ev"])


def test_a_model_of_one_direction_has_no_zero_shot_pairs() -> None:
    into = {name: task for name, task in both_ways("tur", "aze").items() if task.direction.to_pivot}
    assert zero_shot_pairs(into, lambda task: TEXTS[task.language]) == {}


def test_too_many_pairs_are_not_scored_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "MAX_PAIRS", 5)
    with pytest.warns(UserWarning, match="6 zero-shot pairs are not scored: more than 5"):
        assert zero_shot_pairs(both_ways("tur", "aze", "glg"), lambda task: TEXTS[task.language]) == {}


@pytest.mark.slow
def test_zero_shot_pairs_are_translated_scored_and_left_out_of_the_means(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tsv(tmp_path / "text", train=80)
    for lang in ("tur", "aze"):
        lines = [f"{english}\t{other}\n" for english, other in sentences(lang, 5000, 10)]
        (tmp_path / "text" / f"{lang}.test.tsv").write_text("".join(lines), encoding="utf-8")
    joint = ["data.direction=many-to-many", "vocabulary.joint=true", "curriculum={gate: {name: all}}"]
    run = trained_run(tmp_path, "training.max_steps=2", "training.validate_every=2", *joint)
    evaluation = Evaluation(run)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # py3langid may be missing
        scores = evaluation.score()
    assert list(scores.zero_shot) == ["tur-aze", "aze-tur"]
    assert list(scores.languages) == [f"{a}-{b}" for lang in ("tur", "por", "aze", "glg") for a, b in (
        (lang, "eng"), ("eng", lang))]  # fmt: skip
    bleu = [row["bleu"] for row in scores.languages.values()]
    assert scores.means.all == pytest.approx(sum(bleu) / 8)
    assert set(json.loads((run / "scores.json").read_text())) >= {"languages", "zero_shot"}
    aze = read_lines(run / "translations" / "test.tur-aze.reference.txt")
    assert aze == [other for _, other in sentences("aze", 5000, 10)]
    assert evaluation.scored() == scores
    (run / "translations" / "test.tur-aze.txt").unlink()
    assert evaluation.translated() is None
    print_scores(scores)
    shown = capsys.readouterr().out
    assert "tur-aze zero-shot" in shown
    assert "they are in no mean" in shown
