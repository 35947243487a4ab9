"""`cclm clean`: removes from the cache of a work folder what no run uses and no link points at."""

import shutil
from pathlib import Path

from cclm.data.work_folder import KEY, POINTERS, WorkFolder
from cclm.errors import ConfigError
from cclm.experiments.benchmark import making
from cclm.formats.prepared import Manifest
from cclm.formats.run import CONFIG, MADE_FROM, MadeFrom, cache_comment
from cclm.training.lock import announce


def unused(work: WorkFolder) -> list[Path]:
    """The entries that may be removed."""
    if not (work.path / "cache").is_dir():
        raise ConfigError(f"{work.path}: no work folder (it has no cache); give the folder that recipes call `work`")
    runs = [path.parent for path in sorted((work.path / "runs").glob(f"*/{CONFIG}"))]
    keys = {key for run in runs for key in KEY.findall(cache_comment(run / CONFIG))}
    links = {path.resolve() for path in (work.path / "runs").glob("*") if path.is_symlink()}
    links |= {(work.path / pointer).resolve() for kind in POINTERS for pointer, _ in POINTERS[kind]}
    links |= {link.parent for link in links}  # graph.json and benchmark.json are inside their entries
    used = {
        entry for kind in POINTERS for entry in work.entries(kind) if entry.name in keys or entry.resolve() in links
    }
    # Bitext models need their data to translate: whatever uses them uses that, too.
    trained = [*runs, *(path.parent for entry in used for path in entry.glob(f"*/{MADE_FROM}"))]
    data = {found.data for run in trained if (found := MadeFrom.find(run / MADE_FROM))}
    for entry in work.entries("prepared"):
        manifest = Manifest.find(entry / "manifest.json")
        if manifest and manifest.fingerprint in data:
            used.add(entry)
    return [entry for kind in POINTERS for entry in work.entries(kind) if entry not in used]


def remove(work: WorkFolder, entries: list[Path]) -> None:
    """Removes entries of the cache. One that another process is making is waited for, and may be in use then."""
    for entry in entries:
        with making(work, entry.parent.name, entry.name, announce):
            if entry in unused(work):
                shutil.rmtree(entry)


def size(folder: Path) -> int:
    """Bytes in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
