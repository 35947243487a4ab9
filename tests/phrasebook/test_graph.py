"""The language graph of the phrasebook finds the language families."""

import io
from collections import Counter

import pytest

from cclm.curriculum import LanguageGraph
from cclm.phrasebook import Phrasebook, generate

RELATIVES = {"aze": "tur", "bel": "rus", "glg": "por", "slk": "ces"}


def subwords(lines: list[str]) -> Counter[str]:
    """Counts the subwords of a text, cut by a SentencePiece model of its own of at most 8,000 pieces."""
    sentencepiece = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type="unigram",
        vocab_size=8000,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return Counter(piece for line in lines for piece in processor.encode(line, out_type=str))


@pytest.mark.slow
def test_the_nearest_hrl_of_each_lrl_is_its_relative(book: Phrasebook) -> None:
    splits = generate(book, seed=1).splits
    counts = {lang: subwords([other for _, other in splits[lang]["train"].pairs]) for lang in splits}
    graph = LanguageGraph.from_counts(counts, high_resource=RELATIVES.values(), low_resource=RELATIVES)
    assert graph.nearest == RELATIVES
