"""Requests that share batches: the same translations in the same order, with turns, limits and cancelled work."""

import threading
import time
from concurrent.futures import CancelledError, Future, wait
from pathlib import Path

import pytest

from cclm.serve.batching import Batcher, Found, Job, Key, QueueFull
from cclm.serve.models import Offered, open_models

WORDS = ("su", "ev", "yol", "gün", "daş", "kitab", "quş", "dəniz")
TEXTS = [f"{one} {other}" for one in WORDS for other in WORDS]


@pytest.fixture(scope="module")
def offered(both_ways: Path) -> Offered:
    return open_models([str(both_ways)], threads=2)["both-ways"]


def job(offered: Offered, texts: list[str], source: str = "aze", target: str = "eng", count: int = 1) -> Job:
    pair = offered.model.pair(source, target)
    return Job(offered, pair, count, offered.model.encode(texts, pair))


def texts_of(future: "Future[Found]") -> list[str]:
    return [hypotheses[0].text for hypotheses in future.result(60)]


def test_translations_are_those_of_one_at_a_time_and_in_order(offered: Offered) -> None:
    sizes: list[tuple[Key, int]] = []
    batcher = Batcher(2, observe=lambda key, size: sizes.append((key, size)))
    pairs = [("aze", "eng"), ("eng", "glg"), ("eng", "tur")]
    expected = {pair: offered.model.translate(TEXTS, *pair) for pair in pairs}
    futures = {}

    def submit(start: int) -> None:
        for pair in pairs:
            futures[pair, start] = batcher.submit(job(offered, TEXTS[start : start + 4], *pair))

    threads = [threading.Thread(target=submit, args=(start,)) for start in range(0, len(TEXTS), 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for pair in pairs:
        assert [text for start in range(0, len(TEXTS), 4) for text in texts_of(futures[pair, start])] == expected[pair]
    batcher.stop()
    assert sum(size for _, size in sizes) == 3 * len(TEXTS)
    assert len(sizes) < 3 * len(TEXTS) / 4  # fewer batches than requests
    assert {(key.source, key.target) for key, _ in sizes} == set(pairs)
    assert batcher.waiting == 0


def test_a_long_text_does_not_delay_a_short_one(offered: Offered) -> None:
    batcher = Batcher(1, most_in_batch=16)
    long = batcher.submit(job(offered, TEXTS * 8))
    short = batcher.submit(job(offered, ["su"]))
    other = batcher.submit(job(offered, ["su"], "eng", "tur"))
    assert wait([long, short, other], 60, "FIRST_COMPLETED").done <= {short, other}
    assert len(long.result(60)) == 8 * len(TEXTS)
    batcher.stop()


def test_there_is_room_again_when_a_waiting_job_is_cancelled(offered: Offered) -> None:
    batcher = Batcher(0, most_waiting=10)
    first = batcher.submit(job(offered, TEXTS[:6]))
    with pytest.raises(QueueFull):
        batcher.submit(job(offered, TEXTS[:5]))
    batcher.submit(job(offered, TEXTS[:4], "eng", "tur"))
    assert batcher.waiting == 10
    first.cancel()
    assert batcher.waiting == 4
    batcher.submit(job(offered, TEXTS[:6]))
    batcher.stop()


def test_a_job_that_is_cancelled_while_it_is_translated_harms_nobody(offered: Offered) -> None:
    batcher = Batcher(1, most_in_batch=8)
    jobs = [batcher.submit(job(offered, 5 * TEXTS)) for _ in range(6)]
    while batcher.waiting == 6 * 5 * len(TEXTS):
        time.sleep(0.001)
    assert all(one.cancel() for one in jobs[::2])
    expected = offered.model.translate(TEXTS, "aze", "eng")
    assert [texts_of(one) for one in jobs[1::2]] == [5 * expected] * 3
    assert batcher.waiting == 0
    batcher.stop()


def test_an_error_reaches_those_of_its_batch_and_nobody_else(offered: Offered) -> None:
    batcher = Batcher(1)
    pair = offered.model.pair("aze", "eng")
    bad = batcher.submit(Job(offered, pair, 2, [["no such symbol"]] * 50))
    good = batcher.submit(job(offered, ["su"]))
    with pytest.raises(ValueError, match="the model has no source symbol"):
        bad.result(60)
    assert texts_of(good) == offered.model.translate(["su"], "aze", "eng")
    assert batcher.waiting == 0
    batcher.stop()


def test_nothing_is_left_waiting_after_the_end(offered: Offered) -> None:
    batcher = Batcher(0)
    waiting = batcher.submit(job(offered, TEXTS))
    assert batcher.submit(job(offered, [])).result(0) == []
    batcher.stop()
    with pytest.raises(CancelledError):
        waiting.result(0)
    assert batcher.waiting == 0
    with pytest.raises(QueueFull):
        batcher.submit(job(offered, TEXTS))
