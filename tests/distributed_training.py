"""A program for several processes: trains the toy languages and writes what came of it, from the first of them.

accelerate launch --num_processes 2 ... tests/distributed_training.py FOLDER ACCUMULATION [CHECKPOINT]
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from tiny_models import arguments, collate, curriculum, dev_sets, languages, m2m100, train_sets

from cclm import ChiSquare
from cclm.integrations.transformers import CurriculumTrainer


class Recorder(CurriculumTrainer):
    """Writes the languages of this process's batches."""

    def training_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        with (Path(self.args.output_dir) / f"languages.{self.args.process_index}").open("a") as file:
            file.write(languages(inputs["input_ids"])[0] + "\n")
        return super().training_step(model, inputs, *args, **kwargs)


def main(folder: Path, accumulation: int, checkpoint: str | None = None) -> None:
    settings: dict[str, Any] = {"gradient_accumulation_steps": accumulation, "max_steps": 9, "save_steps": 5}
    settings |= {"ddp_backend": "gloo"} if "WORLD_SIZE" in os.environ else {}
    method = curriculum(sampler=ChiSquare(ema=1.0, rho=0.02))  # weights that follow every change of a training loss
    trainer = Recorder(
        model=m2m100(dropout=0.0), args=arguments(folder, save_strategy="steps", **settings), data_collator=collate,
        train_dataset=train_sets(), eval_dataset=dev_sets(), curriculum=method,
    )  # fmt: skip
    trainer.train(resume_from_checkpoint=checkpoint)
    state = trainer.curriculum.state_dict()
    (folder / f"weights.{trainer.args.process_index}").write_text(json.dumps(state["weights"]))
    if trainer.is_world_process_zero():
        losses = [record["loss"] for record in trainer.state.log_history if "loss" in record]
        parameters = {name: value.double().sum().item() for name, value in trainer.model.state_dict().items()}
        logged = "curriculum/weight/tur"
        weights = [record[logged] for record in trainer.state.log_history if logged in record]
        result = {"losses": losses, "parameters": parameters, "dev_loss": state["dev_loss"], "weights": weights}
        (folder / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
