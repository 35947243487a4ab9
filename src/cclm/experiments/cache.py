"""The cache of a work folder: what `cclm clean` removes, and how work folders of version 0.1.0 are moved into it."""

import errno
import re
import shutil
from collections.abc import Collection
from pathlib import Path

from cclm.atomic import atomic_folder, atomic_write
from cclm.curriculum import LanguageGraph
from cclm.data.prepared import Prepared
from cclm.data.work_folder import KEY, POINTERS, WorkFolder, key_of
from cclm.errors import ConfigError, DataError
from cclm.experiments.benchmark import as_bitext, benchmark_key, bitext_recipe, cache_lock, fingerprint_0_1_0, resolved
from cclm.experiments.executor import read_recipe
from cclm.formats.benchmark import Benchmark
from cclm.formats.prepared import Manifest, added_files
from cclm.formats.run import CONFIG, LOCK, MADE_FROM, MadeFrom, cache_comment
from cclm.formats.run_folder import IN_RUN, MULTILINGUAL, RECIPE
from cclm.messages import announce
from cclm.recipe.schema import Recipe

IN_GRAPH = {"graph.json", "graph.svg"}
IN_BENCHMARK = {"benchmark.json", RECIPE, f"{MULTILINGUAL}.json", "scores.json", "translations"}
"""What cclm writes into entries of these kinds, beside the trainings for L*."""
LEFTOVER = re.compile(r"\..+\.cclm-[0-9a-f]{16}\.(tmp|old)|\..+\.lock")
"""What a killed process may have left."""


def migratable(work: WorkFolder, recipe: Recipe) -> set[str]:
    """The names of links at which there are files and folders that version 0.1.0 has made.

    Files that the recipe names, and all others under these names, are the user's.
    """
    found = set()
    if _is_plain(prepared := work.path / "prepared") and Manifest.find(prepared / "manifest.json"):
        found.add("prepared")
        # A graph does not tell where it comes from. Version 0.1.0 prepared data first, and wrote it in this form.
        if (
            _is_plain(graph := work.path / "graph.json")
            and not _is_named(graph, recipe.graph.file)
            and _is_graph(graph)
        ):
            found |= {"graph.json"} | ({"graph.svg"} if _is_plain(work.path / "graph.svg") else set())
    if _is_plain(bitext := work.path / "runs" / "bitext") and (bitext / RECIPE).is_file():
        found.add("runs/bitext")
    if _is_plain(path := work.path / "benchmark.json") and not _is_named(path, recipe.benchmark.file):
        losses = Benchmark.find(path)
        found |= {"benchmark.json"} if losses and losses.fingerprint else set()
    return found


def _is_plain(path: Path) -> bool:
    return path.exists() and not path.is_symlink()


def _is_named(path: Path, name: str | None) -> bool:
    return name is not None and Path(name).exists() and path.samefile(name)


def _is_graph(path: Path) -> bool:
    try:
        text = path.read_text(encoding="utf-8")
        return LanguageGraph.from_json(text).to_json() == text
    except (OSError, ValueError, RecursionError):
        return False


def migrate_data(work: WorkFolder, recipe: Recipe) -> None:
    """Moves WORK/graph.json with its picture and prepared data in WORK/prepared into the cache.

    The data is moved last, and the graph after its picture: after a kill in between, the others are still recognized.
    """
    found = migratable(work, recipe)
    if "graph.json" in found:
        entry = work.entry("graph", key_of((work.path / "graph.json").read_text(encoding="utf-8")))
        for name in sorted(found & {"graph.json", "graph.svg"}, reverse=True):
            _move(work.path / name, entry / name)
    if "prepared" in found:
        manifest = Manifest.read(work.path / "prepared" / "manifest.json")
        _move(work.path / "prepared", work.entry("prepared", key_of(manifest.made_from.plain())))


def migrate_benchmark(work: WorkFolder, recipe: Recipe, prepared: Prepared) -> None:
    """Moves WORK/runs/bitext and WORK/benchmark.json into the cache: under the recipe's key, if they are its own."""
    found = migratable(work, recipe) & {"runs/bitext", "benchmark.json"}
    if not found:
        return
    folder, path = work.path / "runs" / "bitext", work.path / "benchmark.json"
    if "benchmark.json" in found:
        losses = Benchmark.read(path)
        ours = losses.fingerprint in {fingerprint_0_1_0(each, prepared) for each in (recipe, resolved(recipe))}
    else:  # interrupted before all were trained
        ours = read_recipe(folder / RECIPE) == bitext_recipe(recipe)
    origin = folder / RECIPE if "runs/bitext" in found else path
    key = benchmark_key(as_bitext(recipe), prepared) if ours else key_of(origin.read_text(encoding="utf-8"))
    entry = work.entry("benchmark", key)
    if "runs/bitext" in found:
        _move(folder, entry)
    if "benchmark.json" in found:
        _move(path, entry / "benchmark.json")


def _move(path: Path, target: Path) -> None:
    """Moves a path into the cache, or to NAME-copy-N if the cache has it, as after a copy that followed links."""
    number = 1
    while target.exists():
        target, number = path.with_name(f"{path.name}-copy-{number}"), number + 1
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _move_to_another_disk(path, target)


def _move_to_another_disk(path: Path, target: Path) -> None:
    """After a kill, both may be there, each of them complete."""
    if path.is_dir():
        with atomic_folder(target, is_ours=lambda other: False) as staging:
            shutil.copytree(path, staging, symlinks=True, dirs_exist_ok=True)
        shutil.rmtree(path)
    else:
        with path.open("rb") as file, atomic_write(target) as copy:
            shutil.copyfileobj(file, copy)
        path.unlink()


def unused(work: WorkFolder) -> list[Path]:
    """The cache entries that no run and no link uses."""
    if not (work.path / "cache").is_dir():
        raise ConfigError(f"{work.path}: no work folder (it has no cache); give the folder that recipes call `work`")
    runs = sorted({path.parent for name in (CONFIG, MADE_FROM) for path in (work.path / "runs").glob(f"*/{name}")})
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
    """Removes unused entries of the cache. DataError if another process uses the cache, or after all others if an entry
    has files of a user.

    On a file system without locks on files, it waits while another process writes an entry.
    """
    left: list[Path] = []
    with work.exclusively():
        for entry in entries:
            with cache_lock(work, entry.parent.name, entry.name, announce):
                if entry not in unused(work):
                    continue
                if found := added_to(entry):
                    left += found[:1]
                else:
                    shutil.rmtree(entry)
    if left:
        kept = "was not made by cclm; it stays, with the entry of the cache that it is in: move it, then clean again"
        raise DataError("\n".join(f"{path}: {kept}" for path in left))


def added_to(entry: Path) -> list[Path]:
    """What a user has put into an entry of the cache, or in its place; empty if cclm has made all of it."""
    if entry.is_symlink() or not entry.is_dir():
        return [entry]
    if entry.parent.name == "prepared":
        return added_files(entry)
    if entry.parent.name == "graph":
        return _others(entry, IN_GRAPH)
    trained = [path for path in _others(entry, IN_BENCHMARK) if (path / LOCK).exists() or (path / MADE_FROM).exists()]
    added = [path for path in _others(entry, IN_BENCHMARK) if path not in trained]
    return added + [path for run in trained for path in _others(run, IN_RUN)]


def _others(folder: Path, known: Collection[str]) -> list[Path]:
    paths = sorted(folder.iterdir())
    return [path for path in paths if path.name not in known and not LEFTOVER.fullmatch(path.name)]


def size(folder: Path) -> int:
    """Bytes in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
