"""`cclm study`: trains, translates, scores and compares every arm with every seed. Finished trials are skipped."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from glob import escape
from pathlib import Path

from cclm.atomic import refuse_foreign_files
from cclm.data.work_folder import WorkFolder
from cclm.errors import ConfigError, DataError, TrainingError
from cclm.evaluation.evaluate import Evaluation
from cclm.experiments.benchmark import as_bitext, bitext_folder, bitext_jobs, reference_recipe
from cclm.experiments.cost import benchmark_cost
from cclm.experiments.executor import Display, Executor, Job, Remaining, processes_for, save_recipe
from cclm.experiments.graph import refuse_other_graph
from cclm.experiments.pipeline import Pipeline, Planned
from cclm.experiments.study_results import Trial, outcome, results
from cclm.experiments.train_job import loss_origin, run_folder
from cclm.formats.log import Log
from cclm.formats.run import CONFIG, read_settings
from cclm.formats.study import DeclaredFile, TunedArm, TunedFile, Tuning
from cclm.formats.study import Try as TryResult
from cclm.messages import announce
from cclm.recipe.schema import Recipe
from cclm.recipe.study import BITEXT, Study, Try, plain, sections_not_shared, steps_to_come
from cclm.report.pages import write_study
from cclm.training.lock import Lock
from cclm.training.provenance import (
    changes,
    differences,
    is_finished,
    made_from,
    refuse_other_benchmark,
    refuse_other_settings,
)

BEFORE = ("prepare", "graph", "benchmark")
"""The stages before the trainings of a sweep or study."""
DECLARED = "declared.json"
TRIALS = "trials"
"""The folder of a study with the recipes of its trials."""
WRITTEN = ("results.json", "report.html", "report.md", "forest.svg", "losses.json", "tuned.json")
"""What a study has only after its declaration."""


@dataclass(frozen=True)
class StudyRun:
    """A study that is being run: its recipe, its folder, and the data and L* that all its trials share."""

    study: Study
    recipe: Recipe
    pipeline: Pipeline
    executor: Executor
    own: dict[str, Pipeline] = field(default_factory=dict)
    """Pipelines of arms that have data or L* of their own."""

    def pipeline_of(self, arm: str) -> Pipeline:
        """The pipeline that has the data and L* of an arm."""
        return self.own.get(arm, self.pipeline)

    def losses_of(self, arm: str) -> Path:
        """The path of the table with L* for the trials of an arm."""
        return self.folder / (f"losses-{arm}.json" if arm in self.own else "losses.json")

    def changes_for_losses(self, arm: str) -> dict[str, object]:
        """The changes that make the trials of an arm read L* from the table `losses_of(arm)`; none without L*."""
        pipeline = self.pipeline_of(arm)
        if not pipeline.losses:
            return {}
        table = {"benchmark.file": str(self.losses_of(arm))}
        is_trained = pipeline.recipe.benchmark.method == "multilingual"
        return table | ({"benchmark.method": "file", "benchmark.level": None} if is_trained else {})

    @property
    def folder(self) -> Path:
        """The folder of the study; its runs are among the other runs of the work folder."""
        return study_folder(self.study, self.recipe)

    def trials(self) -> list[Trial]:
        """Every arm with every seed, ordered by seed, so that all arms have results early."""
        return [self.trial(arm, seed) for seed in self.study.seeds for arm in self.study.arms]

    def trial(self, arm: str, seed: int) -> Trial:
        """An arm with a seed."""
        run = f"runs/{arm}.{seed}"
        if arm != BITEXT:
            folder = Path(self.recipe.work) / run
            other = folder.with_name(f"{self.study.name}.{arm}.{seed}")
            if other.exists() or self._is_of_another_study(folder, arm, seed):
                return Trial(arm, seed, other, f"runs/{other.name}")
            return Trial(arm, seed, folder, run)
        # With the seed of the recipe, these are the very models that L* comes from.
        folder = bitext_folder(self.recipe.model_copy(update={"seed": seed}), self.pipeline.data)
        return Trial(arm, seed, folder, f"runs/{BITEXT}" if seed == self.recipe.seed else run)

    def _is_of_another_study(self, folder: Path, arm: str, seed: int) -> bool:
        """Whether another study has an arm of this name with other settings: its run stays as it is."""
        # The settings of an arm in `after` are known only after the arms that it waits for are trained.
        if not (folder / CONFIG).exists() or arm in self.study.after:
            return False
        if not _studies_of(folder) - {self.study.name}:
            return False
        pipeline = self.pipeline_of(arm)
        return bool(changes(folder, made_from(self.study.recipe_of(arm, seed), pipeline.data, pipeline.losses)))


def _studies_of(run: Path) -> set[str]:
    """The names of the studies that a run may belong to: the one with its table of L*, or else those that have a trial
    of its name."""
    table = Path((read_settings(run / CONFIG).get("benchmark") or {}).get("file") or "")
    if table.parent.parent.name == "studies":
        return {table.parent.name}
    trials = (run.parents[1] / "studies").glob(f"*/{TRIALS}/{escape(run.name)}.json")
    return {path.parents[1].name for path in trials}


def study_folder(study: Study, recipe: Recipe) -> Path:
    """The folder of a study."""
    return Path(recipe.work) / "studies" / study.name


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
    return BEFORE if asked or (study_folder(study, study.recipe_of()) / "losses.json").exists() else BEFORE[:-1]


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
    Pipeline(recipe).refuse_occupied(("prepare", "graph", "benchmark"))
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
        if not (run / CONFIG).exists() or _studies_of(run) - {study.name}:
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
    """The jobs of a trial that are not done. Its recipe is left in the folder of the study, for `cclm train`."""
    if trial.arm == BITEXT:
        mine = made.recipe.model_copy(update={"seed": trial.seed})
        jobs = bitext_jobs(mine, made.pipeline.data)
        WorkFolder(Path(made.recipe.work)).link(trial.run, trial.folder)
        jobs = [replace(job, name=f"{trial.name}/{job.name}") for job in jobs]
        return [job for job in jobs if not _is_done(made, job, BITEXT)]
    settings = _settings(made, trial)
    job = replace(_job(made, settings, trial.folder, trial.arm), name=trial.name, scored=True)
    done = _is_done(made, job, trial.arm) and Evaluation(trial.folder).scored()
    return [] if done else [job]


def _settings(made: StudyRun, trial: Trial) -> Recipe:
    """The recipe of a trial. Arms that `after` names must be trained: a step gate without steps takes theirs."""
    waits_for = made.study.after.get(trial.arm)
    steps = _admissions(trial.folder.with_name(f"{waits_for[0]}.{trial.seed}")) if waits_for else {}
    more = {**steps_to_come(made.study, trial.arm, steps), **made.changes_for_losses(trial.arm)}
    return made.study.recipe_of(trial.arm, trial.seed, **more)


def _job(made: StudyRun, settings: Recipe, folder: Path, arm: str) -> Job:
    path = made.folder / TRIALS / f"{settings.name}.json"
    save_recipe(path, settings)
    return Job(settings.name, path, folder, made.pipeline_of(arm).data.folder)


def _is_done(made: StudyRun, job: Job, arm: str) -> bool:
    pipeline = made.pipeline_of(arm)
    return is_finished(job.folder, job.settings(), pipeline.data, None if job.only else pipeline.losses)


def _admissions(run: Path) -> dict[str, int]:
    return Log.read(run / "log.jsonl").admissions


# --- tuning -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tuned:
    """A study after its tuning."""

    study: Study
    """With the chosen values in its arms."""
    facts: Tuning | None = None
    """Every try, the choices and the cost; None where the study tunes nothing."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Arms without a choice, and why."""


def tune(made: StudyRun) -> Tuned:
    """Trains each tuned arm once with each value and chooses the one with the lowest macro dev loss; writes tuned.json.

    Tries are not translated, so that test scores cannot influence the choice.
    """
    study = made.study
    if study.tune is None:
        return Tuned(study)
    tries = study.tune.tries()
    failed = _train_tries(made, tries)
    arms: dict[str, TunedArm] = {}
    choices: dict[str, object] = {}
    complaints: dict[str, str] = {}
    for arm, keys in study.tune.arms.items():
        own = [tried for tried in tries if tried.arm == arm]
        found = [_try(tried, made.recipe, failed.get(tried.name)) for tried in own]
        if wrong := next((tried.name for tried in own if tried.name in failed), None):
            complaints[arm] = f"its tuning failed: {wrong}: {failed[wrong]}"
        else:
            best = lowest([each.macro for each in found])
            choices[arm], found[best] = own[best].value, found[best].model_copy(update={"chosen": True})
        arms[arm] = TunedArm(key=next(iter(keys)), tries=found)
    every = [each for arm in arms.values() for each in arm.tries]
    facts = Tuning(
        seed=study.tune.seed,
        steps=sum(each.steps or 0 for each in every),
        tokens=sum(each.tokens or 0 for each in every),
        arms=arms,
    )
    TunedFile.model_validate(facts.plain()).write(made.folder / "tuned.json")
    return Tuned(study.tuned(choices), facts, complaints)


def lowest(losses: Sequence[float | None]) -> int:
    """The index of the lowest loss; of equal ones, the first."""
    known = [math.inf if loss is None else loss for loss in losses]
    return min(range(len(known)), key=lambda i: known[i])


def _train_tries(made: StudyRun, tries: list[Try]) -> dict[str, str]:
    """Trains the tries that are not done; returns why some failed."""
    jobs = []
    for tried in tries:
        settings = _try_settings(made, tried)
        jobs.append((_job(made, settings, run_folder(settings), tried.arm), tried.arm))
    due = [job for job, arm in jobs if not _is_done(made, job, arm)]
    with Display(made.recipe.training.max_steps) as display:
        remaining = Remaining(display, len(due), f"{len(jobs)} tries of the tuning")
        return made.executor.run(due, remaining, say=display.print)


def _try_settings(made: StudyRun, tried: Try) -> Recipe:
    more = {"name": tried.name, **made.changes_for_losses(tried.arm)}
    return made.study.tuned({tried.arm: tried.value}).recipe_of(tried.arm, tried.seed, **more)


def _try(tried: Try, recipe: Recipe, why: str | None) -> TryResult:
    """The result of a try; without measurements if its training failed."""
    run = Path("runs") / tried.name
    found = None if why else outcome(Path(recipe.work) / run, recipe.training.max_steps, {})
    return TryResult(
        value=plain(tried.value),
        run=str(run),
        chosen=False,
        why=why,
        macro=found.macro if found else None,
        weighted=found.weighted if found else None,
        best=found.best if found else None,
        steps=found.steps if found else None,
        tokens=found.tokens if found else None,
    )


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
    return StudyPlan(pipeline, stages, of_arms, [each for each in tries if _is_tried(made, each)], _finished(made))


def _is_tried(made: StudyRun, tried: Try) -> bool:
    settings, pipeline = _try_settings(made, tried), made.pipeline_of(tried.arm)
    return bool(pipeline.prepared) and is_finished(run_folder(settings), settings, pipeline.data, pipeline.losses)


def _finished(made: StudyRun) -> list[Trial]:
    """The trials that are trained and scored. A trial is not if one that it waits for is not."""
    choices = _choices(made)
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


def _choices(made: StudyRun) -> dict[str, object]:
    """The values of tuned arms that tuned.json has chosen."""
    found = TunedFile.find(made.folder / "tuned.json") if made.study.tune else None
    if not found or not made.study.tune:
        return {}
    values = {arm: next(iter(keys.values())) for arm, keys in made.study.tune.arms.items()}
    return {
        arm: value
        for arm, tuned in found.arms.items()
        for value, row in zip(values[arm], tuned.tries, strict=True)
        if row.chosen
    }


def _is_finished(made: StudyRun, trial: Trial) -> bool:
    if trial.arm == BITEXT:
        mine = as_bitext(made.recipe.model_copy(update={"seed": trial.seed}))
        trained = benchmark_cost(mine, made.pipeline.data).steps == 0
    else:
        pipeline = made.pipeline_of(trial.arm)
        trained = is_finished(trial.folder, _settings(made, trial), pipeline.data, pipeline.losses)
    return trained and Evaluation(trial.folder).scored() is not None
