"""Pieces that are split at random: into the best halves, as often as asked for, and the same text."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from cclm.data.batches import Batch
from cclm.data.splitting import NONE, Halves, Splitter
from cclm.data.vocabulary import BOS, EOS, PAD, Segmenter, Vocabulary, train_model
from cclm.phrasebook.corpus import Phrasebook, generate


@pytest.fixture(scope="module")
def texts() -> list[str]:
    book = Phrasebook.load()
    return [other for _, other in generate(book, sizes={"aze": (800, 1, 1)}).splits["aze"]["train"].pairs]


@pytest.fixture(scope="module")
def segmenter(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Segmenter:
    path: Path = tmp_path_factory.mktemp("splitting") / "aze.model"
    path.write_bytes(train_model(texts, pieces=400, character_coverage=1.0, name="aze"))
    return Segmenter(path)


@pytest.fixture(scope="module")
def vocabulary(segmenter: Segmenter) -> Vocabulary:
    return Vocabulary.join([dict.fromkeys(segmenter.pieces, 1), {"other": 5}], ["aze"])


@pytest.fixture(scope="module")
def rows(texts: list[str], segmenter: Segmenter, vocabulary: Vocabulary) -> np.ndarray:
    """Sentences as padded rows that end with </s>."""
    table = vocabulary.table(segmenter)
    rows = [[*table[ids], EOS] for ids in segmenter.encode(texts[:200])]
    width = max(map(len, rows))
    return np.array([row + [PAD] * (width - len(row)) for row in rows], dtype=np.int64)


def test_halves_are_the_most_probable_ones_and_make_up_the_piece(segmenter: Segmenter, vocabulary: Vocabulary) -> None:
    halves, scores = Halves.of(segmenter, vocabulary), segmenter.scores
    split = [i for i in range(len(vocabulary)) if halves.left[i] != NONE]
    assert len(split) > 10
    for i in split:
        piece, left, right = (vocabulary.symbols[j] for j in (i, halves.left[i], halves.right[i]))
        assert left + right == piece
        others = [(piece[:k], piece[k:]) for k in range(1, len(piece))]
        assert scores[left] + scores[right] == max(
            scores[a] + scores[b] for a, b in others if a in scores and b in scores
        )
    assert all(halves.left[vocabulary.ids[piece]] == NONE for piece in scores if len(piece) == 1)
    assert halves.left[vocabulary.ids["other"]] == NONE  # a piece of another language's model
    assert (halves.left[: len(vocabulary.symbols) - len(vocabulary.ids)] == NONE).all()  # special symbols and tags


def test_the_text_stays_the_same_on_both_sides(segmenter: Segmenter, vocabulary: Vocabulary, rows: np.ndarray) -> None:
    halves = Halves.of(segmenter, vocabulary)
    inputs = np.concatenate([np.full((len(rows), 1), BOS), np.where(rows == EOS, PAD, rows)[:, :-1]], axis=1)
    batch = Batch(source=rows, target_input=inputs, target_output=rows, indices=np.arange(len(rows)))
    for probability in (0.0, 0.3, 1.0):
        made = Splitter(1, probability, probability, {"aze": (halves, halves)})(batch, "aze", 7)
        for row, source, output, start in zip(rows, made.source, made.target_output, made.target_input, strict=True):
            assert vocabulary.decode(source) == vocabulary.decode(output) == vocabulary.decode(row)
            length = int((output != PAD).sum())
            assert output[length - 1] == EOS
            assert start.tolist() == [BOS, *output[: length - 1], *[PAD] * (len(start) - length)]
        assert probability or np.array_equal(made.source, rows)
    assert (made.source != PAD).sum() > 1.1 * (rows != PAD).sum()
    assert not np.array_equal(*(Splitter(1, 0.3, 0, {"aze": (halves, halves)})(batch, "aze", i).source for i in (1, 2)))


def test_pieces_are_split_as_often_as_asked_for(segmenter: Segmenter, vocabulary: Vocabulary, rows: np.ndarray) -> None:
    halves = Halves.of(segmenter, vocabulary)
    batch = Batch(source=rows, target_input=rows, target_output=rows, indices=np.arange(len(rows)))
    can = int((halves.left[rows] != NONE).sum())
    splitter = Splitter(1, 0.1, 0, {"aze": (halves, halves)})
    more = sum(int((splitter(batch, "aze", i).source != PAD).sum() - (rows != PAD).sum()) for i in range(20))
    assert binomtest(more, 20 * can, 0.1).pvalue > 0.001
