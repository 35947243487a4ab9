"""External scorers: programs that get segments as JSON lines and answer one score per segment (docs/scoring.md)."""

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
from cclm.evaluation.scores import OURS, Lines
from cclm.formats.scores import Scores
from cclm.training.directory import Task

ANSWER = '{"id": the number of the segment, "score": a number}'
"""The form of an answer, for messages."""
MAX_ANSWER = 1 << 16
"""Bytes: a longer line is no answer, and would only fill the memory."""
Segment = Mapping[str, str]
"""What a scorer is given: `language`, `source`, `hypothesis`, `reference`, ..."""
ExternalScores = dict[str, dict[str, float]]
"""By scorer: the score of each task."""


def parse_scorers(given: Iterable[str]) -> dict[str, str]:
    """The scorers of a command line, NAME=COMMAND each: their commands by name."""
    scorers: dict[str, str] = {}
    for text in given:
        name, _, command = text.partition("=")
        if not re.fullmatch(r"[A-Za-z][\w.-]*", name) or not command.strip():
            raise ConfigError(f"--scorer {text}: write NAME=COMMAND, the name of letters, digits, '-', '_' and '.'")
        if name in OURS or name in scorers:
            raise ConfigError(f"--scorer {text}: {name!r} is taken; give the scorer another name")
        scorers[name] = command
    return scorers


def external_scores(
    scorers: Mapping[str, str], tasks: Mapping[str, Task], texts: Mapping[str, Lines], timeout: float | None = None
) -> ExternalScores:
    """Runs every scorer over all tasks; the score of a task is the mean over its sentences.

    A scorer that takes longer than `timeout` seconds is killed with its children, and refused.
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
    found: ExternalScores = {}
    for scorer, command in scorers.items():
        try:
            scores = iter(segment_scores(command, segments, timeout))
        except ValueError as error:
            raise DataError(f"scorer {scorer} ({command}): {error}") from None
        sizes = {name: len(lines.translations) for name, lines in texts.items()}
        found[scorer] = {name: _mean([next(scores) for _ in range(size)]) for name, size in sizes.items()}
    return found


def _mean(values: Sequence[float]) -> float:
    total = sum(values)
    # The sum of huge numbers overflows where their mean does not.
    return total / len(values) if math.isfinite(total) else math.fsum(value / len(values) for value in values)


def earlier_scores(before: Scores | None, tasks: Iterable[str]) -> ExternalScores:
    """What scorers gave to the same translations before; a scorer that lacks a task is left out."""
    if before is None:
        return {}
    rows = {name: before.languages.get(name, {}) for name in tasks}
    return {
        scorer: {name: row[scorer] for name, row in rows.items()}
        for scorer in before.signature.scorers
        if all(scorer in row for row in rows.values())
    }


def segment_scores(command: str, segments: Sequence[Segment], timeout: float | None = None) -> list[float]:
    """The score of every segment, in their order; the "id" of a segment is its position.

    The command is started once, without a shell. Its stderr is ours, for messages to people.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"not a command: {error}") from None
    if not words:
        raise ValueError("not a command: it is empty")
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # so that it can be killed with all its children
        )
    except OSError as error:
        raise ValueError(
            f"{words[0]}: {error.strerror}; give a program that is on the path, or its full path"
        ) from None
    found = _communicate(process, segments, timeout)
    if process.returncode:
        raise ValueError(f"ended with exit status {process.returncode}; it may have said why above")
    if missing := [number for number in range(len(segments)) if number not in found]:
        raise ValueError(
            f"no answer for {len(missing):,} of {len(segments):,} segments, the first of them id {missing[0]};"
            f" it must answer {ANSWER} for each"
        )
    return [found[number] for number in range(len(segments))]


def _communicate(
    process: "subprocess.Popen[bytes]", segments: Sequence[Segment], timeout: float | None
) -> dict[int, float]:
    """The answers of the process, until it ends.

    A thread writes the segments while this one reads the answers: otherwise both processes could wait forever for the
    other one to empty a full pipe.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    end = math.inf if timeout is None else time.monotonic() + timeout
    with process:
        writer = Thread(target=_write_segments, args=(process.stdin, segments), daemon=True)
        writer.start()
        try:
            found = _answers(_lines(process.stdout, end), len(segments))
            process.wait(None if timeout is None else max(0.0, end - time.monotonic()))
            return found
        except BaseException as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, TimeoutError | subprocess.TimeoutExpired):
                raise ValueError(f"not finished after {timeout:g} s; --scorer-timeout sets the limit") from None
            raise
        finally:
            writer.join()


def _write_segments(stdin: IO[bytes], segments: Iterable[Segment]) -> None:
    with suppress(BrokenPipeError), stdin:  # it has ended early: its exit status and the missing answers tell why
        for number, segment in enumerate(segments):
            stdin.write(json.dumps({"id": number, **segment}).encode() + b"\n")


def _lines(stdout: IO[bytes], end: float) -> Iterator[str]:
    """The lines of a scorer's output, as they come; TimeoutError at `end`, ValueError for a line that is no answer."""
    rest = b""
    while True:
        left = None if math.isinf(end) else max(0.0, end - time.monotonic())
        if not select.select([stdout], [], [], left)[0]:
            raise TimeoutError
        block = os.read(stdout.fileno(), 1 << 16)
        *lines, rest = (rest + block).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)
        if len(rest) > MAX_ANSWER:
            raise ValueError(f"printed {len(rest):,} bytes without a line end; expected {ANSWER} on each line")
        if not block:
            break
    if rest:
        yield rest.decode(errors="replace")


def _answers(lines: Iterable[str], segments: int) -> dict[int, float]:
    found: dict[int, float] = {}
    for line_number, line in enumerate(lines, start=1):
        try:
            answer = json.loads(line)
            number, value = answer["id"], answer["score"]
            valid = type(number) is int and type(value) in (int, float) and math.isfinite(value)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            valid = False
        if not valid:
            raise ValueError(f"line {line_number} of its answers is {line.strip()[:80]!r}; expected {ANSWER}")
        if not 0 <= number < segments:
            raise ValueError(f"line {line_number} of its answers is about id {number}, which it was not asked about")
        if number in found:
            raise ValueError(f"line {line_number} of its answers is about id {number}, which it has answered before")
        found[number] = float(value)
    return found
