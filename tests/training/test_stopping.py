"""The numbers that a validation comes down to."""

import pytest
from worked_example import LOSS

from cclm.formats.log import Worst
from cclm.paper import tables
from cclm.training.validation import DevLoss, better, metric_over, validation_event


def test_the_papers_selection_metric() -> None:
    # The worked losses weighted by the paper's dev sets: 4.9190; their plain mean is 5.8504.
    sizes = {lang: counts["dev"] for lang, counts in tables()["statistics"]["related"].items()}
    found = {lang: DevLoss(loss, loss - 1) for lang, loss in LOSS.items()}
    assert round(metric_over("weighted", found, sizes), 4) == 4.9190
    assert round(metric_over("macro", found, sizes), 4) == 5.8504
    assert metric_over("worst", found, sizes) == 8.50
    event = validation_event(100, found, sizes)
    assert event.worst == Worst(language="aze", loss=8.5)
    assert event.nll["tur"] == pytest.approx(3.844)


def test_a_loss_is_better_when_lower_and_bleu_when_higher() -> None:
    assert better("macro", 2.0, None)
    assert better("macro", 2.0, 2.5)
    assert not better("macro", 2.5, 2.5)
    assert better("bleu", 2.5, 2.0)
    assert not better("bleu", 2.0, 2.5)
    assert not better("bleu", float("nan"), 2.5)
    assert not better("macro", float("nan"), None)
