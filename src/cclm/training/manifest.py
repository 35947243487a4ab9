"""The manifest of a checkpoint: written last, and verified before anything is loaded. No torch."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cclm.data.prepared import sha256

VERSION = 1
ORIGIN = "origin.json"
"""In a run directory that came from another: which one, after how many steps; `same` if they never parted."""


def name_of(step: int) -> str:
    """The folder of a step's checkpoint."""
    return f"step-{step:08}"


def write_manifest(folder: Path) -> None:
    """Syncs every file of the folder, then writes down its size and checksum."""
    paths = sorted(folder.iterdir())
    files = {path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in paths}
    for path in paths:
        sync(path)
    write_json(folder / "manifest.json", {"version": VERSION, "files": files})
    sync(folder / "manifest.json")
    sync(folder)


def damage(path: Path) -> str | None:
    """What is wrong with a checkpoint, or None."""
    try:
        manifest: Mapping[str, Any] = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
        if manifest["version"] != VERSION:
            return f"version {manifest['version']!r}; this program reads {VERSION}"
        for name, facts in manifest["files"].items():
            if not (path / name).exists():
                return f"{name} is missing"
            if (path / name).stat().st_size != facts["bytes"] or sha256(path / name) != facts["sha256"]:
                return f"{name} is damaged (checksum)"
    except (OSError, ValueError, KeyError, TypeError):
        return "manifest.json is missing or damaged"
    return None


def origin_of(run: Path) -> dict[str, Any]:
    """Where a run directory that came from another's parted from it; empty for one that stands by itself."""
    path = run / ORIGIN
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return content


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """JSON as all of a checkpoint's files have it."""
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def sync(path: Path) -> None:
    """Waits until the file or folder is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
