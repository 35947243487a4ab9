"""What the training loop asks of a model: logits of the real target tokens, and the tensors that training changes."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch.nn.functional as F
from torch import Tensor, nn

# B batch, S source, T target, N real target tokens, D model, V symbols


class TranslationModel(nn.Module, ABC):
    """An encoder-decoder. Our own is `Transformer`, one from elsewhere `Pretrained`."""

    def forward(self, source_BS: Tensor, target_input_BT: Tensor, rows_N: Tensor | None = None) -> Tensor:
        """The logits (N, V) of the symbol after each real target token, sentence after sentence.

        `rows_N` are the numbers of these tokens in the flattened target. Without it the model looks for them, which a
        GPU would have to be waited for.
        """
        return self.logits(self.states(source_BS, target_input_BT, rows_N))

    @abstractmethod
    def states(self, source_BS: Tensor, target_input_BT: Tensor, rows_N: Tensor | None = None) -> Tensor:
        """The output (N, D) of the decoder at each real target token; `forward` explains `rows_N`."""

    @abstractmethod
    def output(self) -> tuple[Tensor, Tensor | None]:
        """The matrix (V, D) that projects states to logits, and what is then added to them, if anything, (V)."""

    def logits(self, states: Tensor) -> Tensor:
        """Projects states (..., D) to logits (..., V)."""
        weight_VD, bias_V = self.output()
        logits = F.linear(states, weight_VD)
        return logits if bias_V is None else logits + bias_V

    @property
    def symbols(self) -> int:
        """The number V of target symbols."""
        return len(self.output()[0])

    def trained(self) -> dict[str, Tensor]:
        """The tensors of a checkpoint: all that training changes, by name."""
        return dict(self.state_dict())

    def load_trained(self, saved: Mapping[str, Tensor]) -> None:
        """Restores what `trained` returned; RuntimeError where it does not fit."""
        self.load_state_dict(saved)
