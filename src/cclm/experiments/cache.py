"""The cache of a work folder: what `cclm clean` removes, and how work folders of version 0.1.0 are moved into it."""

import shutil
from pathlib import Path

from cclm.data.prepared import Prepared
from cclm.data.work_folder import KEY, POINTERS, WorkFolder, key_of
from cclm.errors import ConfigError
from cclm.experiments.benchmark import as_bitext, benchmark_key, bitext_recipe, fingerprint_0_1_0, making, resolved
from cclm.experiments.executor import read_recipe
from cclm.formats.benchmark import Benchmark
from cclm.formats.prepared import Manifest
from cclm.formats.run import CONFIG, MADE_FROM, MadeFrom, cache_comment
from cclm.recipe.schema import Recipe
from cclm.training.directory import RECIPE
from cclm.training.lock import announce


def to_adopt(work: WorkFolder) -> bool:
    """Whether the work folder may hold something of version 0.1.0."""
    places = [work.path / name for name in ("prepared", "graph.json", "benchmark.json", "runs/bitext")]
    return any(place.exists() and not place.is_symlink() for place in places)


def adopt_prepared(work: WorkFolder) -> None:
    """Moves prepared data in WORK/prepared into the cache."""
    folder = work.path / "prepared"
    manifest = None if folder.is_symlink() else Manifest.find(folder / "manifest.json")
    if manifest:
        _move(folder, work.entry("prepared", key_of(manifest.made_from.plain())))


def adopt_graph(work: WorkFolder) -> None:
    """Moves WORK/graph.json and its picture into the cache."""
    path = work.path / "graph.json"
    if path.is_file() and not path.is_symlink():
        entry = work.entry("graph", key_of(path.read_text(encoding="utf-8")))
        _move(path, entry / "graph.json")
        picture = work.path / "graph.svg"
        if picture.is_file() and not picture.is_symlink():
            _move(picture, entry / "graph.svg")


def adopt_benchmark(work: WorkFolder, recipe: Recipe, prepared: Prepared) -> None:
    """Moves WORK/runs/bitext and WORK/benchmark.json into the cache: under the recipe's key, if they are its own."""
    folder, path = work.path / "runs" / "bitext", work.path / "benchmark.json"
    if folder.is_symlink() or path.is_symlink() or not (folder / RECIPE).is_file():
        return
    losses = Benchmark.find(path)
    if losses:
        ours = losses.fingerprint in {fingerprint_0_1_0(each, prepared) for each in (recipe, resolved(recipe))}
    else:  # interrupted before all were trained
        ours = read_recipe(folder / RECIPE) == bitext_recipe(recipe)
    key = benchmark_key(as_bitext(recipe), prepared) if ours else key_of((folder / RECIPE).read_text(encoding="utf-8"))
    _move(folder, work.entry("benchmark", key))
    if path.is_file():
        _move(path, work.entry("benchmark", key) / "benchmark.json")


def _move(path: Path, target: Path) -> None:
    """Moves a file or folder into the cache; aside where that has it already, as after a copy that followed links."""
    number = 1
    while target.exists():
        target, number = path.with_name(f"{path.name}-copy-{number}"), number + 1
    target.parent.mkdir(parents=True, exist_ok=True)
    path.rename(target)


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
    """Removes unused entries of the cache. Waits while another process writes one, and keeps it if it is used then."""
    for entry in entries:
        with making(work, entry.parent.name, entry.name, announce):
            if entry in unused(work):
                shutil.rmtree(entry)


def size(folder: Path) -> int:
    """Bytes in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
