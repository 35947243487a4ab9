"""The language graph: overlap, JSON, DOT, refusals."""

import json
import math
from typing import Any

import pytest
from worked_example import HRLS, LRLS, SIMILARITY, curriculum, graph

from cclm import CompetenceGate, LanguageGraph


def test_overlap_is_the_share_of_the_k_most_frequent_subwords() -> None:
    # k = 4. tur: a b c d (e is rarer), aze: a b x y, bel: q r s d. tur-aze share a, b: 2/4; tur-bel d: 1/4.
    counts = {
        "tur": {"a": 9, "b": 8, "c": 7, "d": 6, "e": 5},
        "aze": {"x": 9, "y": 8, "b": 7, "a": 6, "e": 1},
        "bel": {"q": 4, "r": 3, "s": 2, "d": 2},
    }
    overlap = LanguageGraph.from_counts(counts, high_resource=["tur"], low_resource=["aze", "bel"], k=4)
    assert overlap.similarity == {"aze": {"tur": 0.5}, "bel": {"tur": 0.25}}
    assert overlap.k == 4


def test_one_k_serves_all_and_is_lowered_to_the_smallest_vocabulary() -> None:
    counts = {"tur": {"a": 3, "b": 2, "c": 1}, "aze": {"b": 5, "a": 1}}
    overlap = LanguageGraph.from_counts(counts, high_resource=["tur"], low_resource=["aze"], k=8000)
    assert (overlap.k, overlap.similarity["aze"]["tur"]) == (2, 1.0)


def test_among_equally_frequent_subwords_the_order_of_strings_decides() -> None:
    counts = {"tur": {"b": 1, "a": 1, "c": 1}, "aze": {"a": 2, "z": 1}}
    overlap = LanguageGraph.from_counts(counts, high_resource=["tur"], low_resource=["aze"], k=1)
    assert overlap.similarity["aze"]["tur"] == 1.0  # tur's first is a


def test_the_nearest_hrl_of_each_lrl() -> None:
    assert graph().nearest == {"aze": "tur", "bel": "rus", "glg": "por", "slk": "ces"}


def test_the_first_declared_hrl_wins_a_tie() -> None:
    tied = {"aze": {"rus": 0.3, "tur": 0.3}}
    assert LanguageGraph(["tur", "rus"], ["aze"], tied).nearest["aze"] == "tur"
    assert LanguageGraph(["rus", "tur"], ["aze"], tied).nearest["aze"] == "rus"


def test_for_an_lrl_similar_to_no_hrl_all_hrls_count_the_same_with_a_warning() -> None:
    lonely = LanguageGraph(HRLS, LRLS, SIMILARITY | {"bel": dict.fromkeys(HRLS, 0.0)})
    assert lonely.isolated == ("bel",)
    assert lonely.shares[:, 1].tolist() == [0.25] * 4
    with pytest.warns(UserWarning, match="no HRL is similar to bel: all HRLs count the same there"):
        CompetenceGate(lonely)


def test_it_survives_json() -> None:
    overlap = LanguageGraph(HRLS, LRLS, SIMILARITY, k=8000)
    again = LanguageGraph.from_json(overlap.to_json())
    assert again == overlap
    assert repr(again) == repr(overlap)
    assert list(json.loads(overlap.to_json())) == ["version", "k", "high_resource", "low_resource", "similarity"]


def test_different_graphs_are_told_apart() -> None:
    other = LanguageGraph(HRLS, LRLS, SIMILARITY | {"bel": SIMILARITY["bel"] | {"rus": 0.35}})
    assert repr(other) != repr(graph())
    with pytest.raises(ValueError, match="state of another curriculum: gate was"):
        curriculum(gate=CompetenceGate(other, threshold=0.85)).load_state_dict(curriculum().state_dict())


def test_dot_draws_every_edge_and_the_nearest_bold() -> None:
    dot = graph().to_dot()
    assert dot.startswith("digraph languages {")
    assert dot.count("->") == 16
    assert '"tur" -> "aze" [label="0.50", style=bold];' in dot
    assert dot.count("style=bold") == 4


GOOD: dict[str, Any] = {"high_resource": ["tur"], "low_resource": ["aze"], "similarity": {"aze": {"tur": 0.5}}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"high_resource": []}, "high_resource: no language"),
        ({"low_resource": []}, "low_resource: no language; with nothing to admit, AllAtOnce is the gate to use"),
        ({"high_resource": ["tur", "tur"]}, "high_resource: named twice: tur"),
        ({"low_resource": ["aze", "tur"]}, "both high- and low-resource: tur"),
        ({"low_resource": ["az/e"]}, "low_resource: 'az/e' is no language name"),
        ({"low_resource": [7]}, "low_resource: 7 is no language name"),
        ({"similarity": {}}, "similarity: nothing for aze"),
        ({"similarity": {"aze": {}}}, "similarity of aze: nothing for tur"),
        ({"similarity": {"aze": {"tur": 0.5}, "bel": {}}}, "similarity: unknown language bel"),
        ({"similarity": {"aze": {"tur": 0.5, "rus": 0.1}}}, "similarity of aze: unknown language rus"),
        ({"similarity": {"aze": {"tur": 1.2}}}, "similarity of aze to tur is 1.2; it must lie between 0 and 1"),
        ({"similarity": {"aze": {"tur": -0.2}}}, "similarity of aze to tur is -0.2"),
        ({"similarity": {"aze": {"tur": math.nan}}}, "similarity of aze to tur is nan"),
        ({"similarity": {"aze": {"tur": "near"}}}, "similarity of aze to tur is 'near'"),
        ({"k": 0}, "k is 0; the number of subwords"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LanguageGraph(**GOOD | changes)


def test_counts_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="counts of subwords: nothing for aze"):
        LanguageGraph.from_counts({"tur": {"a": 1}}, high_resource=["tur"], low_resource=["aze"])
    with pytest.raises(ValueError, match="counts of subwords: aze has none"):
        LanguageGraph.from_counts({"tur": {"a": 1}, "aze": {}}, high_resource=["tur"], low_resource=["aze"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "language graph: not JSON"),
        ("[" * 100_000, "language graph: not JSON"),
        ("[]", "language graph: expected an object, got list"),
        ('{"version": 2}', "language graph: version 2; this program reads 1"),
        ('{"version": 1, "high_resource": ["tur"]}', "language graph: nothing for low_resource, similarity"),
        (
            '{"version": 1, "high_resource": ["tur"], "low_resource": "aze", "similarity": {}}',
            "language graph: low_resource must be a list of languages; got 'aze'",
        ),
        (
            '{"version": 1, "high_resource": ["tur"], "low_resource": ["aze"], "similarity": {"aze": [1]}}',
            "language graph: similarity must be a table {LRL: {HRL: number}}; got",
        ),
    ],
)
def test_a_file_that_is_no_graph_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LanguageGraph.from_json(text)


def test_a_long_list_of_languages_is_cut_short_in_messages() -> None:
    many = [f"l{i}" for i in range(20)]
    with pytest.raises(ValueError, match="and 8 more"):
        LanguageGraph(["tur"], many, {})


class Splitter:
    """The two things of a Hugging Face tokenizer that a graph needs."""

    all_special_tokens = ("<unk>",)

    def tokenize(self, sentence: str) -> list[str]:
        return ["<unk>" if piece == "?" else piece for piece in sentence.split()]


@pytest.mark.parametrize("tokenizer", [Splitter(), str.split])
def test_texts_and_a_tokenizer_make_a_graph(tokenizer: Any) -> None:
    # The two most frequent subwords: tur a b, aze a x (b is rarer than x).
    texts = {"tur": ["a a a b", "b c"], "aze": ["a x x", "a b"]}
    overlap = LanguageGraph.from_texts(tokenizer, texts, high_resource=["tur"], low_resource=["aze"], k=2)
    assert overlap.similarity == {"aze": {"tur": 0.5}}


def test_special_tokens_are_not_counted() -> None:
    texts = {"tur": ["? ? ? a b"], "aze": ["? ? ? c d"]}
    overlap = LanguageGraph.from_texts(Splitter(), texts, high_resource=["tur"], low_resource=["aze"])
    assert (overlap.k, overlap.similarity) == (2, {"aze": {"tur": 0.0}})


def test_a_text_that_is_one_string_and_what_is_no_tokenizer_are_refused() -> None:
    with pytest.raises(ValueError, match="texts: aze is one string; give a list of sentences"):
        LanguageGraph.from_texts(str.split, {"tur": ["a"], "aze": "a b"}, high_resource=["tur"], low_resource=["aze"])
    with pytest.raises(ValueError, match=r"tokenizer: int has no tokenize\(\) and is no function"):
        LanguageGraph.from_texts(3, {"tur": ["a"], "aze": ["a"]}, high_resource=["tur"], low_resource=["aze"])
