"""What is fast in preparing text gives the same as what is obvious."""

import re
import unicodedata
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cclm.data.encode import DuplicateFilter, Encoded
from cclm.data.filtering import DUPLICATE, Rules, filter_pairs
from cclm.data.readers.source import Decoded
from cclm.data.texts import folded
from cclm.recipe.schema import DataSection

DATA = DataSection(format="tsv", path="text", high_resource=["tur"], low_resource=["aze"])


def chunk(digests: list[int]) -> Encoded:
    """Pairs whose two sentences have one token each, the digest of the pair."""
    tokens = np.repeat(np.array(digests, dtype=np.uint32), 2)
    lengths = np.ones(len(tokens), dtype=np.int64)
    return Encoded("aze", "train", tokens, lengths, np.array(digests, dtype=np.uint64), Counter(), len(digests), [])


@given(st.lists(st.lists(st.integers(0, 9), max_size=12), max_size=5))
def test_only_the_first_of_equal_pairs_is_kept(corpus: list[list[int]]) -> None:
    counts = Counter(value for part in corpus for value in part)
    repeats = DuplicateFilter(np.array(sorted(value for value in counts if counts[value] > 1), dtype=np.uint64))
    found = [repeats.drop(chunk(part)) for part in corpus]
    kept = [value for part in found for value in part.digests.tolist()]
    assert kept == list(dict.fromkeys(value for part in corpus for value in part))
    assert [value for part in found for value in part.tokens.tolist()[::2]] == kept
    assert sum(part.drops[DUPLICATE] for part in found) == counts.total() - len(counts)


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_text_is_folded_as_all_text_is(text: str) -> None:
    assert folded(text) == re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", text).casefold())


@given(st.lists(st.text(st.characters(min_codepoint=32, codec="utf-8"), min_size=1), max_size=4))
def test_every_character_is_counted(texts: list[str]) -> None:
    kept, found = filter_pairs(Decoded([(i, "x", text) for i, text in enumerate(texts)]), "aze", "train", Rules(DATA))
    assert found.characters == Counter("".join(other for _, _, other in kept))
