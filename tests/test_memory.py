"""What becomes of memory that is freed."""

import os
import subprocess
import sys

import pytest
import torch

from cclm import memory

MEGABYTES = 64
PROGRAM = f"""
import ctypes, sys
from pathlib import Path
from cclm.memory import keep_freed_memory

def resident():
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) // 1024

if sys.argv[1] == "kept":
    keep_freed_memory()
c = ctypes.CDLL(None)
c.malloc.restype, c.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
before = resident()
block = c.malloc({MEGABYTES} << 20)
ctypes.memset(block, 1, {MEGABYTES} << 20)
held = resident()
c.free(block)
print(held - before, resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc alone is asked to keep memory")
@pytest.mark.parametrize(("how", "left"), [("kept", MEGABYTES), ("given back", 0)])
def test_freed_memory_is_kept_only_where_that_was_asked_for(how: str, left: int) -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
    assert [int(number) for number in ran.stdout.split()] == pytest.approx([MEGABYTES, left], abs=4)


def test_other_systems_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.sys, "platform", "darwin")
    monkeypatch.setattr(memory.ctypes, "CDLL", None)  # would fail if it were called
    memory.keep_freed_memory()


PRODUCTS = """
import torch
from cclm.memory import keep_few_prepared_products

keep_few_prepared_products()
with torch.autocast("cpu", dtype=torch.bfloat16):
    for rows in (64, 96, 64):
        torch.ones(rows, 64) @ torch.ones(64, 64)
"""


@pytest.mark.parametrize(("given", "hits"), [(None, 1), ("1", 0)])
def test_onednn_keeps_as_many_products_as_it_was_told_before_or_a_few(given: str | None, hits: int) -> None:
    environment = {name: value for name, value in os.environ.items() if "ONEDNN" not in name}
    environment |= {"ONEDNN_VERBOSE": "profile_create"} | ({"ONEDNN_PRIMITIVE_CACHE_CAPACITY": given} if given else {})
    ran = subprocess.run([sys.executable, "-c", PRODUCTS], capture_output=True, text=True, check=True, env=environment)
    created = [line for line in ran.stdout.splitlines() if ",matmul," in line]
    found = ["cache_hit" in line for line in created]
    # Processors that do not multiply in bfloat16 have no products to prepare.
    assert found == ([False, False, bool(hits)] if torch.cpu._is_avx512_bf16_supported() else [])
