"""The export against a Transformer in plain torch: the same numbers, and nothing done to the weights."""

import hashlib
import random
from pathlib import Path

import numpy as np
import pytest
from translation.reference_model import SPECIALS, TAGS, Reference, symbols

from cclm.translation.convert import convert, positions
from cclm.translation.export import verify
from cclm.translation.translator import POSITIONS, ExportError, Sample, Translator


def exported(model: Reference, folder: Path, **changes: object) -> Translator:
    arguments = {
        "heads": model.heads,
        "source_symbols": model.source_symbols,
        "target_symbols": model.target_symbols,
        "folder": folder,
    }
    convert(model.state(), **{**arguments, **changes})  # type: ignore[arg-type]
    return Translator(folder)


def random_samples(model: Reference, count: int, longest: int = 15) -> list[Sample]:
    """Sources with and without a tag, targets behind a tag or <s>, pieces and <unk> in both."""
    chance = random.Random(5)
    sources, targets = ([s[3], *s[7:]] for s in (model.source_symbols, model.target_symbols))
    return [
        (
            [*chance.choice([[], *([tag] for tag in TAGS)]), *chance.choices(sources, k=chance.randint(1, longest))],
            [chance.choice(["<s>", *TAGS]), *chance.choices(targets, k=chance.randint(0, longest))],
        )
        for _ in range(count)
    ]


def fingerprint(model: Reference) -> str:
    return hashlib.sha256(b"".join(weight.tobytes() for weight in model.state().values())).hexdigest()


@pytest.mark.parametrize("joint", [False, True], ids=["separate", "joint"])
def test_log_probabilities_are_those_of_the_torch_model(joint: bool, tmp_path: Path) -> None:
    model = Reference(joint=joint)
    samples = random_samples(model, 32)
    translator = exported(model, tmp_path / "model")
    ours = translator.score(samples)
    theirs = [model.logprobs(*sample) for sample in samples]
    assert [len(row) for row in ours] == [len(target) for _, target in samples]  # all but the first, and </s>
    np.testing.assert_allclose(np.concatenate(ours), np.concatenate(theirs), atol=1e-4, rtol=0)
    assert verify(translator, model.logprobs, samples) == max(
        np.abs(a - np.array(b)).max() for a, b in zip(ours, theirs, strict=True)
    )


def test_positions_hold_to_the_end_of_the_table(tmp_path: Path) -> None:
    # With </s> behind the source, and the start before the target, both sides fill all 1024 rows.
    model = Reference()
    most = POSITIONS - 1
    sample = (["▁s1", "▁s2", "▁s3"] * (most // 3), ["<s>", *["▁t1", "▁t2"] * ((most - 1) // 2)])
    assert len(sample[0]) == most
    assert verify(exported(model, tmp_path / "model"), model.logprobs, [sample]) < 1e-4


@pytest.mark.parametrize("quantization", [None, "int8", "int16", "float16"])
def test_live_weights_are_unchanged_by_an_export(quantization: str | None, tmp_path: Path) -> None:
    model = Reference()
    before = fingerprint(model)
    exported(model, tmp_path / "model", quantization=quantization)
    assert fingerprint(model) == before


@pytest.mark.parametrize("joint", [False, True], ids=["separate", "joint"])
def test_int8_weights_are_those_of_the_torch_model_rounded(joint: bool, tmp_path: Path) -> None:
    # 127 steps to the largest weight of each row; computed with in full precision, as int8 products depend on the
    # processor.
    model = Reference(joint=joint)
    samples = random_samples(model, 8)
    exported(model, tmp_path / "model", quantization="int8")
    for weight in model.state().values():
        if weight.ndim == 2:
            scale = 127 / np.abs(weight).max(axis=1, keepdims=True)
            weight[...] = np.rint(weight * scale) / scale
    assert verify(Translator(tmp_path / "model", compute="float32"), model.logprobs, samples) < 1e-4


def test_an_int8_export_is_not_within_the_tolerance_of_an_exact_one(tmp_path: Path) -> None:
    model = Reference()
    translator = exported(model, tmp_path / "model", quantization="int8")
    assert verify(translator, model.logprobs, random_samples(model, 8), tolerance=10.0) > 1e-4
    with pytest.raises(ExportError, match="withdrawn"):
        verify(translator, model.logprobs, random_samples(model, 8))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(Reference().state()))
def test_every_weight_that_is_wrong_is_noticed(name: str, tmp_path: Path) -> None:
    # A bias of the keys adds the same to the scores of all keys, which softmax takes away again: it changes nothing.
    model = Reference()
    translator = exported(model, tmp_path / "model")
    samples = random_samples(model, 4)
    model.state()[name][...] += np.linspace(0.05, 0.15, model.state()[name].size).reshape(model.state()[name].shape)
    if name.endswith("key.bias"):
        assert verify(translator, model.logprobs, samples) < 1e-4
        return
    with pytest.raises(ExportError, match="differ from the model's by up to"):
        verify(translator, model.logprobs, samples)
    assert not (tmp_path / "model").exists()


def test_an_export_that_is_wrong_is_withdrawn(tmp_path: Path) -> None:
    model = Reference()
    translator = exported(model, tmp_path / "model")
    model.state()["decoder.layers.2.cross_attention.value.weight"][0, 0] += 0.5
    with pytest.raises(ExportError, match="the export was withdrawn, its log-probabilities differ"):
        verify(translator, model.logprobs, random_samples(model, 32))
    assert not (tmp_path / "model").exists()


def test_a_wrong_number_of_heads_is_noticed(tmp_path: Path) -> None:
    model = Reference(heads=4)
    translator = exported(model, tmp_path / "model", heads=2)
    with pytest.raises(ExportError, match="withdrawn"):
        verify(translator, model.logprobs, random_samples(model, 4))


def test_a_weight_that_is_not_a_number_is_noticed(tmp_path: Path) -> None:
    model = Reference()
    model.state()["decoder.norm.bias"][0] = np.nan
    translator = exported(model, tmp_path / "model")
    with pytest.raises(ExportError, match="by up to nan"):
        verify(translator, model.logprobs, random_samples(model, 4))
    assert not (tmp_path / "model").exists()


def test_a_new_export_replaces_the_old_one(tmp_path: Path) -> None:
    exported(Reference(seed=1), tmp_path / "model")
    (tmp_path / ".model.cclm-0123456789abcdef.tmp").mkdir()  # what a kill in the middle of an export leaves
    new = Reference(seed=2)
    assert verify(exported(new, tmp_path / "model"), new.logprobs, random_samples(new, 4)) < 1e-4
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_an_export_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    model = Reference()
    exported(model, tmp_path / "model")
    with pytest.raises(ValueError, match="int3 is not a valid quantization type"):
        exported(model, tmp_path / "model", quantization="int3")
    assert verify(Translator(tmp_path / "model"), model.logprobs, random_samples(model, 4)) < 1e-4


def test_weights_of_double_precision_are_rounded(tmp_path: Path) -> None:
    model = Reference()
    state = {name: weight.astype(np.float64) for name, weight in model.state().items()}
    sides = {"source_symbols": model.source_symbols, "target_symbols": model.target_symbols}
    convert(state, heads=model.heads, folder=tmp_path / "model", **sides)
    assert verify(Translator(tmp_path / "model"), model.logprobs, random_samples(model, 4)) < 1e-4


def test_positions_are_fairseqs() -> None:
    # Width 4: frequencies exp(-log(10000) * [0, 1]) = [1, 1/10000]; the first token is at position 2.
    expected = [[np.sin(p), np.sin(p / 10000), np.cos(p), np.cos(p / 10000)] for p in (2, 3, 4)]
    np.testing.assert_allclose(positions(4, 3), expected, rtol=1e-6)
    assert positions(8).shape == (1024, 8)


@pytest.mark.parametrize("width", [2, 7])
def test_a_width_without_sinusoids_is_refused(width: int) -> None:
    with pytest.raises(ExportError, match=f"an even width of at least 4; got {width}"):
        positions(width)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 5}, "a width of 32 cannot be divided among 5 heads"),
        ({"heads": 0}, "a width of 32 cannot be divided among 0 heads"),
        ({"source_symbols": symbols(39, "s")}, "the source embedding has 47 rows for 46 symbols"),
        ({"target_symbols": symbols(17, "t")}, "the target embedding has 23 rows for 24 symbols"),
        ({"source_symbols": ["a", "b"]}, "source symbols must begin with <pad> <s> </s> <unk>; got a b"),
        ({"target_symbols": [*SPECIALS, "a", "b", "a"]}, "target symbols must be distinct; repeated: 'a'"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=message):
        exported(Reference(), tmp_path / "model", **changes)
    assert list(tmp_path.iterdir()) == []


def test_one_embedding_for_two_vocabularies_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="one embedding for both sides, but source and target symbols differ"):
        exported(Reference(joint=True), tmp_path / "model", source_symbols=symbols(16, "s"))


def test_missing_and_superfluous_weights_are_refused_by_name(tmp_path: Path) -> None:
    model = Reference()
    sides = {"source_symbols": model.source_symbols, "target_symbols": model.target_symbols}
    state = model.state()
    bias = state.pop("decoder.layers.1.feed_forward.outer.bias")
    with pytest.raises(ExportError, match=r"no weight decoder.layers.1.feed_forward.outer.bias in the state"):
        convert(state, heads=4, folder=tmp_path / "model", **sides)
    state |= {"decoder.layers.1.feed_forward.outer.bias": bias, "output.bias": bias}
    with pytest.raises(ExportError, match=r"weights that the model does not have: output.bias"):
        convert(state, heads=4, folder=tmp_path / "model", **sides)


def test_verifying_needs_samples_and_one_number_a_token(tmp_path: Path) -> None:
    translator = exported(Reference(), tmp_path / "model")
    with pytest.raises(ValueError, match="cannot be verified without samples"):
        verify(translator, lambda source, target: [], [])
    with pytest.raises(ValueError, match="gives 1 numbers for a target that has 2 with </s>"):
        verify(translator, lambda source, target: [0.0], [(["▁s1"], ["<s>", "▁t1"])])
