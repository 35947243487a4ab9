"""The Transformer: its initial parameters and their names, masking, dropout, and learning."""

import math
import random
from typing import Any

import pytest
import torch
from toy_model import SOURCES, TARGET_INPUTS, TARGET_OUTPUTS, padded, shape, stirred

from cclm.data import vocabulary
from cclm.model import PAD, Packing, Transformer, attention, losses, transformer
from cclm.model.random import dropout


def test_model_and_data_use_the_same_padding_id() -> None:
    assert PAD == vocabulary.PAD


ATTENTION = [f"{part}.{kind}" for part in ("query", "key", "value", "output") for kind in ("weight", "bias")]
NORM = ["weight", "bias"]
FEED_FORWARD = ["inner.weight", "inner.bias", "outer.weight", "outer.bias"]


def names(side: str, *attentions: str) -> set[str]:
    parts = {name: ATTENTION for name in attentions} | {f"{name}_norm": NORM for name in attentions}
    parts |= {"feed_forward": FEED_FORWARD, "feed_forward_norm": NORM}
    layers = {f"{side}.layers.{i}.{part}.{tail}" for i in range(2) for part in parts for tail in parts[part]}
    return layers | {f"{side}.norm.weight", f"{side}.norm.bias"}


STACKS = names("encoder", "self_attention") | names("decoder", "self_attention", "cross_attention")


def test_parameter_names_are_fixed() -> None:
    model = Transformer(shape(), seed=1)
    model(padded(SOURCES), padded(TARGET_INPUTS))  # a pass creates the position table, which is not part of the state
    assert set(model.state_dict()) == STACKS | {"source_embedding.weight", "target_embedding.weight"}
    assert set(dict(model.named_parameters())) == set(model.state_dict())


def test_a_joint_model_has_one_embedding_for_source_target_and_output() -> None:
    model = Transformer(shape(source_symbols=13, joint=True), seed=1)
    assert set(model.state_dict()) == STACKS | {"target_embedding.weight"}
    before = model.encode(Packing(padded(SOURCES)))
    with torch.no_grad():
        model.target_embedding.weight[4] += 1
    changed = (model.encode(Packing(padded(SOURCES))) != before).any(dim=1)
    assert changed.tolist() == [True] * 5 + [False] * 2 + [False] * 4  # symbol 4 occurs only in the first source


def test_parameters_are_initialised_as_in_fairseq() -> None:
    width, inner = 64, 256
    model = Transformer(shape(source_symbols=500, target_symbols=700, width=width, feed_forward=inner), seed=1)
    for name, parameter in model.named_parameters():
        kind = name.split(".")[-2]
        if name.endswith("embedding.weight"):
            assert not parameter[0].any()
            # 499 * 64 draws or more: the deviation of a sample deviation is below 1 / sqrt(2 * 31936) = 0.4 %
            assert parameter[1:].std().item() == pytest.approx(width**-0.5, rel=0.02)
            assert parameter[1:].mean().item() == pytest.approx(0, abs=0.005)
        elif kind.endswith("norm"):
            assert (parameter == (1 if name.endswith("weight") else 0)).all()
        elif name.endswith("bias"):
            assert not parameter.any()
        else:
            # Xavier: uniform in +-sqrt(6 / (inputs + outputs)), times sqrt(1/2) for query, key and value
            bound = math.sqrt(6 / sum(parameter.shape)) * (math.sqrt(0.5) if kind in {"query", "key", "value"} else 1)
            assert 0.99 * bound < parameter.abs().max() <= bound * (1 + 1e-6)
            assert parameter.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)


def test_shape_and_seed_determine_the_parameters() -> None:
    first = Transformer(shape(), seed=7).state_dict()
    torch.manual_seed(123)
    again, other = Transformer(shape(), seed=7).state_dict(), Transformer(shape(), seed=8).state_dict()
    drawn = {name for name in first if name.endswith("weight") and "norm" not in name}
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in drawn)


def test_no_two_matrices_are_equal() -> None:
    weights = [p.flatten()[:8].tolist() for name, p in Transformer(shape(), seed=1).named_parameters() if p.dim() == 2]
    weights = [w for w in weights if any(w)]  # the first row of the embeddings is padding
    assert len({tuple(w) for w in weights}) == len(weights)


def test_constructing_a_model_does_not_use_the_global_generator() -> None:
    before = torch.get_rng_state()
    Transformer(shape(), seed=7)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_default_dtype_does_not_change_the_parameters() -> None:
    expected = Transformer(shape(), seed=7).encoder.layers[0].state_dict()["feed_forward.inner.weight"]
    torch.set_default_dtype(torch.float64)
    try:
        found = Transformer(shape(), seed=7).encoder.layers[0].state_dict()["feed_forward.inner.weight"]
    finally:
        torch.set_default_dtype(torch.float32)
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)


def test_a_sentence_alone_has_the_same_logits_as_in_a_padded_batch() -> None:
    model = stirred(Transformer(shape(), seed=1))
    together = model(padded(SOURCES), padded(TARGET_INPUTS)).split([3, 6, 2])
    for source, target, found in zip(SOURCES, TARGET_INPUTS, together, strict=True):
        torch.testing.assert_close(found, model(padded([source]), padded([target])), rtol=0, atol=1e-5)


def test_gradients_of_a_padded_batch_are_the_sum_of_its_sentences() -> None:
    model = stirred(Transformer(shape(), seed=1)).double()

    def gradients(rows: slice) -> dict[str, torch.Tensor]:
        model.zero_grad()
        logits = model(padded(SOURCES[rows]), padded(TARGET_INPUTS[rows]))
        losses(logits, padded(TARGET_OUTPUTS[rows]), smoothing=0.1).smoothed.backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    together, alone = gradients(slice(None)), [gradients(slice(i, i + 1)) for i in range(3)]
    assert set(together) == set(model.state_dict())
    for name, gradient in together.items():
        torch.testing.assert_close(gradient, sum(each[name] for each in alone), rtol=0, atol=1e-10)


@pytest.mark.parametrize("place", range(1, 6))
def test_a_later_target_token_does_not_change_earlier_logits(place: int) -> None:
    model = stirred(Transformer(shape(), seed=1))
    target = torch.tensor([[1, 6, 7, 8, 9, 12]])
    changed = target.clone()
    changed[0, place] = 3
    before, after = model(padded(SOURCES[:1]), target), model(padded(SOURCES[:1]), changed)
    assert torch.equal(before[:place], after[:place])
    assert not torch.isclose(before[place:], after[place:]).all(dim=1).any()


def test_every_source_token_affects_every_target_position() -> None:
    model = stirred(Transformer(shape(), seed=1))
    source, target = padded(SOURCES[:1]), padded(TARGET_INPUTS[:1])
    before = model(source, target)
    for place in range(5):
        changed = source.clone()
        changed[0, place] = 3
        assert not torch.isclose(before, model(changed, target)).all(dim=1).any()


def test_the_order_of_the_source_tokens_matters() -> None:
    model = stirred(Transformer(shape(), seed=1))
    target = padded(TARGET_INPUTS[:1])
    assert not torch.allclose(model(padded([[4, 5, 2]]), target), model(padded([[5, 4, 2]]), target))


def test_encode_decode_and_logits_are_the_forward_pass() -> None:
    model = stirred(Transformer(shape(), seed=1))
    source, target = Packing(padded(SOURCES)), Packing(padded(TARGET_INPUTS))
    states = model.decode(target, model.encode(source), source)
    assert states.shape == (3 + 6 + 2, 8)
    assert torch.equal(model.logits(states), model(padded(SOURCES), padded(TARGET_INPUTS)))
    # logits of a subset of the states are the same rows
    torch.testing.assert_close(model.logits(states[5]), model.logits(states)[5])


def test_computing_the_padding_too_gives_the_same_logits_and_gradients() -> None:
    source, target, logits = padded(SOURCES), padded(TARGET_INPUTS), []
    gradients = []
    for rows in (None, (target != PAD).flatten().nonzero().squeeze(1)):
        model = stirred(Transformer(shape(), seed=1)).double()
        logits.append(model(source, target, rows))
        logits[-1].square().sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    torch.testing.assert_close(logits[0], logits[1], rtol=0, atol=1e-12)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=1e-9)


def dropping(**changes: float) -> Transformer:
    return stirred(Transformer(shape(**changes), seed=1))


def seeded_pass(model: Transformer, seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    logits: torch.Tensor = model(padded(SOURCES), padded(TARGET_INPUTS))
    return logits


KINDS = ["dropout", "attention_dropout", "activation_dropout"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_global_seed_determines_dropout(kind: str) -> None:
    model = dropping(**{kind: 0.5})
    assert torch.equal(seeded_pass(model, 5), seeded_pass(model, 5))
    assert not torch.allclose(seeded_pass(model, 5), seeded_pass(model, 6))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_dropped_in_eval_mode(kind: str) -> None:
    model = dropping(**{kind: 0.5}).eval()
    assert torch.equal(seeded_pass(model, 5), seeded_pass(model, 6))
    torch.testing.assert_close(seeded_pass(model, 5), seeded_pass(dropping(), 5))


@pytest.mark.parametrize(
    ("kind", "factors"), [("dropout", 2 + 2 * 2 + 2 * 3), ("attention_dropout", 2 + 2 * 2), ("activation_dropout", 4)]
)
def test_each_dropout_rate_applies_to_its_layers(monkeypatch: pytest.MonkeyPatch, kind: str, factors: int) -> None:
    # 2 encoder and 2 decoder layers. dropout: 2 embeddings, 2 sublayers per encoder layer, 3 per decoder layer;
    # attention: 1 per encoder layer, 2 per decoder layer; activation: 1 per layer.
    calls = []

    def counted(x: torch.Tensor, rate: float, training: bool = True) -> torch.Tensor:
        calls.append(rate if training else 0.0)
        return dropout(x, rate, training)

    monkeypatch.setattr(transformer, "dropout", counted)
    monkeypatch.setattr(attention, "drop", counted)
    seeded_pass(dropping(**{kind: 0.5}), 5)
    assert sum(p == 0.5 for p in calls) == factors


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 3}, "heads must divide width; got 3 heads and width 8"),
        ({"width": 9, "heads": 3}, "width must be even and at least 4, for sines and cosines; got 9"),
        ({"width": 2}, "width must be even and at least 4, for sines and cosines; got 2"),
        ({"layers": 0}, "layers must be at least 1; got 0"),
        ({"heads": 0}, "heads must be at least 1; got 0"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1; got 1.0"),
        ({"dropout": -0.1}, "dropout must be at least 0 and below 1; got -0.1"),
        ({"attention_dropout": 1.5}, "attention_dropout must be at least 0 and below 1; got 1.5"),
        ({"activation_dropout": math.nan}, "activation_dropout must be at least 0 and below 1; got nan"),
        ({"joint": True}, "a joint embedding needs one vocabulary; got 11 source and 13 target symbols"),
    ],
)
def test_an_invalid_shape_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        shape(**changes)


@pytest.mark.slow
@pytest.mark.parametrize("joint", [False, True])
def test_it_memorises_twenty_pairs(joint: bool) -> None:
    torch.set_num_threads(1)  # a second thread would only slow down so small a model
    symbols, smoothing = 20, 0.1
    draws = random.Random(1)
    sources = [[draws.randrange(4, symbols) for _ in range(draws.randrange(3, 9))] for _ in range(20)]
    targets = [[4 + (3 * symbol) % (symbols - 4) for symbol in reversed(source)] for source in sources]
    source = padded([[*sentence, 2] for sentence in sources])
    target_input = padded([[1, *sentence] for sentence in targets])
    target_output = padded([[*sentence, 2] for sentence in targets])
    settings = {"source_symbols": symbols, "target_symbols": symbols, "width": 32, "feed_forward": 64, "joint": joint}
    model = Transformer(shape(**settings), seed=1)
    adam = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
    for _ in range(300):
        adam.zero_grad()
        loss = losses(model(source, target_input), target_output, smoothing)
        (loss.smoothed / loss.tokens).backward()
        adam.step()
    # The lower bound is the entropy of the smoothed target: one symbol of 1 - e + e/V, the others of e/V.
    right, wrong = 1 - smoothing + smoothing / symbols, smoothing / symbols
    floor = -right * math.log(right) - (symbols - 1) * wrong * math.log(wrong)
    assert 0 < loss.smoothed.item() / loss.tokens - floor < 0.02
    best = model(source, target_input).argmax(dim=1)
    assert torch.equal(best, target_output[target_output != PAD])
