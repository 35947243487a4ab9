"""The loss of a unigram model, by hand."""

import math
from collections import Counter
from pathlib import Path

import pytest
from small_recipe import prepared, recipe

from cclm.data.vocabulary import EOS
from cclm.experiments.benchmark import unigram_loss
from cclm.training.tasks import tasks


@pytest.mark.parametrize("direction", ["many-to-one", "one-to-many"])
def test_it_is_the_cross_entropy_of_dev_under_the_frequencies_of_training(tmp_path: Path, direction: str) -> None:
    data, settings = prepared(tmp_path), recipe(tmp_path, f"data.direction={direction}")
    task = tasks(settings.data, data)["aze"]
    side = 1 if direction == "many-to-one" else 0
    symbols = len(data.pivot if side else data.other)

    def counted(split: str) -> Counter[int]:
        corpus = data.corpus("aze", split)
        return Counter(int(token) for i in range(len(corpus)) for token in (*corpus.pair(i)[side], EOS))

    train, dev = counted("train"), counted("dev")
    total = sum(train.values()) + symbols
    nll = sum(n * -math.log2((train[token] + 1) / total) for token, n in dev.items()) / sum(dev.values())
    spread = sum(-math.log2((train[token] + 1) / total) for token in range(symbols)) / symbols
    found = unigram_loss(data, task, symbols=symbols, smoothing=0.1)
    assert found == pytest.approx(0.9 * nll + 0.1 * spread)
