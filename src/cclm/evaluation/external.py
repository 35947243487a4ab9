"""External scorers: programs that read segments as JSON lines and print one score per segment (docs/scoring.md)."""

import json
import math
import os
import re
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Thread
from typing import IO

from cclm.errors import ConfigError, DataError
from cclm.evaluation.scores import RESERVED, Sentences
from cclm.formats.scores import Scores
from cclm.training.tasks import Task

ANSWER = '{"id": NUMBER OF THE SEGMENT, "score": NUMBER}'
"""The format of an answer, for error messages."""
MAX_ANSWER = 1 << 16
"""The most bytes per line of output: a longer line is not an answer and would only fill the memory."""
Segment = Mapping[str, str]
"""The input of a scorer: `language`, `source`, `hypothesis`, `reference`, ..."""
ExternalScores = dict[str, dict[str, float]]
"""The score of each task, by scorer."""


def parse_scorers(options: Iterable[str]) -> dict[str, str]:
    """Commands by name, from command-line options NAME=COMMAND."""
    scorers: dict[str, str] = {}
    for text in options:
        name, _, command = text.partition("=")
        if not re.fullmatch(r"[A-Za-z][\w.-]*", name) or not command.strip():
            raise ConfigError(
                f"--scorer {text}: expected NAME=COMMAND, the name from letters, digits, '-', '_' and '.'"
            )
        if name in RESERVED or name in scorers:
            raise ConfigError(f"--scorer {text}: the name {name!r} is already used; choose another")
        scorers[name] = command
    return scorers


def external_scores(
    scorers: Mapping[str, str], tasks: Mapping[str, Task], texts: Mapping[str, Sentences], timeout: float | None = None
) -> ExternalScores:
    """Runs every scorer over all tasks; the score of a task is the mean over its sentences.

    A scorer that takes longer than `timeout` seconds is killed with its children, and DataError is raised.
    """
    segments = [
        {
            "language": name,
            "source_language": tasks[name].source,
            "target_language": tasks[name].target,
            "source": source,
            "hypothesis": translation,
            "reference": reference,
        }
        for name, lines in texts.items()
        for translation, reference, source in zip(*lines, strict=True)
    ]
    sizes = {name: len(lines.translations) for name, lines in texts.items()}
    by_scorer: ExternalScores = {}
    for scorer, command in scorers.items():
        try:
            scores = iter(segment_scores(command, segments, timeout))
        except ValueError as error:
            raise DataError(f"scorer {scorer} ({command}): {error}") from None
        by_scorer[scorer] = {name: _mean([next(scores) for _ in range(size)]) for name, size in sizes.items()}
    return by_scorer


def _mean(values: Sequence[float]) -> float:
    total = sum(values)
    # The sum of huge numbers may overflow although their mean does not.
    return total / len(values) if math.isfinite(total) else math.fsum(value / len(values) for value in values)


def earlier_scores(before: Scores | None, tasks: Iterable[str]) -> ExternalScores:
    """Scores that external scorers gave to the same translations earlier, if they cover all tasks."""
    if before is None:
        return {}
    rows = {name: before.languages.get(name, {}) for name in tasks}
    return {
        scorer: {name: row[scorer] for name, row in rows.items()}
        for scorer in before.signature.scorers
        if all(scorer in row for row in rows.values())
    }


def segment_scores(command: str, segments: Sequence[Segment], timeout: float | None = None) -> list[float]:
    """The score of every segment, in order; the "id" of a segment is its index.

    The command is started once, without a shell, and inherits stderr. ValueError says what went wrong.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"not a command: {error}") from None
    if not words:
        raise ValueError("the command is empty")
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # to kill it together with its children
        )
    except OSError as error:
        raise ValueError(f"{words[0]}: {error.strerror}; give a program on the PATH, or its full path") from None
    scores = _communicate(process, segments, timeout)
    if process.returncode:
        raise ValueError(f"failed with exit status {process.returncode}; its messages are above")
    if missing := [index for index in range(len(segments)) if index not in scores]:
        raise ValueError(
            f"no answer for {len(missing):,} of {len(segments):,} segments, the first is id {missing[0]};"
            f" expected {ANSWER} for each segment"
        )
    return [scores[index] for index in range(len(segments))]


def _communicate(
    process: "subprocess.Popen[bytes]", segments: Sequence[Segment], timeout: float | None
) -> dict[int, float]:
    """The scores by id, read until the process ends.

    A thread writes the segments while this one reads the answers. With a single thread, both processes could block on
    a full pipe that the other one does not empty.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    end = math.inf if timeout is None else time.monotonic() + timeout
    with process:
        writer = Thread(target=_write_segments, args=(process.stdin, segments), daemon=True)
        writer.start()
        try:
            scores = _answers(_lines(process.stdout, end), len(segments))
            process.wait(None if timeout is None else max(0.0, end - time.monotonic()))
            return scores
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, TimeoutError | subprocess.TimeoutExpired):
                raise ValueError(f"not finished after {timeout:g} s; --scorer-timeout sets the limit") from None
            raise
        finally:
            writer.join()


def _write_segments(stdin: IO[bytes], segments: Iterable[Segment]) -> None:
    with suppress(BrokenPipeError), stdin:  # the scorer ended early, which its exit status or missing answers report
        for index, segment in enumerate(segments):
            stdin.write(json.dumps({"id": index, **segment}).encode() + b"\n")


def _lines(stdout: IO[bytes], end: float) -> Iterator[str]:
    """The lines of a scorer's output as they arrive; TimeoutError at `end`, ValueError if a line is too long."""
    rest = b""
    while True:
        left = None if math.isinf(end) else max(0.0, end - time.monotonic())
        if not select.select([stdout], [], [], left)[0]:
            raise TimeoutError
        block = os.read(stdout.fileno(), 1 << 16)
        *lines, rest = (rest + block).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)
        if len(rest) > MAX_ANSWER:
            raise ValueError(f"printed {len(rest):,} bytes without a newline; expected {ANSWER} on each line")
        if not block:
            break
    if rest:
        yield rest.decode(errors="replace")


def _answers(lines: Iterable[str], segments: int) -> dict[int, float]:
    scores: dict[int, float] = {}
    for line_number, line in enumerate(lines, start=1):
        try:
            answer = json.loads(line)
            index, value = answer["id"], answer["score"]
            valid = type(index) is int and type(value) in (int, float) and math.isfinite(value)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            valid = False
        if not valid:
            raise ValueError(f"output line {line_number} is {line.strip()[:80]!r}; expected {ANSWER}")
        if not 0 <= index < segments:
            raise ValueError(f"output line {line_number} has id {index}, but there are {segments:,} segments")
        if index in scores:
            raise ValueError(f"output line {line_number} has id {index}, which already has a score")
        scores[index] = float(value)
    return scores
