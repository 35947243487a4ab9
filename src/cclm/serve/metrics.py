"""Counters of the service in the text format of Prometheus."""

import resource
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the histogram of seconds."""
SIZES = (1, 2, 4, 8, 16, 32)
"""Upper bounds of the histogram of sentences per batch."""
Labels = tuple[tuple[str, str], ...]


class Histogram:
    """How many values are at most each bound."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds, self._counts, self._sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str) -> Iterator[str]:
        total = 0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f"{name}_sum {self._sum}"
        yield f"{name}_count {total}"


class Metrics:
    """What the service has done since it started; counted in several threads."""

    def __init__(self) -> None:
        self._lock, self._start = threading.Lock(), time.time()
        self._requests: Counter[Labels] = Counter()
        self._sentences: Counter[Labels] = Counter()
        self._characters: Counter[Labels] = Counter()
        self._seconds, self._batches = Histogram(BOUNDS), Histogram(SIZES)

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Counts a request. `path` is one of the service's own: the number of series is bounded."""
        with self._lock:
            self._requests[("path", path), ("status", str(status))] += 1
            if path == "/api/translate":
                self._seconds.add(seconds)

    def received(self, model: str, source: str, characters: int) -> None:
        """Counts the characters of a request."""
        with self._lock:
            self._characters[("model", model), ("source", source)] += characters

    def translated(self, model: str, source: str, target: str, sentences: int) -> None:
        """Counts a batch."""
        with self._lock:
            self._sentences[("model", model), ("source", source), ("target", target)] += sentences
            self._batches.add(sentences)

    def text(self, waiting: int) -> str:
        """All metrics. `waiting` is the number of sentences in the queue."""
        with self._lock:
            blocks = [
                _series("cclm_requests_total", "counter", "Requests that were answered.", self._requests),
                _series("cclm_sentences_total", "counter", "Sentences that were translated.", self._sentences),
                _series("cclm_characters_total", "counter", "Characters of accepted texts.", self._characters),
                _header("cclm_request_seconds", "histogram", "Seconds per translation request."),
                self._seconds.lines("cclm_request_seconds"),
                _header("cclm_batch_sentences", "histogram", "Sentences per batch."),
                self._batches.lines("cclm_batch_sentences"),
                _single("cclm_queue_sentences", "gauge", "Sentences that wait for a worker.", waiting),
                _single("process_start_time_seconds", "gauge", "When the service started.", self._start),
                _single("process_resident_memory_bytes", "gauge", "Memory in use.", resident_bytes()),
            ]
            return "".join(f"{line}\n" for block in blocks for line in block)


def _header(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _single(name: str, kind: str, text: str, value: float) -> Iterator[str]:
    yield from _header(name, kind, text)
    yield f"{name} {value}"


def _series(name: str, kind: str, text: str, values: Mapping[Labels, int]) -> Iterator[str]:
    yield from _header(name, kind, text)
    for labels, value in sorted(values.items()):
        shown = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels)
        yield f"{name}{{{shown}}} {value}"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resident_bytes() -> int:
    """Memory in use now; where the system does not tell that, the most that was ever in use."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
