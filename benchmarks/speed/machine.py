"""When and where something was measured: the line above a table."""

import os
import platform
from collections.abc import Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path

from windows import THREADS, Window, spread


def machine(threads: int = THREADS) -> str:
    """Date, processor, versions, threads."""
    model = next((line.split(":")[1].strip() for line in _cpu_lines() if line.startswith("model name")), "CPU")
    flags = {flag for line in _cpu_lines() if line.startswith("flags") for flag in line.split(":")[1].split()}
    known = [flag for flag in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16") if flag in flags]
    return (
        f"{date.today()}, {model} ({os.cpu_count()} cores; {', '.join(known)}), Python {platform.python_version()},"
        f" torch {version('torch')}, {threads} thread{'s' * (threads > 1)}"
    )


def others(windows: Sequence[Window]) -> str:
    """How quiet the machine was."""
    shares = [window.others for window in windows] or [0.0]
    return f"other processes used {spread(shares)[0]:.0%} of the cores (at most {max(shares):.0%} in a window)"


def _cpu_lines() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []
