"""`cclm study`: every arm with every seed, trained, translated, scored and compared; what is done is not done again."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cclm.atomic import write_if_changed
from cclm.data.work_folder import WorkFolder
from cclm.data.workers import available_cores
from cclm.errors import ConfigError, TrainingError
from cclm.evaluation.evaluate import Evaluation
from cclm.experiments.benchmark import bitext_folder, bitext_jobs, bitext_recipe
from cclm.experiments.display import Display, Remaining
from cclm.experiments.executor import Job, run_jobs
from cclm.experiments.outcome import outcome
from cclm.experiments.pipeline import Pipeline
from cclm.experiments.study_results import Trial, results
from cclm.formats.benchmark import Benchmark
from cclm.formats.log import Log
from cclm.formats.study import DeclaredFile, TunedArm, TunedFile, Tuning
from cclm.formats.study import Try as TryResult
from cclm.recipe.schema import Recipe
from cclm.recipe.study import BITEXT, Study, Try, plain, steps_to_come
from cclm.report.pages import write_study
from cclm.training.provenance import differences, is_finished


@dataclass(frozen=True)
class StudyRun:
    """A study on its way: its recipe, its folder, and the data and L* that all its trials share."""

    study: Study
    recipe: Recipe
    pipeline: Pipeline
    at_once: int

    @property
    def folder(self) -> Path:
        """The folder of the study; its runs are among the other runs of the work folder."""
        return study_folder(self.study, self.recipe)

    @property
    def losses(self) -> Path:
        """L* as a table that every trial is given."""
        return self.folder / "losses.json"

    def trials(self) -> list[Trial]:
        """Every arm with every seed, the first seed's first: after one round there is something to look at."""
        return [self._trial(arm, seed) for seed in self.study.seeds for arm in self.study.arms]

    def _trial(self, arm: str, seed: int) -> Trial:
        run = f"runs/{arm}.{seed}"
        if arm != BITEXT:
            return Trial(arm, seed, Path(self.recipe.work) / run, run)
        # With the seed of the recipe, these are the very models that L* comes from.
        folder = bitext_folder(self.recipe.model_copy(update={"seed": seed}), self.pipeline.data)
        return Trial(arm, seed, folder, f"runs/{BITEXT}" if seed == self.recipe.seed else run)


def study_folder(study: Study, recipe: Recipe) -> Path:
    """The folder of a study."""
    return Path(recipe.work) / "studies" / study.name


def run(study: Study, at_once: int | None = None) -> Path:
    """From the first training to the comparison; returns the page."""
    recipe = study.recipe_of()
    _declare(study, study_folder(study, recipe))
    with Display(bitext_recipe(recipe).training.max_steps) as display:
        pipeline = Pipeline(recipe, at_once=at_once, watcher=display, say=display.print)
        pipeline.walk(("prepare", "graph", "benchmark"))
    assert pipeline.losses is not None
    made = StudyRun(study, recipe, pipeline, at_once or available_cores())
    Benchmark(losses=pipeline.losses).write(made.losses)
    tuned = tune(made)
    made = replace(made, study=tuned.study)
    untuned = {trial.name: tuned.failed[trial.arm] for trial in made.trials() if trial.arm in tuned.failed}
    failed = _train(made, untuned)
    found = results(made.study, recipe, pipeline.data, pipeline.losses, made.trials(), failed, pipeline.graph)
    if tuned.facts:
        found = found.model_copy(update={"tuning": tuned.facts})
    found.write(made.folder / "results.json")
    page = write_study(made.folder)
    if failed:
        why = "\n  ".join(f"{name}: {reason}" for name, reason in failed.items())
        raise TrainingError(
            f"{len(failed)} of {len(made.trials())} trials failed; the same command tries them again."
            f" What the others came to: {page}\n  {why}"
        )
    return page


def _declare(study: Study, folder: Path) -> None:
    """Writes down what is asked before the first run; from then on it must not change."""
    now = DeclaredFile.model_validate(
        {
            **study.model_dump(mode="json", include={"primary", "endpoint", "seeds"}),
            **({"tune": plain(study.tune.model_dump(mode="json"))} if study.tune else {}),
        }
    )
    path = folder / "declared.json"
    folder.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        now.write(path)
    changed = differences(DeclaredFile.read(path).plain(), now.plain())
    if changed:
        raise ConfigError(
            f"{path}: the study was declared otherwise before its runs; give it another name\n  " + "\n  ".join(changed)
        )


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
            complaints = run_jobs(due, made.at_once, remaining)
            failed |= {name.partition("/")[0]: why for name, why in complaints.items()}
    for trial in every:
        if trial.arm == BITEXT and trial.name not in failed:
            evaluation = Evaluation(trial.folder)
            evaluation.scored() or evaluation.score()
    return failed


def _due(made: StudyRun, trial: Trial) -> list[Job]:
    """The jobs of a trial that are not done. Its recipe is left in the folder of the study, for `cclm train`."""
    if trial.arm == BITEXT:
        mine = made.recipe.model_copy(update={"seed": trial.seed})
        jobs = bitext_jobs(mine, made.pipeline.data)
        WorkFolder(Path(made.recipe.work)).link(trial.run, trial.folder)
        jobs = [replace(job, name=f"{trial.name}/{job.name}") for job in jobs]
        return [job for job in jobs if not _is_done(made, job)]
    waits_for = made.study.after.get(trial.arm)
    steps = _admissions(trial.folder.with_name(f"{waits_for[0]}.{trial.seed}")) if waits_for else {}
    more = {**steps_to_come(made.study, trial.arm, steps), "benchmark.file": str(made.losses)}
    job = replace(_job(made, made.study.recipe_of(trial.arm, trial.seed, **more), trial.folder), scored=True)
    return [] if _is_done(made, job) and Evaluation(trial.folder).scored() else [job]


def _job(made: StudyRun, settings: Recipe, folder: Path) -> Job:
    path = made.folder / "trials" / f"{settings.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_if_changed(path, settings.model_dump_json(indent=1) + "\n")
    return Job(settings.name, path, folder, made.pipeline.data.folder)


def _is_done(made: StudyRun, job: Job) -> bool:
    losses = None if job.only else made.pipeline.losses
    return is_finished(job.folder, job.settings(), made.pipeline.data, losses)


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

    Tries are not translated: no test score is there to be looked at.
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
    """Which of them is the lowest; of equals, the first."""
    known = [math.inf if loss is None else loss for loss in losses]
    return min(range(len(known)), key=lambda i: known[i])


def _train_tries(made: StudyRun, tries: list[Try]) -> dict[str, str]:
    """Trains the tries that are not done; returns why some failed."""
    jobs = []
    for tried in tries:
        more = {"name": tried.name, "benchmark.file": str(made.losses)}
        settings = made.study.tuned({tried.arm: tried.value}).recipe_of(tried.arm, tried.seed, **more)
        jobs.append(_job(made, settings, Path(made.recipe.work) / "runs" / tried.name))
    due = [job for job in jobs if not _is_done(made, job)]
    with Display(made.recipe.training.max_steps) as display:
        return run_jobs(due, made.at_once, Remaining(display, len(due), f"{len(jobs)} tries of the tuning"))


def _try(tried: Try, recipe: Recipe, why: str | None) -> TryResult:
    """What a try came to, as far as its training did."""
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
