"""A scorer of one's own: a program that gets segments as JSON lines and answers a score for each (docs/scoring.md)."""

import json
import math
import os
import shlex
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from threading import Thread
from typing import IO, Any

SHAPE = '{"id": the number of the segment, "score": a number}'


def segment_scores(command: str, segments: Sequence[Mapping[str, Any]]) -> list[float]:
    """The score of every segment, in their order; each goes to the command with its position as its "id".

    The command is started once, without a shell. What it has to say to people it says on stderr.
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
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # so that it can be ended with all that it has started
        )
    except OSError as error:
        raise ValueError(f"{words[0]}: {error.strerror}; give a program that is on the path, or its place") from None
    found = _converse(process, segments)
    if process.returncode:
        raise ValueError(f"ended with exit status {process.returncode}; it may have said why above")
    if missing := [number for number in range(len(segments)) if number not in found]:
        raise ValueError(
            f"no answer for {len(missing):,} of {len(segments):,} segments, the first of them id {missing[0]};"
            f" it must answer {SHAPE} for each"
        )
    return [found[number] for number in range(len(segments))]


def _converse(process: "subprocess.Popen[str]", segments: Sequence[Mapping[str, Any]]) -> dict[int, float]:
    """What the process answers, until it ends. A thread feeds it: neither side ever waits for the other to read."""
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        feeder = Thread(target=_feed, args=(process.stdin, segments), daemon=True)
        feeder.start()
        try:
            return _answers(process.stdout, len(segments))
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            feeder.join()


def _feed(stdin: IO[str], segments: Iterable[Mapping[str, Any]]) -> None:
    with suppress(BrokenPipeError), stdin:  # it has left already: its exit status and its answers say the rest
        for number, segment in enumerate(segments):
            stdin.write(json.dumps({"id": number, **segment}) + "\n")


def _answers(lines: Iterable[str], segments: int) -> dict[int, float]:
    found: dict[int, float] = {}
    for place, line in enumerate(lines, start=1):
        try:
            answer = json.loads(line)
            number, value = answer["id"], answer["score"]
            understood = type(number) is int and type(value) in (int, float) and math.isfinite(value)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            understood = False
        if not understood:
            raise ValueError(f"line {place} of its answers is {line.strip()[:80]!r}; expected {SHAPE}")
        if not 0 <= number < segments:
            raise ValueError(f"line {place} of its answers is about id {number}, which it was not asked about")
        if number in found:
            raise ValueError(f"line {place} of its answers is about id {number}, which it has answered before")
        found[number] = float(value)
    return found
