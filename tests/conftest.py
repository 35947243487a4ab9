"""Where CI=true, a test that is skipped has failed: it says that something is missing, not that all is well.

The files that take longest come first, so that no worker is left with one of them in the end.

Torch computes with one thread, unless a test sets another number: the threads of several tests at once would wait for
each other in loops that keep the processors busy.
"""

import os
import signal
from collections.abc import Generator
from typing import Any

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    allowed = hasattr(report, "wasxfail") or item.get_closest_marker("outside_data")
    if report.skipped and os.environ.get("CI") == "true" and not allowed:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, which counts as a failure where CI=true: {report.longrepr}"
    return report


LONG = (
    "test_slurm.py",  # waits more than it computes
    "test_ranks.py",
    "test_killed.py",
    "test_pretrained.py",
    "test_two_at_once.py",
    "test_speed.py",
    "test_study.py",
    "test_demo.py",
    "test_recipe.py",
    "test_gpu.py",
    "test_signals.py",
    "test_other_corpora.py",
    "test_run.py",
    "test_wheel.py",
    "test_exact.py",
    "test_two_processes.py",
    "test_version_0_1_0.py",
    "test_batches.py",
    "test_overfit.py",
    "test_benchmark.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))
