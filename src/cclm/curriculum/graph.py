"""The directed bipartite language graph: HRLs on one side, LRLs on the other, similarity on the edges."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cclm.curriculum.languages import check_complete, check_known, check_names, is_number

VERSION = 1


@dataclass(frozen=True, repr=False)
class LanguageGraph:
    """HRLs, LRLs and `similarity[lrl][hrl]` = e_ij between 0 and 1 (Eq. 8).

    The two sides are given by hand and never change: an LRL that has been admitted is still an LRL.
    """

    high_resource: tuple[str, ...]
    low_resource: tuple[str, ...]
    similarity: dict[str, dict[str, float]]
    k: int | None = None
    """How many subwords of each language were compared; None for a matrix of the user's own."""

    def __init__(
        self,
        high_resource: Iterable[str],
        low_resource: Iterable[str],
        similarity: Mapping[str, Mapping[str, float]],
        k: int | None = None,
    ) -> None:
        hrls, lrls = _sides(high_resource, low_resource)
        object.__setattr__(self, "high_resource", hrls)
        object.__setattr__(self, "low_resource", lrls)
        object.__setattr__(self, "similarity", _edges(hrls, lrls, similarity))
        object.__setattr__(self, "k", _check_k(k))

    @classmethod
    def from_counts(
        cls,
        counts: Mapping[str, Mapping[str, int]],
        *,
        high_resource: Iterable[str],
        low_resource: Iterable[str],
        k: int = 8000,
    ) -> "LanguageGraph":
        """The graph of vocabulary overlap: the share of the k most frequent subwords that two languages have in common.

        `counts[lang]` is how often each subword occurs in the language's training text, without special symbols.
        All languages share one k: if a language has fewer subwords, k is lowered to that number.
        """
        hrls, lrls = _sides(high_resource, low_resource)
        check_complete(counts, hrls + lrls, "counts of subwords")
        fewest = min(hrls + lrls, key=lambda lang: len(counts[lang]))
        if not counts[fewest]:
            raise ValueError(f"counts of subwords: {fewest} has none")
        k = min(_check_k(k) or len(counts[fewest]), len(counts[fewest]))
        overlap = _overlap([counts[hrl] for hrl in hrls], [counts[lrl] for lrl in lrls], k)
        similarity = {lrl: {hrl: float(overlap[i, j]) for i, hrl in enumerate(hrls)} for j, lrl in enumerate(lrls)}
        return cls(hrls, lrls, similarity, k)

    @classmethod
    def from_texts(
        cls,
        tokenizer: Any,
        texts: Mapping[str, Iterable[str]],
        *,
        high_resource: Iterable[str],
        low_resource: Iterable[str],
        k: int = 8000,
    ) -> "LanguageGraph":
        """The graph of vocabulary overlap of texts: the sentences of each language, and what splits them.

        `tokenizer` has a method `tokenize`, as those of Hugging Face, or is a function from a sentence to its subwords.
        Special tokens, unknown ones too, are not counted.
        """
        tokenize = getattr(tokenizer, "tokenize", tokenizer)
        if not callable(tokenize):
            raise ValueError(f"tokenizer: {type(tokenizer).__name__} has no tokenize() and is no function")
        special = set(getattr(tokenizer, "all_special_tokens", ()))
        counts = {lang: Counter(_pieces(tokenize, sentences, lang)) for lang, sentences in texts.items()}
        kept = {lang: {p: n for p, n in pieces.items() if p not in special} for lang, pieces in counts.items()}
        return cls.from_counts(kept, high_resource=high_resource, low_resource=low_resource, k=k)

    @property
    def languages(self) -> tuple[str, ...]:
        """All languages, HRLs first, as declared."""
        return self.high_resource + self.low_resource

    @cached_property
    def nearest(self) -> dict[str, str]:
        """The HRL most similar to each LRL; the first declared among equals."""
        return {lrl: max(self.high_resource, key=self.similarity[lrl].__getitem__) for lrl in self.low_resource}

    @cached_property
    def isolated(self) -> tuple[str, ...]:
        """LRLs with similarity 0 to every HRL: all HRLs count the same for them."""
        return tuple(lrl for lrl in self.low_resource if not any(self.similarity[lrl].values()))

    @cached_property
    def canonical_hrls(self) -> tuple[str, ...]:
        """HRLs in the order in which sums run over them."""
        return tuple(sorted(self.high_resource))

    @cached_property
    def canonical_lrls(self) -> tuple[str, ...]:
        """LRLs in canonical order: the columns of `shares`."""
        return tuple(sorted(self.low_resource))

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """What each HRL (row) counts for each LRL (column): each column sums to 1."""
        edges = np.array([[self.similarity[lrl][hrl] for lrl in self.canonical_lrls] for hrl in self.canonical_hrls])
        totals = edges.sum(axis=0)
        edges[:, totals == 0] = 1.0  # the paper leaves it open; uniform
        return edges / np.where(totals == 0, len(edges), totals)

    def to_dict(self) -> dict[str, Any]:
        """The content of graph.json."""
        return {
            "version": VERSION,
            "k": self.k,
            "high_resource": list(self.high_resource),
            "low_resource": list(self.low_resource),
            "similarity": self.similarity,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "LanguageGraph":
        """The graph from what `to_dict` returned."""
        if content.get("version") != VERSION:
            raise ValueError(f"language graph: version {content.get('version')!r}; this program reads {VERSION}")
        check_complete(content, ("high_resource", "low_resource", "similarity"), "language graph")
        _check_types(content)
        return cls(content["high_resource"], content["low_resource"], content["similarity"], content.get("k"))

    def to_json(self) -> str:
        """The graph as the text of graph.json."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "LanguageGraph":
        """The graph in the text of a graph.json."""
        try:
            content = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"language graph: not JSON: {error}") from None
        if not isinstance(content, dict):
            raise ValueError(f"language graph: expected an object, got {type(content).__name__}")
        return cls.from_dict(content)

    def shares_by_lrl(self) -> dict[str, dict[str, float]]:
        """The shares as a table: how much each HRL counts in the HRLs-evaluated competence of each LRL."""
        columns = zip(self.canonical_lrls, self.shares.T.tolist(), strict=True)
        return {lrl: dict(zip(self.canonical_hrls, column, strict=True)) for lrl, column in columns}

    def to_dot(self) -> str:
        """The graph for Graphviz, the edge of the nearest HRL of each LRL in bold."""
        lines = ["digraph languages {", "  rankdir=LR;", "  node [shape=circle];"]
        lines += [f'  "{hrl}" [style=filled, fillcolor="#9ecae1"];' for hrl in self.high_resource]
        lines += [f'  "{lrl}";' for lrl in self.low_resource]
        for lrl in self.low_resource:
            for hrl in self.high_resource:
                style = ", style=bold" if self.nearest[lrl] == hrl else ""
                lines.append(f'  "{hrl}" -> "{lrl}" [label="{self.similarity[lrl][hrl]:.2f}"{style}];')
        return "\n".join([*lines, "}"]) + "\n"

    def __repr__(self) -> str:
        """Short, and different for different graphs: it identifies the graph in a saved state."""
        return f"LanguageGraph({len(self.high_resource)} HRLs, {len(self.low_resource)} LRLs, {self._digest})"

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()[:12]


def _pieces(tokenize: Any, sentences: Iterable[str], lang: str) -> Iterator[str]:
    if isinstance(sentences, str):
        raise ValueError(f"texts: {lang} is one string; give a list of sentences")
    for sentence in sentences:
        yield from tokenize(sentence)


def _check_types(content: Mapping[str, Any]) -> None:
    """Refuses what JSON can hold but a graph cannot."""
    for side in ("high_resource", "low_resource"):
        names = content[side]
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"language graph: {side} must be a list of languages; got {names!r:.60}")
    table = content["similarity"]
    if not isinstance(table, Mapping) or not all(isinstance(row, Mapping) for row in table.values()):
        raise ValueError(f"language graph: similarity must be a table {{LRL: {{HRL: number}}}}; got {table!r:.60}")


def _sides(high_resource: Iterable[str], low_resource: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    hrls = check_names(high_resource, "high_resource")
    lrls = check_names(low_resource, "low_resource")
    if not hrls:
        raise ValueError("high_resource: no language; the curriculum starts with the high-resource ones")
    if not lrls:
        raise ValueError("low_resource: no language; with nothing to admit, AllAtOnce is the gate to use")
    both = sorted(set(hrls) & set(lrls))
    if both:
        raise ValueError(f"both high- and low-resource: {', '.join(both)}")
    return hrls, lrls


def _edges(
    hrls: tuple[str, ...], lrls: tuple[str, ...], similarity: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, float]]:
    check_known(similarity, lrls, "similarity")
    check_complete(similarity, lrls, "similarity")
    for lrl, row in similarity.items():
        check_known(row, hrls, f"similarity of {lrl}")
        check_complete(row, hrls, f"similarity of {lrl}")
        for hrl, value in row.items():
            if not is_number(value) or not 0 <= value <= 1:
                raise ValueError(f"similarity of {lrl} to {hrl} is {value!r}; it must lie between 0 and 1")
    return {lrl: {hrl: float(similarity[lrl][hrl]) for hrl in hrls} for lrl in lrls}


def _check_k(k: int | None) -> int | None:
    if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
        raise ValueError(f"k is {k!r}; the number of subwords to compare is a whole number of at least 1")
    return k


def _overlap(hrls: list[Mapping[str, int]], lrls: list[Mapping[str, int]], k: int) -> NDArray[np.float64]:
    """Eq. 9 for every pair. Subwords become numbers first: sets of strings take minutes at 1,000 languages."""
    numbers: dict[str, int] = {}
    tops = [[numbers.setdefault(piece, len(numbers)) for piece in _top(k, counts)] for counts in hrls + lrls]
    lrl_pieces = np.array(tops[len(hrls) :])
    shared = np.empty((len(hrls), len(lrls)))
    for i, pieces in enumerate(tops[: len(hrls)]):
        has = np.zeros(len(numbers), dtype=bool)
        has[pieces] = True
        shared[i] = has[lrl_pieces].sum(axis=1)
    return shared / k


def _top(k: int, counts: Mapping[str, int]) -> list[str]:
    # Among equals at the edge of the k, the order of the strings decides, so that the result is defined.
    return sorted(counts, key=lambda piece: (-counts[piece], piece))[:k]
