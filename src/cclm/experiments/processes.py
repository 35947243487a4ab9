"""Trainings side by side, each in a process of its own with one thread: on two cores two of them do more than one
with two threads. What they do is read from their logs."""

import json
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cclm.errors import ConfigError, DataError, Interrupted, TrainingError
from cclm.recipe.schema import Recipe
from cclm.signals import held_back, let_through

PROCESSES = multiprocessing.get_context("forkserver")
"""Each is forked off a process that has loaded torch, which takes seconds, and has done nothing else."""
PROCESSES.set_forkserver_preload(["cclm.training.session"])


@dataclass(frozen=True)
class Training:
    """A run to be trained: `only` one task of the recipe, for a bitext model, or all."""

    name: str
    recipe: Path
    """A recipe as JSON."""
    folder: Path
    only: str | None = None

    def run(self) -> None:
        """Trains, in a process of its own: one task of the recipe without a curriculum, or all with it."""
        from cclm.curriculum import LanguageGraph
        from cclm.data.prepared import Prepared
        from cclm.experiments.benchmark import kept
        from cclm.training.session import Options, train

        recipe = self.settings()
        prepared = Prepared.open(recipe.prepared)
        if self.only:
            train(recipe, prepared, None, None, self.folder, Options(only=(self.only,)))
        else:
            graph = LanguageGraph.from_json(recipe.graph_file.read_text(encoding="utf-8"))
            train(recipe, prepared, graph, kept(recipe, prepared), self.folder)

    def settings(self) -> Recipe:
        """The recipe as read."""
        return Recipe.model_validate_json(self.recipe.read_text(encoding="utf-8"))


def side_by_side(
    trainings: Sequence[Training],
    at_once: int,
    saw: Callable[[Training, dict[str, Any]], object],
    more: Callable[[], Sequence[Training]] = lambda: (),
) -> dict[str, str]:
    """Trains them all, `at_once` at a time; gives why some failed. `saw` is told every event of every log.

    One that fails does not stop the others. When this process ends, however, so do they. `more` is asked again and
    again for trainings that have become possible through the others.
    """
    waiting, running, failed = list(trainings), [], {}  # type: list[Training], list[_Process], dict[str, str]
    try:
        while (waiting := [*waiting, *more()]) or running:
            while waiting and len(running) < at_once:
                running.append(_Process(waiting.pop(0)))
            time.sleep(0.1)
            for process in list(running):
                ended = process.has_ended()  # asked first: whatever it wrote before is then in the log
                for event in process.events():
                    saw(process.training, event)
                if ended:
                    running.remove(process)
                    complaint = process.complaint()
                    failed |= {process.training.name: complaint} if complaint else {}
    finally:
        for process in running:
            process.ask_to_stop()
        for process in running:
            process.complaint()
    return failed


class _Process:
    """A training under way, and how far its log has been read."""

    def __init__(self, training: Training) -> None:
        self.training = training
        # A file, as a pipe would fill up.
        self._told = tempfile.NamedTemporaryFile("r", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._process = PROCESSES.Process(target=work, args=(training, self._told.name))
        try:
            with held_back():
                self._process.start()
        except BaseException:  # a signal that was held back: Python would wait for a child that nobody has told to end
            if self._process.pid is not None:
                self._process.terminate()
            raise
        self._read = 0

    def has_ended(self) -> bool:
        return not self._process.is_alive()

    def events(self) -> Iterator[dict[str, Any]]:
        """What its log says since the last time. One that goes on cuts its log back and repeats it to the byte."""
        try:
            with (self.training.folder / "log.jsonl").open("rb") as file:
                file.seek(self._read)
                new = file.read()
        except OSError:
            return
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            yield json.loads(line)

    def complaint(self) -> str | None:
        """Waits for its end; why it failed, or None."""
        self._process.join()
        lines = self._told.read().strip().splitlines()
        self._told.close()
        return (lines or [f"exit code {self._process.exitcode}"])[-1] if self._process.exitcode else None

    def ask_to_stop(self) -> None:
        """It saves and leaves."""
        self._process.terminate()


def work(training: Training, told: str) -> None:
    """Does a training in this process, which was forked off for it; a failure is told in a line."""
    let_through()
    os.setsid()  # a terminal's signals reach the parent alone, which passes them on once
    with open(told, "w", encoding="utf-8") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    threading.Thread(target=_live_with_the_parent, daemon=True).start()

    import torch  # was loaded before this process was forked off, and is nothing for the parent

    torch.set_num_threads(1)
    try:
        training.run()
    except Interrupted as signal:
        sys.exit(128 + signal.number)
    except (ConfigError, DataError, TrainingError) as error:
        sys.exit(str(error))


def _live_with_the_parent() -> None:
    """Ends with whoever started this, even if that was killed.

    At once, without saving: whoever starts it again may already wait for the run directory.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
