"""curriculum.json in a checkpoint of Hugging Face's Trainer: what the curriculum needs to resume exactly."""

from typing import Any, ClassVar

from cclm.formats.base import JsonFile

NAME = "curriculum.json"


class TrainerCheckpoint(JsonFile):
    """The states are those of `Curriculum.state_dict` and `BatchSampler.state_dict`, which check themselves."""

    advice: ClassVar[str] = "resume from a checkpoint that CurriculumTrainer saved"
    curriculum: dict[str, Any]
    batches: dict[str, Any]
    """The draws that training has consumed, without those that were fetched ahead."""
    batch_size: int
    """Examples per batch."""
    batches_per_step: int
    """Accumulation times processes."""
    train_bits: dict[str, tuple[float, float]]
    """Bits and target tokens of the training batches per language since the last round, where a method needs them."""
