"""A resumed training equals one without interruption: the same batches, weights, losses."""

from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from tiny_models import (
    arguments,
    collate,
    collate_for_smoothing,
    curriculum,
    dev_sets,
    m2m100,
    marian,
    nllb,
    nllb_tokenizer,
    train_sets,
)
from transformers import DataCollatorForSeq2Seq

from cclm import ChiSquare
from cclm.errors import DataError
from cclm.integrations.transformers import CurriculumTrainer


class Recorder(CurriculumTrainer):
    """Keeps the batches that it trains on."""

    def training_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        self.__dict__.setdefault("seen", []).append([inputs["input_ids"].tolist(), inputs["labels"].tolist()])
        return super().training_step(model, inputs, *args, **kwargs)


def trainer(folder: Path, model: Any = m2m100, method: Any = None, **settings: Any) -> Recorder:
    given: dict[str, Any] = {"train_dataset": train_sets(), "eval_dataset": dev_sets(), "mixed_batches": False}
    given["data_collator"] = collate_for_smoothing if "label_smoothing_factor" in settings else collate
    given |= {name: settings.pop(name) for name in list(settings) if name in given}
    return Recorder(model=model(), args=arguments(folder, **settings), curriculum=method or curriculum(), **given)


def curve(of: Recorder) -> dict[int, float]:
    return {record["step"]: record["loss"] for record in of.state.log_history if "loss" in record}


def same(whole: Recorder, resumed: Recorder, step: int, per_step: int) -> None:
    assert resumed.seen == whole.seen[step * per_step :]
    assert len(resumed.seen) == (12 - step) * per_step
    assert curve(resumed) == pytest.approx(curve(whole), abs=1e-6)
    assert resumed.curriculum.state_dict() == whole.curriculum.state_dict()
    ours, theirs = resumed.model.state_dict(), whole.model.state_dict()
    assert all((ours[name] - theirs[name]).abs().max() < 1e-6 for name in theirs)


SETTINGS = {
    "plain": {},
    "accumulation": {"gradient_accumulation_steps": 3},
    "workers": {"dataloader_num_workers": 2},
    "workers, accumulation": {"dataloader_num_workers": 2, "gradient_accumulation_steps": 2},
    "mixed batches": {"mixed_batches": True, "dataloader_num_workers": 1},
    "several epochs": {"per_device_train_batch_size": 15, "max_steps": -1, "num_train_epochs": 1.3},
    "evaluated at the start": {"eval_on_start": True},
    "label smoothing": {"label_smoothing_factor": 0.1},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_a_resumed_training_equals_one_without_interruption(name: str, tmp_path: Path) -> None:
    settings = {"save_strategy": "steps", "save_steps": 4, **SETTINGS[name]}
    if "max_steps" in settings:  # an epoch has 9 steps: 122 sentences, 15 at a time; resumed before and after its end
        settings |= {"num_train_epochs": 12 / 9}
    whole = trainer(tmp_path, **settings)
    whole.train()
    per_step = settings.get("gradient_accumulation_steps", 1)
    for step in (8,) if "dataloader_num_workers" in settings else (4, 8):
        resumed = trainer(tmp_path, **settings)
        resumed.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{step}"))
        same(whole, resumed, step, per_step)


@pytest.mark.slow
def test_a_resume_of_a_resume_at_the_end_of_an_epoch_is_exact_too(tmp_path: Path) -> None:
    # 122 sentences, 31 at a time: 4 steps per epoch, so both checkpoints are at the end of one.
    settings = {"save_strategy": "steps", "save_steps": 4, "per_device_train_batch_size": 31}
    whole = trainer(tmp_path / "whole", **settings)
    whole.train()
    trainer(tmp_path / "cut", **settings | {"max_steps": 4, "lr_scheduler_type": "constant"}).train()
    for steps in (8, 12):
        cut = trainer(tmp_path / "cut", **settings | {"max_steps": steps, "lr_scheduler_type": "constant"})
        cut.train(resume_from_checkpoint=True)
        assert cut.seen == whole.seen[steps - 4 : steps]


def nllb_sets(count: int, *, start: int = 0) -> dict[str, Dataset]:
    """Sentences of three languages into English, as NLLB's tokenizer encodes them."""
    words = {"tur": ("bu ev kitap kim", "tur_Latn"), "rus": ("это дом книга кто", "rus_Cyrl")}
    words |= {"aze": ("bu ev kitab kim", "azj_Latn")}
    english, tokenizer, sets = ["this", "house", "book", "who"], nllb_tokenizer(), {}
    tokenizer.tgt_lang = "eng_Latn"
    for lang, (text, tokenizer.src_lang) in words.items():
        orders = [(n % 4, n // 4 % 4, n // 16 % 4) for n in range(start, start + count)]
        joined = [(" ".join(text.split()[n] for n in order), " ".join(english[n] for n in order)) for order in orders]
        sets[lang] = Dataset.from_list([dict(tokenizer(source, text_target=target)) for source, target in joined])
    return sets


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", ["nllb", "marian"])
def test_nllb_and_marian_resume_exactly(name: str, workers: int, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"save_strategy": "steps", "save_steps": 4, "dataloader_num_workers": workers}
    if name == "nllb":
        settings |= {"model": nllb, "data_collator": DataCollatorForSeq2Seq(nllb_tokenizer())}
        settings |= {"train_dataset": nllb_sets(40), "eval_dataset": nllb_sets(5, start=40)}
    whole = trainer(tmp_path, **{"model": marian} | settings)
    whole.train()
    resumed = trainer(tmp_path, **{"model": marian} | settings)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-8"))
    same(whole, resumed, 8, 1)


@pytest.mark.slow
def test_a_training_loss_between_two_rounds_is_saved(tmp_path: Path) -> None:
    settings = {"save_strategy": "steps", "save_steps": 4}
    whole = trainer(tmp_path, method=curriculum(sampler=ChiSquare(ema=1.0, rho=0.5)), **settings)
    whole.train()
    resumed = trainer(tmp_path, method=curriculum(sampler=ChiSquare(ema=1.0, rho=0.5)), **settings)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-8"))  # the rounds are at 6 and 9
    same(whole, resumed, 8, 1)
    assert len(set(whole.curriculum.weights.values())) == 3


def test_a_checkpoint_without_curriculum_is_refused(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-4").mkdir()
    saved = trainer(tmp_path, save_strategy="steps", save_steps=4, max_steps=4)
    saved.train()
    (tmp_path / "checkpoint-4" / "curriculum.json").unlink()
    with pytest.raises(DataError, match=r"checkpoint-4/curriculum.json: No such file or directory; resume from a"):
        trainer(tmp_path).train(resume_from_checkpoint=True)


def test_the_checkpoint_of_another_curriculum_is_refused(tmp_path: Path) -> None:
    trainer(tmp_path, save_strategy="steps", save_steps=2, max_steps=2).train()
    with pytest.raises(ValueError, match=r"state of another curriculum: smoothing was 0\.0, here it is 0\.5"):
        trainer(tmp_path, method=curriculum(smoothing=0.5)).train(resume_from_checkpoint=True)


def test_other_batches_per_step_are_refused(tmp_path: Path) -> None:
    trainer(tmp_path, save_strategy="steps", save_steps=2, max_steps=2).train()
    message = "a step had 1 batches of 4, here it has 2 of 4; a resume needs the same batch size and the same"
    with pytest.raises(ValueError, match=message):
        trainer(tmp_path, gradient_accumulation_steps=2).train(resume_from_checkpoint=True)


def test_a_second_train_starts_anew(tmp_path: Path) -> None:
    twice = trainer(tmp_path, max_steps=4)
    twice.train()
    first, rounds = list(twice.seen), twice.curriculum.explain()["round"]
    twice.train()
    assert twice.seen[:4] == twice.seen[4:] == first
    assert twice.curriculum.explain()["round"] == rounds
