"""Fine-tunes a language model with TRL on several domains whose shares change. DATA has {domain}.{train,dev}.txt.

python examples/trl_domains.py Qwen/Qwen3-0.6B DATA 3000
"""

import sys
from pathlib import Path

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

from cclm import AllAtOnce, Curriculum, Temperature
from cclm.integrations.transformers import CurriculumMixin

NAME, DATA, STEPS = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
DOMAINS = sorted(path.name.split(".")[0] for path in DATA.glob("*.train.txt"))


class DomainTrainer(CurriculumMixin, SFTTrainer):
    """TRL's trainer with one dataset per domain."""


def texts(domain: str, split: str) -> Dataset:
    return Dataset.from_list([{"text": line} for line in (DATA / f"{domain}.{split}.txt").read_text().splitlines()])


train, dev = ({domain: texts(domain, split) for domain in DOMAINS} for split in ("train", "dev"))
curriculum = Curriculum(
    AllAtOnce(),
    Temperature([(0, 5), (STEPS // 2, 1)]),  # nearly uniform in the first half, proportional in the second
    sizes={domain: len(each) for domain, each in train.items()},
)
trainer = DomainTrainer(
    model=AutoModelForCausalLM.from_pretrained(NAME),
    args=SFTConfig(
        "out",
        max_steps=STEPS,
        max_length=512,
        eval_strategy="steps",
        eval_steps=STEPS // 10,
        report_to="none",
        bf16=torch.cuda.is_available(),
    ),
    processing_class=AutoTokenizer.from_pretrained(NAME),
    train_dataset=train,
    eval_dataset=dev,
    curriculum=curriculum,
    mixed_batches=True,  # a domain is drawn for every example
)
trainer.train()
for domain, loss in curriculum.explain()["dev_loss"].items():
    print(f"{domain:12} {loss:.2f} bits per token, weight {curriculum.weights[domain]:.2f}")
