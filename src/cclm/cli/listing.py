"""`cclm runs DIR`: how every run below a folder stands, a line each."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cclm.training.directory import is_bitext, recipe_of
from cclm.training.lock import owner_of
from cclm.training.provenance import newest_checkpoint, progress_of

SIGNS = ("made_from.json", "config.yaml", "log.jsonl", "checkpoints")
"""A folder with any two of these is a run, even if it is damaged."""
SKIPPED = ("prepared", "cache")
"""Folders of a work folder that hold no runs of their own; bitext models in the cache are reached by their link."""
HEADS = ("run", "state", "step", "best", "dev loss", "BLEU", "HRL", "LRL")


def run(folder: Path, *, as_json: bool) -> None:
    """Prints the table, or every run as JSON."""
    found = [{"run": _name(path, folder), **standing(path)} for path in runs_below(folder)]
    if as_json:
        print(json.dumps(found, allow_nan=False))
        return
    rows = [HEADS, *(_row(facts) for facts in found)] if found else [("no runs here",)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _name(run: Path, folder: Path) -> str:
    return str(run.relative_to(folder)) if run != folder else run.resolve().name


def runs_below(folder: Path) -> Iterator[Path]:
    """The run directories in this folder, or the folder itself; a folder of bitext runs comes before them."""
    for place, folders, files in os.walk(folder):
        if sum(sign in files or sign in folders for sign in SIGNS) >= 2:
            folders.clear()
            yield Path(place)
        elif is_bitext(Path(place)):
            yield Path(place)
        folders[:] = sorted(name for name in folders if name not in SKIPPED and not name.startswith("."))
        for name in folders:
            if is_bitext(link := Path(place) / name) and link.is_symlink():  # into the cache: os.walk stops there
                yield from runs_below(link)


def standing(run: Path) -> dict[str, Any]:
    """How a run stands, from its files alone; of a damaged one, what is wrong."""
    try:
        return {"state": "bitext system", "reason": None, "bleu": _bleu(run)} if is_bitext(run) else _standing(run)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return {"state": "damaged", "reason": f"{type(error).__name__}: {error}".splitlines()[0]}


def _standing(run: Path) -> dict[str, Any]:
    newest, owner = newest_checkpoint(run), owner_of(run)
    progress = progress_of(newest) if newest else None
    facts: dict[str, Any] = {"state": "interrupted", "reason": None if newest else "before its first checkpoint"}
    facts |= {"step": progress.step if progress else 0, "max_steps": recipe_of(run).training.max_steps}
    if owner:
        facts |= {"state": "running", "reason": f"{owner.pid}@{owner.host}"}
        facts["step"] = next((event["step"] for event in _events_from_the_end(run)), 0)
    elif progress and progress.is_over(facts["max_steps"]):
        facts |= {"state": "finished", "reason": progress.finished}
    best = progress.selected_step if progress else None
    return facts | {"best": best, "dev_loss": _dev_loss(run, best), "bleu": _bleu(run)}


def _dev_loss(run: Path, best: int | None) -> float | None:
    """The dev loss of the best checkpoint, weighted as in the paper."""
    for event in _events_from_the_end(run) if best is not None else ():
        if event["event"] == "validation" and event["step"] == best:
            return float(event["weighted"])
    return None


def _events_from_the_end(run: Path) -> Iterator[dict[str, Any]]:
    """The log backwards; a last line that is being written is passed over."""
    lines = (run / "log.jsonl").read_bytes().split(b"\n") if (run / "log.jsonl").exists() else []
    for line in reversed(lines[:-1]):
        yield json.loads(line)


def _bleu(run: Path) -> dict[str, float | None] | None:
    path = run / "scores.json"
    means = json.loads(path.read_text(encoding="utf-8"))["means"] if path.exists() else None
    return {name: None if value is None else float(value) for name, value in means.items()} if means else None


def _row(facts: dict[str, Any]) -> tuple[str, ...]:
    state = f"{facts['state']}, {facts['reason']}" if facts["reason"] else facts["state"]
    step = f"{facts['step']:,}/{facts['max_steps']:,}" if "step" in facts else ""
    best, loss, bleu = facts.get("best"), facts.get("dev_loss"), facts.get("bleu") or {}
    means = ("" if bleu.get(name) is None else f"{bleu[name]:.1f}" for name in ("all", "hrl", "lrl"))
    cells = (
        facts["run"],
        state,
        step,
        "" if best is None else f"{best:,}",
        "" if loss is None else f"{loss:.3f}",
        *means,
    )
    return tuple("".join(c if c.isprintable() else "?" for c in cell) for cell in cells)  # a line stays a line
