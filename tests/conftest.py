"""Where CI=true, a test that is skipped has failed: it says that something is missing, not that all is well.

The files that take longest come first, so that no worker is left with one of them in the end.
"""

import os
import signal
from collections.abc import Generator
from typing import Any

import pytest

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


LONG = ("test_killed.py", "test_study.py", "test_demo.py", "test_recipe.py", "test_ranks.py", "test_run.py")
LONG += (
    "test_slurm.py",
    "test_wheel.py",
    "test_exact.py",
    "test_batches.py",
    "test_overfit.py",
    "test_benchmark.py",
    "test_speed.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))
