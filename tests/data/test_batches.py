"""Batches: every sentence once per pass, within the budget, with little padding, and computed from its number."""

from pathlib import Path

import numpy as np
import pytest
from corpora import plan, write_tsv
from hypothesis import given, settings
from hypothesis import strategies as st

from cclm.data.batches import Batches, Direction, divide
from cclm.data.prepare import prepare
from cclm.data.prepared import Corpus
from cclm.data.vocabulary import BOS, EOS, PAD

SHARED = Path(__file__).parents[3] / "shared" / "data" / "related_natural"
TO_PIVOT = Direction(to_pivot=True)


def corpus(lengths: list[tuple[int, int]]) -> Corpus:
    """Sentences of these lengths; the tokens count up from 10."""
    flat = [length for pair in lengths for length in pair]
    offsets = np.concatenate([[0], np.cumsum(flat)]).astype(np.int64)
    return Corpus(np.arange(10, 10 + offsets[-1]).astype(np.uint32), offsets)


lengths = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=80)


@settings(max_examples=100, deadline=None)
@given(lengths=lengths, budget=st.integers(1, 200), seed=st.integers(0, 2**32), to_pivot=st.booleans())
def test_every_pass_visits_every_sentence_once_within_the_budget(
    lengths: list[tuple[int, int]], budget: int, seed: int, to_pivot: bool
) -> None:
    batches = Batches(corpus(lengths), Direction(to_pivot), language="aze", seed=seed, budget=budget)
    for number in range(2):
        made = [batches.batch(number * len(batches) + i) for i in range(len(batches))]
        assert sorted(i for batch in made for i in batch.indices.tolist()) == list(range(len(lengths)))
        for batch in made:
            if len(batch.indices) > 1:
                assert max(batch.source.size, batch.target_output.size) <= budget
    in_order = [i for batch in batches.in_order() for i in batch.indices.tolist()]
    assert sorted(in_order) == list(range(len(lengths)))


@settings(max_examples=50, deadline=None)
@given(lengths=lengths, tags=st.booleans(), to_pivot=st.booleans())
def test_a_batch_holds_the_tokens_of_its_sentences(lengths: list[tuple[int, int]], tags: bool, to_pivot: bool) -> None:
    text = corpus(lengths)
    direction = Direction(to_pivot, source_tag=7 if tags else None, target_tag=8 if tags else None)
    batches = Batches(text, direction, language="aze", seed=1, budget=100)
    for batch in batches.in_order():
        for row, index in enumerate(batch.indices.tolist()):
            other, pivot = (side.tolist() for side in text.pair(index))
            source, target = (other, pivot) if to_pivot else (pivot, other)
            assert [t for t in batch.source[row].tolist() if t != PAD] == [*([7] if tags else []), *source, EOS]
            assert [t for t in batch.target_input[row].tolist() if t != PAD] == [8 if tags else BOS, *target]
            assert [t for t in batch.target_output[row].tolist() if t != PAD] == [*target, EOS]
        assert batch.target_tokens == sum(lengths[i][1 if to_pivot else 0] + 1 for i in batch.indices.tolist())


def test_a_batch_is_a_function_of_seed_language_and_counter() -> None:
    text = corpus([(i % 13, i % 7) for i in range(500)])

    def drawn(seed: int, language: str, counter: int) -> list[int]:
        return Batches(text, TO_PIVOT, language=language, seed=seed, budget=60).batch(counter).indices.tolist()

    assert drawn(1, "aze", 33) == drawn(1, "aze", 33)
    different = {tuple(drawn(1, "aze", 33)), tuple(drawn(2, "aze", 33)), tuple(drawn(1, "bel", 33))}
    assert len(different) == 3


def test_passes_differ_in_order_and_in_who_is_together() -> None:
    text = corpus([(5 + i % 2, 6) for i in range(400)])
    batches = Batches(text, TO_PIVOT, language="aze", seed=1, budget=80)
    passes = [
        [tuple(batches.batch(p * len(batches) + i).indices.tolist()) for i in range(len(batches))] for p in range(2)
    ]
    assert passes[0] != passes[1]
    assert {frozenset(batch) for batch in passes[0]} != {frozenset(batch) for batch in passes[1]}


def test_a_sentence_longer_than_the_budget_gets_a_batch_of_its_own() -> None:
    pools = divide(np.array([3, 500]), np.array([3, 400]), 100)
    assert sum(pool.batches for pool in pools) == 2


@pytest.mark.slow
@pytest.mark.outside_data
def test_padding_stays_under_six_percent_on_real_text(tmp_path: Path) -> None:
    if not SHARED.exists():
        pytest.skip(f"the development data is not at {SHARED}")
    languages = {"high_resource": ["tur", "rus", "por", "ces"], "low_resource": ["aze", "bel", "glg", "slk"]}
    settings = plan(SHARED, pieces=2000, sample=4000, **languages)
    prepared = prepare(settings, tmp_path / "p")
    real = padded = 0
    for lang in prepared.languages:
        batches = Batches(prepared.corpus(lang, "train"), TO_PIVOT, language=lang, seed=1, budget=4800)
        for batch in batches.in_order():
            for side in (batch.source, batch.target_output):
                real += int((side != PAD).sum())
                padded += side.size
    assert 1 - real / padded < 0.06
    nearest = {"aze": "tur", "bel": "rus", "glg": "por", "slk": "ces"}
    from cclm import LanguageGraph

    assert LanguageGraph.from_counts(prepared.counts(), **languages).nearest == nearest


def test_a_corpus_can_be_used_in_both_directions(tmp_path: Path) -> None:
    write_tsv(tmp_path / "text")
    prepared = prepare(plan(tmp_path / "text"), tmp_path / "p", workers=1)
    text = prepared.corpus("aze", "dev")
    tag = prepared.other.tag_id("aze")
    m2o = next(Batches(text, TO_PIVOT, language="aze", seed=1, budget=10**6).in_order())
    assert prepared.other.decode(m2o.source[0]).startswith(tuple("ekykdsgtağqu"))
    o2m = Batches(text, Direction(False, prepared.pivot.tag_id("aze"), tag), language="aze", seed=1, budget=10**6)
    batch = next(o2m.in_order())
    assert set(batch.source[:, 0].tolist()) == {prepared.pivot.tag_id("aze")}
    assert set(batch.target_input[:, 0].tolist()) == {tag}
    other = text.pair(int(batch.indices[0]))[0]
    assert prepared.other.decode(batch.target_output[0]) == prepared.other.decode(other)
