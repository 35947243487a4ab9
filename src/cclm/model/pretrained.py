"""A pretrained model of Hugging Face's, trained by the same loop as ours: NLLB, M2M100, mBART-50 and Marian.

These models compute on padded batches; only the output projection, the largest product, is restricted to real tokens.
Their dropout uses torch's global generator, as ours does.
"""

# B batch, S source, T target, N real target tokens, D model, V symbols

import copy
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cclm.model.interface import TranslationModel
from cclm.model.packing import rows

ATTENTION = ("q_proj", "k_proj", "v_proj", "out_proj")
"""The linear layers that adapters are added to, by their names in all of these models."""


@dataclass(frozen=True)
class Adapters:
    """The settings of LoRA."""

    rank: int
    alpha: int
    dropout: float


@dataclass(frozen=True)
class Start:
    """How a pretrained model is prepared for training."""

    pad: int
    symbols: int
    """Rows of the embedding: those of the model, and one per new language code."""
    new: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """New rows, and the rows whose mean each starts from."""
    dropouts: Mapping[str, float] = field(default_factory=dict)
    """Dropout rates that replace the model's own."""
    freeze: str | None = None
    """`embeddings`, `encoder` or None."""
    lora: Adapters | None = None
    seed: int = 1
    """Of the initial adapters."""


class Pretrained(TranslationModel):
    """A model of Hugging Face's behind the interface of ours.

    Ids are the model's own. Checkpoints have what is trained; everything else is read from the model's folder again.
    """

    def __init__(self, model: nn.Module, pad: int) -> None:
        super().__init__()
        self.model, self.pad = model, pad

    def states(self, source_BS: Tensor, target_input_BT: Tensor, rows_N: Tensor | None = None) -> Tensor:
        """The output (N, D) of the decoder at each real target token."""
        model: Any = self.model  # transformers' classes have these attributes, nn.Module has not
        states_BTD = model.model(
            input_ids=source_BS,
            attention_mask=(source_BS != self.pad).long(),
            decoder_input_ids=target_input_BT,
            use_cache=False,
        ).last_hidden_state
        if rows_N is not None:
            return rows(states_BTD.flatten(0, 1), rows_N)
        real_BT = target_input_BT != self.pad
        real_BT[:, 0] = True  # Marian's decoder starts with the symbol for padding
        real_ND: Tensor = states_BTD[real_BT]
        return real_ND

    def output(self) -> tuple[Tensor, Tensor | None]:
        """The output embedding (V, D), and the bias of mBART-50 and Marian (V)."""
        model: Any = self.model
        bias_1V = getattr(model, "final_logits_bias", None)
        return model.lm_head.weight, None if bias_1V is None else bias_1V[0]

    @property
    def starts_from_zero(self) -> bool:
        """Whether the embedding of padding is zero, as Marian's decoder wants it."""
        model: Any = self.model
        return not bool(model.get_input_embeddings().weight[self.pad].any())

    def trained(self) -> dict[str, Tensor]:
        """The parameters that training changes, tied ones once."""
        return {name: parameter.detach() for name, parameter in self._trained_parameters().items()}

    def load_trained(self, saved: Mapping[str, Tensor]) -> None:
        """Restores what `trained` returned; RuntimeError where it does not fit."""
        own = self._trained_parameters()
        if own.keys() != saved.keys():
            raise RuntimeError(f"other parameters are trained: {', '.join(sorted(own.keys() ^ saved.keys())[:3])}")
        with torch.no_grad():
            for name, parameter in own.items():
                if parameter.shape != saved[name].shape:
                    raise RuntimeError(f"{name} has shape {tuple(saved[name].shape)}, not {tuple(parameter.shape)}")
                parameter.copy_(saved[name])

    def merged(self) -> nn.Module:
        """A copy of the model itself, with its adapters merged into its weights."""
        model = copy.deepcopy(self.model)
        for parent in list(model.modules()):
            for name, module in parent.named_children():
                if hasattr(module, "lora_A"):
                    module.merge()  # type: ignore[operator]  # of peft's layers
                    setattr(parent, name, module.base_layer)
        return model

    def _trained_parameters(self) -> dict[str, nn.Parameter]:
        return {name: parameter for name, parameter in self.named_parameters() if parameter.requires_grad}


def load(folder: Path, start: Start) -> Pretrained:
    """The model in a folder, ready for training. Weights are read from safetensors files alone."""
    with quiet():
        from transformers import AutoModelForSeq2SeqLM

        model = AutoModelForSeq2SeqLM.from_pretrained(folder, use_safetensors=True, dtype=torch.float32)
        _set_rates(model, start.dropouts)
        if start.new:
            _add_rows(model, start)
    weight = model.get_input_embeddings().weight
    if start.lora:
        _add_adapters(model, start.lora, start.seed)
        weight = model.get_input_embeddings().weight
    _freeze(model, weight, start)
    if model.config.model_type == "marian":
        # It starts from the embedding of padding, which is zero: CTranslate2 relies on that. As output its row would be
        # trained.
        _train_rows(weight, without=[start.pad])
        for side in (model.model.encoder, model.model.decoder):  # sines and cosines, which transformers would train
            side.embed_positions.weight.requires_grad = False
    return Pretrained(model, start.pad)


def _set_rates(model: Any, dropouts: Mapping[str, float]) -> None:
    """Replaces dropout rates. No layer is left out at random: several processes would then wait for its gradient."""
    for module in model.modules():
        if hasattr(module, "q_proj"):
            module.dropout = dropouts.get("attention_dropout", module.dropout)
            continue
        for name, rate in {**dropouts, "layerdrop": 0.0}.items():
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, rate)


@torch.no_grad()
def _add_rows(model: Any, start: Start) -> None:
    """Appends rows to the embedding, each the mean of others."""
    model.resize_token_embeddings(start.symbols, mean_resizing=False)
    tables = {id(layer.weight): layer.weight for layer in (model.get_input_embeddings(), model.get_output_embeddings())}
    for weight in tables.values():
        for row, sources in start.new.items():
            weight[row] = weight[list(sources)].mean(dim=0)
    bias = getattr(model, "final_logits_bias", None)
    if bias is not None:
        for row, sources in start.new.items():
            bias[0, row] = bias[0, list(sources)].mean()


def _add_adapters(model: Any, lora: Adapters, seed: int) -> None:
    from peft import LoraConfig, inject_adapter_in_model

    config = LoraConfig(r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=list(ATTENTION))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inject_adapter_in_model(config, model)


def _freeze(model: Any, embedding: nn.Parameter, start: Start) -> None:
    """Decides what is trained. Frozen embeddings still train the rows of new codes, which are nobody's yet."""
    if start.freeze == "encoder":
        for parameter in model.model.encoder.parameters():
            if parameter is not embedding:
                parameter.requires_grad = False
    if start.freeze == "embeddings":
        embedding.requires_grad = False
        model.get_output_embeddings().weight.requires_grad = False
    if start.new and not embedding.requires_grad:
        embedding.requires_grad = True
        _train_rows(embedding, only=list(start.new))


def _train_rows(weight: nn.Parameter, *, only: list[int] | None = None, without: Sequence[int] = ()) -> None:
    """Restricts the gradient to some rows. Adam does not move a row whose gradient is always zero."""

    def restrict(parameter: Tensor) -> None:
        assert parameter.grad is not None
        if only is not None:
            kept = parameter.grad[only].clone()
            parameter.grad.zero_()
            parameter.grad[only] = kept
        parameter.grad[list(without)] = 0

    if weight.requires_grad:
        weight.register_post_accumulate_grad_hook(restrict)  # type: ignore[no-untyped-call]


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps transformers from printing its own messages and progress."""
    import transformers.utils.logging as chatter

    verbosity = chatter.get_verbosity()
    chatter.set_verbosity(logging.ERROR)
    bars = chatter.is_progress_bar_enabled()
    chatter.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        chatter.set_verbosity(verbosity)
        if bars:
            chatter.enable_progress_bar()  # type: ignore[no-untyped-call]


def log_probabilities(model: TranslationModel, source: Sequence[int], target_input: Sequence[int]) -> Tensor:
    """(N, V): the natural log-probabilities of one sentence, as CTranslate2 computes them.

    It cannot translate into Marian's padding: the distribution is over the other symbols.
    """
    with torch.no_grad():
        logits_NV = model(torch.tensor([list(source)]), torch.tensor([list(target_input)]))
        if isinstance(model, Pretrained) and model.model.config.model_type == "marian":  # type: ignore[union-attr]
            logits_NV[:, model.pad] = -torch.inf
        return F.log_softmax(logits_NV, dim=-1)
