"""TRL's SFTTrainer with three domains."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_domains import BENCHMARK, DOMAINS, SIZES, model, texts, tokenizer
from trl import SFTConfig, SFTTrainer

import cclm
from cclm import AllAtOnce, Curriculum, InverseCompetence, StepGate, Temperature
from cclm.integrations.transformers import CurriculumMixin


class DomainTrainer(CurriculumMixin, SFTTrainer):
    """As a user writes it."""


def trainer(folder: Path, curriculum: Curriculum | None = None, **settings: Any) -> DomainTrainer:
    args = SFTConfig(
        str(folder),
        **{
            "per_device_train_batch_size": 2, "max_steps": 6, "eval_strategy": "steps", "eval_steps": 3,
            "save_strategy": "steps", "save_steps": 3, "logging_steps": 1, "use_cpu": True, "bf16": False,
            "disable_tqdm": True, "dataloader_pin_memory": False, "max_length": 16,
            "learning_rate": 1e-2, "report_to": [],
        } | settings,
    )  # fmt: skip
    return DomainTrainer(
        model=model(), args=args, processing_class=tokenizer(),
        train_dataset={domain: texts(domain, size) for domain, size in SIZES.items()},
        eval_dataset={domain: texts(domain, 5) for domain in DOMAINS},
        curriculum=curriculum or Curriculum(AllAtOnce(), InverseCompetence(), sizes=SIZES, benchmark=BENCHMARK),
    )  # fmt: skip


@pytest.mark.slow
def test_three_domains_are_trained_and_resumed(tmp_path: Path) -> None:
    whole = trainer(tmp_path)
    whole.train()
    resumed = trainer(tmp_path)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert resumed.curriculum.state_dict() == whole.curriculum.state_dict()
    assert whole.curriculum.explain()["round"] == 2
    losses = [[r["loss"] for r in each.state.log_history if "loss" in r] for each in (whole, resumed)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)
    assert losses[0][-1] < losses[0][0]


@pytest.mark.slow
def test_the_dev_loss_of_a_domain_is_in_bits_per_token(tmp_path: Path) -> None:
    measured = trainer(tmp_path)
    metrics = measured.evaluate()
    for domain in DOMAINS:
        rows = [torch.tensor([row]) for row in measured.eval_dataset[domain]["input_ids"]]
        with torch.no_grad():
            expected = cclm.bits_per_token(((measured.model(ids).logits, ids) for ids in rows), shift=True)
        assert metrics[f"eval_{domain}_bits_per_token"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("packing", [False, True])
def test_a_domain_that_waits_is_not_drawn(packing: bool, tmp_path: Path) -> None:
    waiting = Curriculum(StepGate({"law": 500, "news": 500}), Temperature(1), sizes=SIZES)
    settings: dict[str, Any] = {"packing": packing, "packing_strategy": "wrapped", "save_strategy": "no"}
    alone = trainer(tmp_path, waiting, **settings)
    if packing:  # every domain was packed on its own
        assert all(alone.train_dataset.sizes[domain] < SIZES[domain] for domain in SIZES)
    alone.train()
    record = next(r for r in reversed(alone.state.log_history) if "curriculum/passes/law" in r)
    assert record["curriculum/passes/law"] == record["curriculum/passes/news"] == 0
    assert record["curriculum/passes/code"] == 12 / alone.train_dataset.sizes["code"]
