"""`cclm study`: trains, translates, scores and compares every arm with every seed. Finished trials are skipped."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cclm.atomic import refuse_foreign_files
from cclm.data.work_folder import WorkFolder
from cclm.errors import ConfigError, DataError, TrainingError
from cclm.evaluation.evaluate import Evaluation
from cclm.experiments.benchmark import as_bitext, bitext_jobs, reference_recipe
from cclm.experiments.cost import benchmark_cost
from cclm.experiments.display import Display, Remaining
from cclm.experiments.executor import Executor, Job, processes_for
from cclm.experiments.graph import refuse_other_graph
from cclm.experiments.pipeline import BEFORE_TRAINING, Pipeline, Planned
from cclm.experiments.study_results import Trial, results
from cclm.experiments.study_trials import StudyRun, studies_of, study_folder
from cclm.experiments.train_job import loss_origin
from cclm.experiments.tuning import TUNED, choices_of, is_tried, tune
from cclm.formats.run import CONFIG
from cclm.formats.study import DeclaredFile
from cclm.messages import announce
from cclm.recipe.schema import Recipe
from cclm.recipe.study import BITEXT, Study, Try, plain, sections_not_shared, steps_to_come
from cclm.report.pages import write_study
from cclm.training.lock import Lock
from cclm.training.provenance import differences, is_finished, refuse_other_benchmark, refuse_other_settings

DECLARED = "declared.json"
WRITTEN = ("results.json", "report.html", "report.md", "forest.svg", "losses.json", TUNED)
"""What a study has only after its declaration."""


def run(study: Study, executor: Executor | None = None) -> Path:
    """Runs a study and returns the path of its report. Waits while another process runs the same study.

    Trainings are processes on this machine, one per core or GPU, unless an executor is given.
    """
    executor = executor or processes_for(study.recipe_of().training.device)
    folder = study_folder(study, study.recipe_of())
    _refuse(study)
    Pipeline(study.recipe_of(), executor=executor).refuse_missing_device(_begun(study, WorkFolder(folder.parents[1])))
    with Lock(folder, wait=announce), WorkFolder(folder.parents[1]).in_use():
        _declare(study, folder)
        return _run(study, executor)


def _run(study: Study, executor: Executor) -> Path:
    recipe = study.recipe_of()
    with Display(reference_recipe(recipe).training.max_steps) as display:
        pipeline = Pipeline(recipe, executor=executor, watcher=display, say=display.print)
        pipeline.walk(_before(study))
    made = StudyRun(study, recipe, pipeline, executor, _own_data(study, recipe, executor))
    for arm in study.arms:
        losses, own = made.pipeline_of(arm).losses, made.pipeline_of(arm)
        if losses:
            loss_origin(own.recipe, own.data).model_copy(update={"losses": losses}).write(made.losses_of(arm))
    tuned = tune(made)
    made = replace(made, study=tuned.study)
    untuned = {trial.name: tuned.failed[trial.arm] for trial in made.trials() if trial.arm in tuned.failed}
    failed = _train(made, untuned)
    if len(study.seeds) == 1:
        announce("comparing the arms by a bootstrap of their test sentences, which takes a minute or more")
    found = results(made.study, recipe, pipeline.data, pipeline.losses or {}, made.trials(), failed, pipeline.graph)
    if (own_tokens := _own_costs(made)) and found.benchmark:
        found = found.model_copy(update={"benchmark": found.benchmark.model_copy(update={"arms": own_tokens})})
    if tuned.facts:
        found = found.model_copy(update={"tuning": tuned.facts})
    found.write(made.folder / "results.json")
    page = write_study(made.folder)
    if failed:
        why = "\n  ".join(f"{name}: {reason}" for name, reason in failed.items())
        raise TrainingError(
            f"{len(failed)} of {len(made.trials())} trials failed; run the same command to try them again."
            f" Results of the others: {page}\n  {why}"
        )
    return page


def _before(study: Study) -> tuple[str, ...]:
    """The stages before the trials. If no arm asks for L*, none is trained; a study that was begun with L* keeps it."""
    arms = [study.recipe_of(arm, study.seeds[0], **steps_to_come(study, arm)) for arm in study.arms if arm != BITEXT]
    asked = BITEXT in study.arms or any(arm.curriculum.needs_benchmark for arm in arms)
    return (
        BEFORE_TRAINING
        if asked or (study_folder(study, study.recipe_of()) / "losses.json").exists()
        else BEFORE_TRAINING[:-1]
    )


def _refuse(study: Study) -> None:
    """Refuses what can be known before any work is done."""
    folder = study_folder(study, study.recipe_of())
    refuse_foreign_files(folder, WRITTEN, DECLARED)
    _refuse_other_declaration(study, folder)
    _refuse_impossible(study)
    _refuse_other_settings(study, folder.parents[1] / "runs")
    _refuse_occupied(study)


def _refuse_impossible(study: Study) -> None:
    """Refuses arms that could not be trained, before anything is declared."""
    for arm in study.arms:
        if arm != BITEXT:
            pipeline = Pipeline(study.recipe_of(arm, study.seeds[0], **steps_to_come(study, arm)))
            try:
                pipeline.refuse_impossible(trains=True)
            except (ConfigError, DataError) as error:
                raise type(error)(f"arm {arm}: {error}") from None


def _refuse_occupied(study: Study) -> None:
    """Raises DataError if something of the user's is where the study needs a link, before any work is done."""
    recipe = study.recipe_of()
    Pipeline(recipe).refuse_occupied(BEFORE_TRAINING)
    seeds = [seed for seed in study.seeds if seed != recipe.seed] if BITEXT in study.arms else []
    WorkFolder(Path(recipe.work)).refuse_occupied(f"runs/{BITEXT}.{seed}" for seed in seeds)


def _own_data(study: Study, recipe: Recipe, executor: Executor) -> dict[str, Pipeline]:
    """Prepares data and trains L* separately for each arm whose data or L* the other arms cannot share."""
    found: dict[str, Pipeline] = {}
    for arm, same in _own_recipes(study, recipe).items():
        with Display(reference_recipe(same).training.max_steps) as display:
            display.print(f"{arm}: data or L* of its own")
            found[arm] = Pipeline(same, executor=executor, watcher=display, say=display.print)
            found[arm].walk(_before(study))
    return found


def _own_recipes(study: Study, recipe: Recipe) -> dict[str, Recipe]:
    """The recipes of data and L* of the arms that do not share them."""
    found: dict[str, Recipe] = {}
    for arm in study.arms:
        own = recipe if arm == BITEXT else study.recipe_of(arm, recipe.seed, **steps_to_come(study, arm))
        changed = {name: getattr(own, name) for name in sections_not_shared(recipe, own)}
        if changed:
            found[arm] = recipe.model_copy(update=changed)
    return found


def _own_costs(made: StudyRun) -> dict[str, int | None]:
    """Target tokens that L* took for each arm that has its own."""
    found = {arm: loss_origin(own.recipe, own.data) for arm, own in made.own.items()}
    return {arm: origin.target_tokens for arm, origin in found.items()}


def _declare(study: Study, folder: Path) -> None:
    """Writes comparisons, endpoint, seeds and tuning to declared.json before the first run; they must not change."""
    if not (folder / DECLARED).exists():
        _declared(study).write(folder / DECLARED)
    _refuse_other_declaration(study, folder)


def _declared(study: Study) -> DeclaredFile:
    return DeclaredFile.model_validate(
        {
            **study.model_dump(mode="json", include={"primary", "endpoint", "seeds"}),
            **({"tune": plain(study.tune.model_dump(mode="json"))} if study.tune else {}),
        }
    )


def _refuse_other_declaration(study: Study, folder: Path) -> None:
    path = folder / DECLARED
    changed = differences(DeclaredFile.read(path).plain(), _declared(study).plain()) if path.exists() else []
    if changed:
        raise ConfigError(
            f"{path}: this differs from what was declared before the first run; give the study another name\n  "
            + "\n  ".join(changed)
        )


def _begun(study: Study, work: WorkFolder) -> list[Path]:
    """Where trainings of a study would be if they were begun: runs of its arms, or L* if it has no other arm."""
    arms = [arm for arm in study.arms if arm != BITEXT]
    names = [f"{arm}.{seed}" for arm in arms for seed in study.seeds]
    runs = [work.path / "runs" / run for name in names for run in (name, f"{study.name}.{name}")]
    return runs or work.entries("benchmark")


def _refuse_other_settings(study: Study, runs: Path) -> None:
    """Raises TrainingError if all runs of the study were started with other settings, before any work is done.

    If only some of them were, these trials fail later and the others continue.
    """
    known = set(study.arms) - {BITEXT, *study.after, *(study.tune.arms if study.tune else ())}
    trials = [(arm, seed) for seed in study.seeds for arm in study.arms if arm in known]
    refused: list[TrainingError] = []
    pipeline = Pipeline(study.recipe_of())
    apart = _own_recipes(study, pipeline.recipe)
    for arm, seed in trials:
        own = runs / f"{study.name}.{arm}.{seed}"
        run = own if own.exists() else runs / f"{arm}.{seed}"
        if not (run / CONFIG).exists() or studies_of(run) - {study.name}:
            continue
        try:
            refuse_other_settings(run, study.recipe_of(arm, seed))
            refuse_other_benchmark(run, study.recipe_of(arm, seed), in_study=True)
            refuse_other_graph(run, study.recipe_of(arm, seed))
            pipeline.refuse_other_text([] if arm in apart else [run])
        except TrainingError as error:
            refused.append(error)
    if refused and len(refused) == len(trials):
        raise TrainingError(f"{refused[0]}\n  the same holds for all {len(refused)} runs: give the study another name")


def _train(made: StudyRun, untuned: Mapping[str, str]) -> dict[str, str]:
    """Trains and scores every trial that is not done; returns why some failed.

    A trial that waits for another that failed has failed, too.
    """
    every = made.trials()
    failed = dict(untuned)
    with Display(made.recipe.training.max_steps) as display:
        for wave in made.study.waves():
            due: list[Job] = []
            for trial in (trial for trial in every if trial.arm in wave and trial.name not in untuned):
                awaited = [f"{arm}.{trial.seed}" for arm in made.study.after.get(trial.arm, ())]
                if blocker := next((name for name in awaited if name in failed), None):
                    failed[trial.name] = f"waits for {blocker}, which failed"
                    continue
                due += _due(made, trial)
            remaining = Remaining(display, len(due), f"{len(every)} trials in all")
            complaints = made.executor.run(due, remaining, say=display.print)
            failed |= {name.partition("/")[0]: why for name, why in complaints.items()}
    for trial in every:
        if trial.arm == BITEXT and trial.name not in failed:
            Evaluation(trial.folder).ensure_scores()
    return failed


def _due(made: StudyRun, trial: Trial) -> list[Job]:
    """The jobs of a trial that are not done."""
    if trial.arm == BITEXT:
        mine = made.recipe.model_copy(update={"seed": trial.seed})
        jobs = bitext_jobs(mine, made.pipeline.data)
        WorkFolder(Path(made.recipe.work)).link(trial.run, trial.folder)
        jobs = [replace(job, name=f"{trial.name}/{job.name}") for job in jobs]
        return [job for job in jobs if not made.is_done(job, BITEXT)]
    settings = made.settings(trial)
    job = replace(made.job(settings, trial.folder, trial.arm), name=trial.name, scored=True)
    done = made.is_done(job, trial.arm) and Evaluation(trial.folder).scored()
    return [] if done else [job]


# --- dry runs ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StudyPlan:
    """What would be made for the trials of a study, and which of its trainings are done."""

    pipeline: Pipeline
    stages: list[Planned]
    """The stages before the trials."""
    own: dict[str, list[Planned]]
    """The same for each arm with data or L* of its own."""
    tried: list[Try]
    """Tries of the tuning that are trained."""
    finished: list[Trial]
    """Trials that are trained and scored."""


def plan(study: Study) -> StudyPlan:
    """What `run` would do, and what it would find done. Changes nothing."""
    _refuse(study)
    recipe = study.recipe_of()
    pipeline, own = Pipeline(recipe), {arm: Pipeline(each) for arm, each in _own_recipes(study, recipe).items()}
    before = _before(study)
    stages, of_arms = pipeline.plan(before), {arm: each.plan(before) for arm, each in own.items()}
    made = StudyRun(study, recipe, pipeline, processes_for(recipe.training.device), own)
    tries = study.tune.tries() if study.tune else []
    return StudyPlan(pipeline, stages, of_arms, [each for each in tries if is_tried(made, each)], _finished(made))


def _finished(made: StudyRun) -> list[Trial]:
    """The trials that are trained and scored. A trial is not if one that it waits for is not."""
    choices = choices_of(made)
    untuned = set(made.study.tune.arms if made.study.tune else ()) - choices.keys()
    made = replace(made, study=made.study.tuned(choices))
    found: dict[str, Trial] = {}
    for arm in (arm for wave in made.study.waves() for arm in wave if arm not in untuned):
        for seed in made.study.seeds if made.pipeline_of(arm).prepared else ():
            trial = made.trial(arm, seed)
            waits_for = [f"{earlier}.{seed}" for earlier in made.study.after.get(arm, ())]
            if found.keys() >= set(waits_for) and _is_finished(made, trial):
                found[trial.name] = trial
    return list(found.values())


def _is_finished(made: StudyRun, trial: Trial) -> bool:
    if trial.arm == BITEXT:
        mine = as_bitext(made.recipe.model_copy(update={"seed": trial.seed}))
        trained = benchmark_cost(mine, made.pipeline.data).steps == 0
    else:
        pipeline = made.pipeline_of(trial.arm)
        trained = is_finished(trial.folder, made.settings(trial), pipeline.data, pipeline.losses)
    return trained and Evaluation(trial.folder).scored() is not None
