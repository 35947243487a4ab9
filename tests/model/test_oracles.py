"""The Transformer compared with torch's (logits and gradients) and with Hugging Face's (position embeddings)."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from toy_model import SOURCES, TARGET_INPUTS, TARGET_OUTPUTS, padded, shape, stirred
from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding

from cclm.model import Packing, Shape, Transformer, losses
from cclm.model.attention import attend, explicit, fused
from cclm.model.transformer import Positions, sinusoids

NORMS = {
    "encoder": {"self_attention_norm": "norm1", "feed_forward_norm": "norm2"},
    "decoder": {"self_attention_norm": "norm1", "cross_attention_norm": "norm2", "feed_forward_norm": "norm3"},
}


def torch_transformer(dims: Shape) -> nn.Transformer:
    kinds = {"nhead": dims.heads, "dim_feedforward": dims.feed_forward, "dropout": 0.0, "norm_first": True}
    layer = nn.TransformerEncoderLayer(dims.width, batch_first=True, **kinds)
    # built here because nn.Transformer's own encoder warns that it cannot use nested tensors
    encoder = nn.TransformerEncoder(layer, dims.layers, nn.LayerNorm(dims.width), enable_nested_tensor=False)
    counts = {"num_encoder_layers": dims.layers, "num_decoder_layers": dims.layers}
    return nn.Transformer(dims.width, batch_first=True, custom_encoder=encoder, **counts, **kinds).double()


def in_torchs_names(ours: dict[str, Tensor], layers: int) -> dict[str, Tensor]:
    """Our parameters, or their gradients, by their names in nn.Transformer."""
    theirs = {}
    for side, norms in NORMS.items():
        for kind in ("weight", "bias"):
            theirs[f"{side}.norm.{kind}"] = ours[f"{side}.norm.{kind}"]
            for i in range(layers):
                here = f"{side}.layers.{i}."
                for mine, name in {"self_attention": "self_attn", "cross_attention": "multihead_attn"}.items():
                    if f"{mine}_norm" in norms:
                        parts = [ours[f"{here}{mine}.{part}.{kind}"] for part in ("query", "key", "value")]
                        theirs[f"{here}{name}.in_proj_{kind}"] = torch.cat(parts)
                        theirs[f"{here}{name}.out_proj.{kind}"] = ours[f"{here}{mine}.output.{kind}"]
                for mine, name in {**norms, "feed_forward.inner": "linear1", "feed_forward.outer": "linear2"}.items():
                    theirs[f"{here}{name}.{kind}"] = ours[f"{here}{mine}.{kind}"]
    return theirs


def worked_out(length: int, width: int) -> Tensor:
    """The formula of fairseq, element by element."""
    rows = []
    for position in range(2, length + 2):
        angles = [position * math.exp(-math.log(10000) * i / (width / 2 - 1)) for i in range(width // 2)]
        rows.append([*map(math.sin, angles), *map(math.cos, angles)])
    return torch.tensor(rows, dtype=torch.float64)


def torch_logits(model: nn.Transformer, source_table: Tensor, target_table: Tensor) -> Tensor:
    def embed(table: Tensor, ids: Tensor) -> Tensor:
        return F.embedding(ids, table, padding_idx=0) * table.shape[1] ** 0.5 + worked_out(ids.shape[1], table.shape[1])

    source, target = padded(SOURCES), padded(TARGET_INPUTS)
    states = model(
        embed(source_table, source),
        embed(target_table, target),
        tgt_mask=torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1),
        src_key_padding_mask=source == 0,
        tgt_key_padding_mask=target == 0,
        memory_key_padding_mask=source == 0,
    )
    return states @ target_table.T


@pytest.mark.parametrize("joint", [False, True])
def test_logits_and_gradients_equal_those_of_torchs_transformer(joint: bool) -> None:
    dims = shape(layers=3, heads=4, source_symbols=13 if joint else 11, joint=joint)
    model = stirred(Transformer(dims, seed=1)).double()
    reference = torch_transformer(dims)
    reference.load_state_dict(in_torchs_names(model.state_dict(), dims.layers))
    target_table = model.target_embedding.weight.detach().clone().requires_grad_()
    source_table = target_table
    if model.source_embedding is not None:
        source_table = model.source_embedding.weight.detach().clone().requires_grad_()

    ours, theirs = model(padded(SOURCES), padded(TARGET_INPUTS)), torch_logits(reference, source_table, target_table)
    output = padded(TARGET_OUTPUTS)
    torch.testing.assert_close(ours, theirs[output != 0], rtol=0, atol=1e-10)

    losses(ours, output, 0.1).smoothed.backward()
    flat = theirs.flatten(0, 1), output.flatten()
    F.cross_entropy(*flat, label_smoothing=0.1, ignore_index=0, reduction="sum").backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert set(gradients) == set(model.state_dict())
    torch.testing.assert_close(gradients.pop("target_embedding.weight"), target_table.grad, rtol=0, atol=1e-10)
    if not joint:
        torch.testing.assert_close(gradients.pop("source_embedding.weight"), source_table.grad, rtol=0, atol=1e-10)
    expected = {name: p.grad for name, p in reference.named_parameters()}
    found = in_torchs_names(gradients, dims.layers)
    assert set(found) == set(expected)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=0, atol=1e-10, msg=name)


def test_positions_follow_fairseqs_formula() -> None:
    torch.testing.assert_close(sinusoids(50, 12), worked_out(50, 12), rtol=0, atol=1e-12)


def test_positions_equal_those_of_hugging_face() -> None:
    theirs = M2M100SinusoidalPositionalEmbedding(300, 64, padding_idx=1)(torch.full((1, 300), 5))[0]
    # Hugging Face multiplies in float32: at position 300 the angle has an error of 300 * 2**-23 = 4e-5.
    torch.testing.assert_close(sinusoids(300, 64).float(), theirs, rtol=0, atol=1e-4)


def test_positions_have_any_length_and_the_dtype_of_the_input() -> None:
    positions = Positions(12)
    for length, dtype, within in [(3, torch.float32, 1e-7), (2000, torch.float32, 1e-7), (5, torch.float64, 1e-12)]:
        added = positions(torch.zeros(length, 12, dtype=dtype), Packing(torch.ones(1, length)))
        assert added.dtype == dtype
        torch.testing.assert_close(added, worked_out(length, 12).to(dtype), rtol=0, atol=within)
        again = positions(torch.zeros(3, 12, dtype=dtype), Packing(torch.tensor([[5, 5], [5, 0]])))
        assert torch.equal(again, added[[0, 1, 0]])
    assert not positions.state_dict()


def test_positions_created_in_inference_mode_can_be_used_in_training() -> None:
    model = Transformer(shape(), seed=1)
    with torch.inference_mode():
        expected = model(padded(SOURCES), padded(TARGET_INPUTS))
    logits = model(padded(SOURCES), padded(TARGET_INPUTS))
    logits.sum().backward()
    torch.testing.assert_close(logits, expected.clone())


def heads(seed: int, length: int) -> Tensor:
    return torch.randn(2, 3, length, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("causal", [False, True])
def test_fused_and_explicit_attention_agree(causal: bool) -> None:
    query, key, value = heads(1, 5), heads(2, 5 if causal else 7), heads(3, 5 if causal else 7)
    keys = Packing(torch.ones(2, 5) if causal else torch.tensor([[1] * 7, [1] * 4 + [0] * 3]))
    for inputs in ((query, key, value), (query, key * 50, value)):
        options = {"keys": keys, "causal": causal, "dropout": 0.0}
        torch.testing.assert_close(explicit(*inputs, **options), fused(*inputs, **options), rtol=0, atol=1e-10)


def test_attention_on_a_cpu_is_explicit() -> None:
    def dropped(way: object) -> Tensor:
        assert callable(way)
        torch.manual_seed(1)
        keys = Packing(torch.ones(2, 7))
        mixed: Tensor = way(heads(1, 5), heads(2, 7), heads(3, 7), keys=keys, causal=False, dropout=0.5)
        return mixed

    assert torch.equal(dropped(attend), dropped(explicit))


@pytest.mark.parametrize(("few", "products"), [(1 << 18, torch.float32), (0, torch.bfloat16)])
def test_few_scores_are_multiplied_in_float32_on_a_cpu(
    few: int, products: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cclm.model.attention.FEW_SCORES", few)
    seen = []
    monkeypatch.setattr("cclm.model.attention.drop", lambda weights, rate: (seen.append(weights.dtype), weights)[1])
    inputs = [heads(seed, length).bfloat16() for seed, length in ((1, 5), (2, 7), (3, 7))]
    options = {"keys": Packing(torch.ones(2, 7)), "causal": False, "dropout": 0.0}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = explicit(*inputs, **options)
    assert (mixed.dtype, seen) == (torch.bfloat16, [products])
    expected = explicit(*(x.double() for x in inputs), **options)
    torch.testing.assert_close(mixed.double(), expected, rtol=2**-6, atol=2**-6)
