"""CurriculumTrainer with Hugging Face's own models: draws, measurements, logs, settings."""

import json
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import TestCase

import pytest
import torch
from datasets import Dataset, IterableDataset
from peft import LoraConfig, get_peft_model
from scipy.stats import chisquare
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tiny_models import (
    PAD,
    SIZES,
    arguments,
    collate,
    collate_for_smoothing,
    curriculum,
    dev_sets,
    languages,
    m2m100,
    marian,
    padded,
    sentence_pairs,
    train_sets,
)
from transformers import Seq2SeqTrainer

import cclm
from cclm import AllAtOnce, ChiSquare, Curriculum, FixedWeights, StepGate, Temperature
from cclm.integrations.transformers import CurriculumTrainer, measure_benchmark


class Recorder(CurriculumTrainer):
    """Keeps the languages and the inputs of the batches that it trains on."""

    def training_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        self.__dict__.setdefault("seen", []).append(dict(inputs))
        return super().training_step(model, inputs, *args, **kwargs)

    @property
    def batches(self) -> list[list[str]]:
        return [languages(inputs["input_ids"]) for inputs in self.seen]


def trainer(folder: Path, **changes: Any) -> Recorder:
    given: dict[str, Any] = {"model": m2m100(), "data_collator": collate, "curriculum": curriculum()}
    given |= {"train_dataset": train_sets(), "eval_dataset": dev_sets(), "mixed_batches": False}
    given |= {name: changes.pop(name) for name in list(changes) if name in given}
    return Recorder(args=arguments(folder, **changes), **given)


@pytest.mark.slow
@pytest.mark.parametrize("model", [m2m100, marian])
def test_the_model_learns(model: Any, tmp_path: Path) -> None:
    learner = trainer(tmp_path, model=model(dropout=0.0), max_steps=80, eval_steps=20, per_device_train_batch_size=16)
    learner.train()
    losses = [record["loss"] for record in learner.state.log_history if "loss" in record]
    assert max(losses[-5:]) < losses[0] - 0.5  # nats; guessing gives 3.7
    assert learner.curriculum.explain()["round"] == 4
    assert {lang for batch in learner.batches for lang in batch} == set(SIZES)


class Switch:
    """All weight on tur before the first round, all on aze after it."""

    def weights(self, now: Any) -> dict[str, float]:
        return {lang: float(lang == ("aze" if now.round else "tur")) for lang in now.admitted}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("accumulate", "workers", "prefetch", "delay"), [(1, 0, None, 1), (4, 0, None, 4), (1, 2, 2, 5), (2, 2, 3, 8)]
)
def test_new_weights_act_at_the_first_step_of_which_nothing_is_fetched(
    accumulate: int, workers: int, prefetch: int | None, delay: int, tmp_path: Path
) -> None:
    # accelerate reads one batch ahead, workers their queues; the delay is that, rounded up to whole steps
    switching = trainer(
        tmp_path, curriculum=curriculum(sampler=Switch()), max_steps=20, gradient_accumulation_steps=accumulate,
        dataloader_num_workers=workers, dataloader_prefetch_factor=prefetch,
    )  # fmt: skip
    switching.train()
    first = switching.batches.index(["aze"] * 4)
    assert first - 3 * accumulate == delay == -(-(1 + workers * (prefetch or 0)) // accumulate) * accumulate
    assert all(batch == ["aze"] * 4 for batch in switching.batches[first:])


SHARES = {"tur": 0.6, "rus": 0.3, "aze": 0.1}


@pytest.mark.slow
@pytest.mark.parametrize(("mixed", "size", "accumulate"), [(True, 16, 1), (False, 2, 16)])
def test_realised_draws_match_the_weights(mixed: bool, size: int, accumulate: int, tmp_path: Path) -> None:
    fixed = trainer(
        tmp_path, curriculum=curriculum(sampler=FixedWeights(SHARES)), mixed_batches=mixed, max_steps=25,
        per_device_train_batch_size=size, gradient_accumulation_steps=accumulate,
    )  # fmt: skip
    fixed.train()
    draws = [lang for batch in fixed.batches for lang in (batch if mixed else batch[:1])]
    assert len(draws) == 400
    counts = Counter(draws)
    assert chisquare([counts[lang] for lang in SHARES], [400 * share for share in SHARES.values()]).pvalue > 0.01
    assert any(len(set(batch)) > 1 for batch in fixed.batches) == mixed


def padded_with_pad(examples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    return {**collate(examples), "labels": padded([each["labels"] for each in examples], PAD)}


@pytest.mark.parametrize(
    "settings",
    [
        {"per_device_eval_batch_size": 3},
        {"data_collator": padded_with_pad},
        {"data_collator": collate_for_smoothing, "label_smoothing_factor": 0.2},
        {"data_collator": collate_for_smoothing, "predict_with_generate": True, "generation_max_length": 8},
    ],
    ids=["batch size", "labels padded with <pad>", "label smoothing", "generation"],
)
def test_dev_loss_is_in_bits_per_target_token_whatever_the_collator_and_the_loss(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    if "predict_with_generate" in settings:
        settings = settings | {"generation_num_beams": 2}
    measured = trainer(tmp_path, **settings)
    if "predict_with_generate" in settings:
        measured.compute_metrics = lambda prediction: {"longest": prediction.predictions.shape[1]}
    metrics = measured.evaluate()
    assert measured.curriculum.explain()["round"] == 0  # not a round: nothing is being trained
    model = measured.model.eval()
    for lang, pairs in dev_sets().items():
        batch = collate(pairs)
        with torch.no_grad():
            expected = cclm.bits_per_token([(model(**batch).logits, batch["labels"])])
        assert metrics[f"eval_{lang}_bits_per_token"] == pytest.approx(expected, rel=1e-5)


def test_predictions_are_measured_where_there_are_labels(tmp_path: Path) -> None:
    def collator(examples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        batch = collate_for_smoothing([{"labels": [4], **example} for example in examples])
        return batch if "labels" in examples[0] else {name: batch[name] for name in batch if name != "labels"}

    model = trainer(tmp_path, data_collator=collator)
    labelled = dev_sets()["aze"]
    unlabelled = [{name: pair[name] for name in pair if name != "labels"} for pair in labelled]
    assert model.predict(labelled).metrics["test_bits_per_token"] == pytest.approx(
        model.evaluate()["eval_aze_bits_per_token"], rel=1e-5
    )
    assert "test_bits_per_token" not in model.predict(unlabelled).metrics


def test_a_round_is_observed_once_when_all_languages_have_reported(tmp_path: Path) -> None:
    every = trainer(tmp_path, max_steps=6)
    every.train()
    facts = every.curriculum.explain()
    assert (facts["round"], facts["step"]) == (2, 6)
    last = [r for r in every.state.log_history if r["step"] == 6]
    reported = {lang: r[f"eval_{lang}_bits_per_token"] for lang in SIZES for r in last if f"eval_{lang}_loss" in r}
    assert facts["dev_loss"] == reported


def test_the_best_checkpoint_is_that_with_the_lowest_mean_over_languages(tmp_path: Path) -> None:
    best = trainer(
        tmp_path, max_steps=9, learning_rate=0.3, save_strategy="steps", save_steps=3, load_best_model_at_end=True,
        metric_for_best_model="bits_per_token", greater_is_better=False,
    )  # fmt: skip
    best.train()
    means = {}
    for step in (3, 6, 9):
        history = [record for record in best.state.log_history if record["step"] == step]
        means[step] = (
            sum(r[f"eval_{lang}_bits_per_token"] for lang in SIZES for r in history if f"eval_{lang}_loss" in r) / 3
        )
    assert best.state.best_global_step == min(means, key=means.__getitem__)
    assert best.state.best_metric == pytest.approx(min(means.values()))


def test_what_the_curriculum_explains_reaches_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "board"))
    shown = trainer(tmp_path, max_steps=6, report_to=["tensorboard"], curriculum=curriculum(gate=StepGate({"aze": 5})))
    shown.train()
    board = EventAccumulator(str(tmp_path / "board")).Reload()

    def curve(name: str) -> list[float]:
        return [event.value for event in board.Scalars(f"train/curriculum/{name}")]

    assert curve("admitted/aze") == [0.0, 1.0]
    assert curve("weight/aze")[0] == 0.0 < curve("weight/aze")[1]
    assert curve("competence/tur")[1] == pytest.approx(shown.curriculum.competence["tur"], rel=1e-6)
    passes = Counter(lang for batch in shown.batches for lang in batch)
    assert curve("passes/tur")[1] == pytest.approx(passes["tur"] / SIZES["tur"], rel=1e-6)


def test_a_language_that_was_never_admitted_is_named(tmp_path: Path) -> None:
    waiting = trainer(tmp_path, max_steps=2, curriculum=curriculum(gate=StepGate({"aze": 500})))
    with TestCase().assertLogs("cclm", "WARNING") as logs:
        waiting.train()
    assert any("never admitted, so took no part in training: aze" in line for line in logs.output)


def test_languages_admitted_by_a_callback_are_drawn_at_once(tmp_path: Path) -> None:
    late = trainer(tmp_path, max_steps=2, curriculum=curriculum(gate=StepGate({"aze": 500}), sampler=Temperature(1)))
    late.train()
    assert late.curriculum.admit_remaining() == ("aze",)
    assert "aze" in late.curriculum.weights


@pytest.mark.slow
def test_a_lora_adapter_trains_and_resumes(tmp_path: Path) -> None:
    def adapted() -> Any:
        return get_peft_model(m2m100(), LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="SEQ_2_SEQ_LM"))

    settings = {"save_strategy": "steps", "save_steps": 3, "max_steps": 6}
    whole = trainer(tmp_path, model=adapted(), **settings)
    whole.train()
    resumed = trainer(tmp_path, model=adapted(), **settings)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert resumed.batches == whole.batches[3:]
    assert (
        resumed.state.log_history[-2]["curriculum/weight/aze"] == whole.state.log_history[-2]["curriculum/weight/aze"]
    )
    assert (tmp_path / "checkpoint-6" / "adapter_model.safetensors").exists()


def streamed(lang: str) -> IterableDataset:
    facts = {"lang": lang, "count": SIZES[lang]}
    return IterableDataset.from_generator(lambda lang, count: iter(sentence_pairs(lang, count)), gen_kwargs=facts)


@pytest.mark.slow
def test_streams_are_read_in_order_again_and_again_and_resume_exactly(tmp_path: Path) -> None:
    streams = {"tur": streamed("tur"), "rus": train_sets()["rus"], "aze": streamed("aze")}
    settings: dict[str, Any] = {"train_dataset": streams, "save_strategy": "steps", "save_steps": 8, "max_steps": 16}
    settings |= {"curriculum": curriculum(sampler=FixedWeights({"tur": 1, "rus": 1, "aze": 4}))}
    whole = trainer(tmp_path, **settings)
    whole.train()
    batches = [inputs for inputs in whole.seen if languages(inputs["input_ids"])[0] == "aze"]
    seen = [labels for inputs in batches for labels in inputs["labels"].tolist()]
    expected = [pair["labels"] for pair in sentence_pairs("aze", 12)]
    assert len(seen) > 12  # more than one pass
    assert [[label for label in labels if label >= 0] for labels in seen] == (expected * 5)[: len(seen)]
    resumed = trainer(tmp_path, **settings)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-8"))
    assert [i["labels"].tolist() for i in resumed.seen] == [i["labels"].tolist() for i in whole.seen[8:]]


def test_datasets_of_hugging_face_lose_the_columns_that_the_model_does_not_take(tmp_path: Path) -> None:
    sets = {
        lang: Dataset.from_list(pairs).add_column("text", ["x"] * len(pairs)) for lang, pairs in train_sets().items()
    }
    typed = trainer(tmp_path, train_dataset=sets, max_steps=2)
    typed.train()
    assert typed.seen[0].keys() == {"input_ids", "attention_mask", "labels"}


def test_the_training_loss_is_measured_per_language_and_token(tmp_path: Path) -> None:
    chi = trainer(
        tmp_path, model=m2m100(dropout=0.0), curriculum=curriculum(sampler=ChiSquare(ema=1.0)), max_steps=6,
        gradient_accumulation_steps=2, learning_rate=0.0,
    )  # fmt: skip
    given: list[dict[str, float]] = []
    observe = chi.curriculum.observe

    def noted(**signals: Any) -> Any:
        given.append(signals["train_loss"])
        return observe(**signals)

    chi.curriculum.observe = noted  # type: ignore[method-assign]
    chi.train()
    assert len(given) == 2
    for number, losses in enumerate(given):
        batches = chi.seen[number * 6 : number * 6 + 6]
        for lang, loss in losses.items():
            mine = [inputs for inputs in batches if languages(inputs["input_ids"])[0] == lang]
            with torch.no_grad():
                pairs = [(chi.model(**inputs).logits, inputs["labels"]) for inputs in mine]
            assert loss == pytest.approx(cclm.bits_per_token(pairs), rel=1e-5)
        assert set(losses) == {languages(inputs["input_ids"])[0] for inputs in batches}


class Loudest:
    """Weights by a signal of the user's own."""

    needs = frozenset({"gradient_norm"})

    def weights(self, now: Any) -> dict[str, float]:
        return {lang: now.signals.get("gradient_norm", {}).get(lang, 1.0) for lang in now.admitted}


def test_a_signal_of_ones_own_comes_from_signals(tmp_path: Path) -> None:
    class Measuring(CurriculumTrainer):
        def signals(self, needs: frozenset[str]) -> dict[str, Any]:
            return {name: {"tur": 1.0, "rus": 2.0, "aze": 5.0} for name in needs}

    own = Measuring(
        model=m2m100(), args=arguments(tmp_path, max_steps=3), data_collator=collate, train_dataset=train_sets(),
        eval_dataset=dev_sets(), curriculum=curriculum(sampler=Loudest()),
    )  # fmt: skip
    own.train()
    assert own.curriculum.weights == {"tur": 0.125, "rus": 0.25, "aze": 0.625}


def test_reference_losses_are_measured_once(tmp_path: Path) -> None:
    trained = []

    def bitext(lang: str) -> Seq2SeqTrainer:
        trained.append(lang)
        args = arguments(tmp_path / lang, max_steps=2, per_device_eval_batch_size=3)
        return Seq2SeqTrainer(
            model=m2m100(), args=args, data_collator=collate, train_dataset=train_sets()[lang],
            eval_dataset=dev_sets()[lang],
        )  # fmt: skip

    file = tmp_path / "benchmark.json"
    first = measure_benchmark(bitext, ["aze"], file=file)
    losses = measure_benchmark(bitext, SIZES, file=file)
    assert trained == ["aze", "tur", "rus"]
    assert losses["aze"] == first["aze"]
    assert json.loads(file.read_text())["losses"] == losses
    assert list(measure_benchmark(bitext, ["tur"])) == ["tur"]  # without a file, trained anew
    Curriculum(AllAtOnce(), cclm.InverseCompetence(), sizes=SIZES, benchmark=losses)


def test_a_reference_loss_equals_that_of_the_trained_model(tmp_path: Path) -> None:
    kept: list[Any] = []

    def one_language(lang: str) -> CurriculumTrainer:
        kept.append(
            CurriculumTrainer(
                model=m2m100(), args=arguments(tmp_path, max_steps=2), data_collator=collate,
                train_dataset={lang: train_sets()[lang]}, eval_dataset={lang: dev_sets()[lang]},
                curriculum=Curriculum(AllAtOnce(), Temperature(1), sizes={lang: SIZES[lang]}),
            )
        )  # fmt: skip
        return kept[0]

    measured = measure_benchmark(one_language, ["aze"])["aze"]
    batch = collate(dev_sets()["aze"])
    with torch.no_grad():
        assert measured == pytest.approx(
            cclm.bits_per_token([(kept[0].model(**batch).logits, batch["labels"])]), rel=1e-5
        )


def test_a_reference_trainer_without_dev_set_is_refused(tmp_path: Path) -> None:
    def bitext(lang: str) -> Seq2SeqTrainer:
        args = arguments(tmp_path, eval_strategy="no")
        return Seq2SeqTrainer(model=m2m100(), args=args, data_collator=collate, train_dataset=train_sets()[lang])

    with pytest.raises(ValueError, match=r"the trainer of aze has no eval_dataset: L\* is a dev loss"):
        measure_benchmark(bitext, ["aze"])


def without_labels(examples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    return {name: values for name, values in collate(examples).items() if name != "labels"}


class Nothing(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        return iter(())


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no dev set": ({"eval_dataset": None}, r'eval_dataset is None; give one dataset per language: \{"tur": ...'),
    "one dataset": ({"train_dataset": sentence_pairs("tur", 3)}, "train_dataset is a list; give one dataset per lang"),
    "a language without text": (
        {"train_dataset": {"tur": sentence_pairs("tur", 3), "rus": sentence_pairs("rus", 3)}},
        "train_dataset: nothing for aze, which the curriculum has",
    ),
    "a language without dev set": (
        {"eval_dataset": {"tur": sentence_pairs("tur", 3)}}, "eval_dataset: nothing for aze, rus, which the curr",
    ),
    "another curriculum": (
        {"curriculum": Curriculum(AllAtOnce(), Temperature(1), sizes={"tur": 1, "rus": 1})},
        "train_dataset: aze is not in the curriculum, which has rus, tur",
    ),
    "an empty dataset": ({"train_dataset": train_sets() | {"aze": []}}, "train_dataset: aze is empty"),
    "an empty stream": ({"train_dataset": train_sets() | {"aze": Nothing()}}, "train_dataset: aze is empty"),
    "no labels": ({"data_collator": without_labels}, "train_dataset: the data_collator makes no labels for tur"),
    "no evaluation": ({"eval_strategy": "no"}, "eval_strategy is 'no', but every evaluation is a round: set 'steps'"),
    "another sampling": ({"train_sampling_strategy": "group_by_length"}, "train_sampling_strategy: the curri"),
    "data skipped": ({"ignore_data_skip": True}, "ignore_data_skip: a resume is exact without it"),
    "batches split": ({"accelerator_config": {"split_batches": True}}, "accelerator_config.split_batches"),
    "batches dispatched": ({"accelerator_config": {"dispatch_batches": True}}, "accelerator_config.dispatch_batches"),
    "streams and workers": (
        {"train_dataset": train_sets() | {"aze": streamed("aze")}, "dataloader_num_workers": 2},
        r"dataloader_num_workers is 2, but streams are read in the main process \(aze\): set it to 0",
    ),
    "a signal that nobody measures": (
        {"curriculum": curriculum(sampler=Loudest())}, "the curriculum needs gradient_norm, which is not measured here",
    ),
    "training loss of mixed batches": (
        {"curriculum": curriculum(sampler=ChiSquare()), "mixed_batches": True}, "mixed_batches: the curriculum needs",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_trained_is_refused_before_training(name: str, tmp_path: Path) -> None:
    changes, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        trainer(tmp_path, **changes)


def test_a_trainer_that_changes_its_training_set_in_its_constructor_is_refused(tmp_path: Path) -> None:
    class Changing(Seq2SeqTrainer):
        def __init__(self, *args: Any, train_dataset: Any, **kwargs: Any) -> None:
            super().__init__(*args, train_dataset=list(train_dataset), **kwargs)

    class Mixed(cclm.integrations.transformers.CurriculumMixin, Changing):
        pass

    with pytest.raises(ValueError, match="Mixed prepares its training set while it is constructed"):
        Mixed(
            model=m2m100(), args=arguments(tmp_path), data_collator=collate, train_dataset=train_sets(),
            eval_dataset=dev_sets(), curriculum=curriculum(),
        )  # fmt: skip
