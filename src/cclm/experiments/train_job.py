"""Records in a run directory what a training is given, and trains what an executor has started, in its process."""

from pathlib import Path

from cclm.atomic import write_if_changed
from cclm.curriculum import LanguageGraph
from cclm.data.prepared import Prepared
from cclm.data.work_folder import WorkFolder, key_of
from cclm.evaluation.evaluate import Evaluation
from cclm.experiments.benchmark import benchmark_key, cached, known_losses
from cclm.experiments.executor import ALL_TASKS, Job, read_recipe
from cclm.experiments.graph import graph_of, refuse_other_graph
from cclm.formats.benchmark import Benchmark
from cclm.recipe.schema import Recipe
from cclm.training.provenance import changes, made_from, refuse_lost_settings, write_config
from cclm.training.run_inputs import origin_of
from cclm.training.torchrun import world_size


def run_folder(recipe: Recipe) -> Path:
    """The run directory of a recipe."""
    return Path(recipe.work) / "runs" / recipe.name


def for_one_process(recipe: Recipe) -> Recipe:
    """The recipe for a single process with the same updates. Bitext models are always trained in a single process."""
    return recipe.with_training(accumulate=recipe.training.accumulate * world_size())


def cache_keys(recipe: Recipe, prepared: Prepared, graph: LanguageGraph | None) -> dict[str, str]:
    """The keys in the cache of what a training is given."""
    keys = {"prepared": prepared.folder.name}
    keys |= {"graph": key_of(graph.to_json())} if graph else {}
    if recipe.benchmark.source == "none":
        return keys
    return keys | {"benchmark": benchmark_key(for_one_process(recipe), prepared)}


def record_inputs(
    recipe: Recipe, prepared: Prepared, graph: LanguageGraph | None, losses: dict[str, float] | None, folder: Path
) -> None:
    """Writes the inputs of a training to its run directory: cache keys, and copies of graph and L* for the report.

    Writes nothing if the run was started with other inputs: `train` raises an error for it.
    """
    refuse_lost_settings(folder)
    if changes(folder, made_from(recipe, prepared, losses, world_size())):
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_config(folder, recipe, cache_keys(recipe, prepared, graph), world=world_size())
    if graph:
        refuse_other_graph(folder, recipe)
        write_if_changed(folder / "graph.json", graph.to_json())
    if losses:
        origin = loss_origin(recipe, prepared)
        origin.model_copy(update={"losses": losses}).write(folder / "benchmark.json")


def loss_origin(recipe: Recipe, prepared: Prepared) -> Benchmark:
    """The method and the cost of L*, as far as they are known, with an empty table of losses."""
    path = recipe.benchmark.file
    found = Benchmark.find(Path(path)) if path else None
    if recipe.benchmark.source in ("bitext", "multilingual"):
        found = cached(for_one_process(recipe), prepared)
    known = {"method": found.method, "target_tokens": found.target_tokens} if found and found.method else {}
    return Benchmark.model_validate({"losses": {}, **known})


def train_job(job: Job) -> None:
    """Trains a job in this process, and scores it if asked to. The stages before must be done."""
    recipe = job.settings()
    with WorkFolder(Path(recipe.work)).in_use():  # the command that has started the job may be gone
        _train_job(job, recipe)


def _train_job(job: Job, recipe: Recipe) -> None:
    from cclm.training.session import Options, train

    prepared = Prepared.open(job.data)
    if job.only:  # a training for L*
        only = () if job.only == ALL_TASKS else (job.only,)
        train(recipe, prepared, None, None, job.folder, Options(only=only))
        return
    forks = {fork.name: fork for fork in map(read_recipe, job.forks)}
    graph, losses = graph_of(recipe, prepared), known_losses(recipe, prepared)
    options = Options(forks=forks, record_inputs=lambda: record_inputs(recipe, prepared, graph, losses, job.folder))
    train(recipe, prepared, graph, losses, job.folder, options)
    origin = origin_of(job.folder)
    if job.scored and not (origin and origin.same):  # runs of a sweep that never diverged are scored once
        Evaluation(job.folder).ensure_scores()
