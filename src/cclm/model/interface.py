"""What the training loop asks of a model: logits of the real target tokens, and the tensors that training changes."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from torch import Tensor, nn

# B batch, S source, T target, N real target tokens, V symbols


class TranslationModel(nn.Module, ABC):
    """An encoder-decoder. Our own is `Transformer`, one from elsewhere `Pretrained`."""

    @abstractmethod
    def forward(self, source_BS: Tensor, target_input_BT: Tensor) -> Tensor:
        """The logits (N, V) of the symbol after each real target token, sentence after sentence."""

    def trained(self) -> dict[str, Tensor]:
        """The tensors of a checkpoint: all that training changes, by name."""
        return dict(self.state_dict())

    def load_trained(self, saved: Mapping[str, Tensor]) -> None:
        """Restores what `trained` returned; RuntimeError where it does not fit."""
        self.load_state_dict(saved)
