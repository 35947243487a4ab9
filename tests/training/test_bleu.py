"""BLEU in validations: that of the written translations, and what stopping and selection go by if told to."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import sacrebleu
import torch
from small_recipe import events, prepared, recipe

from cclm.curriculum import LanguageGraph
from cclm.data.prepared import Prepared
from cclm.errors import Interrupted, TrainingError
from cclm.evaluation.dev_bleu import DevBleu
from cclm.evaluation.evaluate import Evaluation
from cclm.experiments.benchmark import bitext_recipe
from cclm.model.transformer import Transformer
from cclm.training.building import shape_of
from cclm.training.session import Options, train

GRAPH = LanguageGraph(
    ["tur", "por"], ["aze", "glg"], {"aze": {"tur": 0.5, "por": 0.1}, "glg": {"tur": 0.1, "por": 0.6}}
)
LANGUAGES = ("tur", "por", "aze", "glg")
BENCHMARK = dict.fromkeys(LANGUAGES, 4.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bleu")


@pytest.fixture(scope="module")
def data(folder: Path) -> Prepared:
    torch.set_num_threads(1)
    return prepared(folder)


@pytest.mark.slow
@pytest.mark.parametrize(("direction", "restrict"), [("many-to-one", "false"), ("one-to-many", "true")])
def test_the_bleu_of_a_validation_is_sacrebleus_of_the_written_translations(
    folder: Path, data: Prepared, direction: str, restrict: str
) -> None:
    settings = recipe(
        folder, "training.select_on=bleu", "training.max_steps=60", "training.validate_every=30", "model.width=32",
        f"data.direction={direction}", "translation.beam=3", "translation.length_penalty=0.6",
        f"translation.restrict={restrict}",
    )  # fmt: skip
    run = folder / "work" / "runs" / direction
    train(settings, data, GRAPH, BENCHMARK, run, Options(bleu=DevBleu(settings, data, run)))
    assert not (run / "ctranslate2-dev").exists()
    best = events(run, "stopped")[0]["best"]
    logged = next(event for event in events(run, "validation") if event["step"] == best)
    Evaluation(run, "dev").translate()  # with the best checkpoint
    for lang in LANGUAGES:
        stem = "dev." + (f"{lang}-eng" if direction == "many-to-one" else f"eng-{lang}")
        found, references = (
            (run / "translations" / f"{stem}{end}").read_text().split("\n")[:-1] for end in (".txt", ".reference.txt")
        )
        assert logged["bleu"][lang] == sacrebleu.corpus_bleu(found, [references]).score
    assert any(logged["bleu"].values())
    assert logged["mean_bleu"] == pytest.approx(sum(logged["bleu"].values()) / 4)


def scripted(*rounds: dict[str, float]) -> Callable[[Transformer, Callable[[], None]], dict[str, float]]:
    """BLEU as a play: what each validation finds."""
    waiting = list(rounds)
    return lambda model, poll: waiting.pop(0)


def scores(hrls: float, lrls: float) -> dict[str, float]:
    return {"tur": hrls + 1, "por": hrls - 1, "aze": lrls + 2, "glg": lrls - 2}


def test_stopping_looks_at_the_admitted_languages_and_selection_at_all(folder: Path, data: Prepared) -> None:
    # No LRL is admitted before patience is used up: the HRLs are best at validation 2, all together at 4.
    settings = recipe(
        folder, "curriculum.gate.threshold=99", "training.stop_on=bleu", "training.select_on=bleu",
        "training.patience=2", "training.validate_every=1", "training.max_steps=50",
    )  # fmt: skip
    play = scripted(
        scores(10, 2), scores(20, 3), scores(15, 4), scores(19, 9),  # the second phase begins
        scores(14, 9), scores(15, 9), scores(15, 9), scores(14, 9.5),
    )  # fmt: skip
    run = folder / "play"
    assert train(settings, data, GRAPH, BENCHMARK, run, Options(bleu=play)) == "no better in 2 validations"
    assert [event["step"] for event in events(run, "phase")] == [4]
    (stopped,) = events(run, "stopped")
    assert stopped["step"] == 8  # after the admissions the best is that of step 6: 12
    assert stopped["best"] == 4  # (19 + 9) / 2 = 14
    means = [event["mean_bleu"] for event in events(run, "validation")]
    assert means == [6, 11.5, 9.5, 14, 11.5, 12, 12, 11.75]


def test_bleu_is_logged_and_decides_nothing_where_it_is_only_asked_for(folder: Path, data: Prepared) -> None:
    plain = folder / "plain"
    train(recipe(folder), data, GRAPH, BENCHMARK, plain)
    run = folder / "asked"
    train(
        recipe(folder, "training.bleu=true"), data, GRAPH, BENCHMARK, run, Options(bleu=scripted(*[scores(9, 9)] * 2))
    )
    without = [{k: v for k, v in event.items() if "bleu" not in k} for event in events(run)]
    assert without == events(plain)
    assert [event["bleu"] for event in events(run, "validation")] == [scores(9, 9)] * 2


def test_the_beam_belongs_to_a_run_that_measures_bleu(folder: Path, data: Prepared) -> None:
    train(recipe(folder, "name=a"), data, GRAPH, BENCHMARK, folder / "a")
    train(recipe(folder, "name=a", "translation.beam=3"), data, GRAPH, BENCHMARK, folder / "a")
    bleu = scripted(*[scores(9, 9)] * 2)
    train(recipe(folder, "name=b", "training.bleu=true"), data, GRAPH, BENCHMARK, folder / "b", Options(bleu=bleu))
    changed = recipe(folder, "name=b", "training.bleu=true", "translation.beam=3")
    with pytest.raises(TrainingError, match=r"translation\.beam: 5 -> 3"):
        train(changed, data, GRAPH, BENCHMARK, folder / "b", Options(bleu=bleu))


@pytest.mark.parametrize("change", ["training.bleu=true", "training.stop_on=bleu", "training.select_on=bleu"])
def test_bleu_without_a_translator_is_refused(folder: Path, data: Prepared, change: str) -> None:
    with pytest.raises(TrainingError, match=r"training\.bleu needs Options\.bleu; or set it to false"):
        train(recipe(folder, change), data, GRAPH, BENCHMARK, folder / "never")
    assert not (folder / "never").exists()


def test_a_bitext_model_is_trained_by_its_loss(folder: Path) -> None:
    bitext = bitext_recipe(recipe(folder, "training.bleu=true", "training.stop_on=bleu", "training.select_on=bleu"))
    assert not bitext.training.measures_bleu


def test_a_signal_is_obeyed_between_languages_and_leaves_no_export(folder: Path, data: Prepared) -> None:
    settings = recipe(folder)
    run = folder / "signal"
    run.mkdir()
    asked = []

    def poll() -> None:
        asked.append(None)
        if len(asked) == 5:
            raise Interrupted(15)

    model = Transformer(shape_of(settings, data), 1)
    with pytest.raises(Interrupted):
        DevBleu(settings, data, run)(model, poll)
    assert list(run.iterdir()) == []


def test_an_export_that_cannot_be_written_is_told(folder: Path, data: Prepared) -> None:
    settings = recipe(folder)
    run = folder / "blocked"
    run.mkdir()
    (run / "ctranslate2-dev").write_text("a file where the folder should be")
    with pytest.raises(TrainingError, match="ctranslate2-dev: cannot be written: Not a directory"):
        DevBleu(settings, data, run)(Transformer(shape_of(settings, data), 1), lambda: None)
    shutil.rmtree(run)
