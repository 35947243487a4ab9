"""Work folders of version 0.1.0: prepared data, graph and bitext models move into the cache, as they are."""

from pathlib import Path

from cclm.data.prepared import Prepared
from cclm.data.work_folder import WorkFolder, key_of
from cclm.experiments.benchmark import benchmark_key, bitext_recipe, fingerprint_0_1_0, resolved
from cclm.experiments.executor import read_recipe
from cclm.formats.benchmark import Benchmark
from cclm.formats.prepared import Manifest
from cclm.recipe.schema import Recipe
from cclm.training.directory import RECIPE


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
    key = benchmark_key(recipe, prepared) if ours else key_of((folder / RECIPE).read_text(encoding="utf-8"))
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
