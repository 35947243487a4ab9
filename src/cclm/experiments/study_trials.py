"""The trials of a study: an arm with a seed each, with its recipe, its run, and the data and L* that it reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path

from cclm.experiments.benchmark import bitext_folder
from cclm.experiments.executor import Executor, Job, save_recipe
from cclm.experiments.pipeline import Pipeline
from cclm.experiments.study_results import Trial
from cclm.formats.log import Log
from cclm.formats.run import CONFIG, LOG, read_settings
from cclm.recipe.schema import Recipe
from cclm.recipe.study import BITEXT, Study, steps_to_come
from cclm.training.provenance import changes, is_finished, made_from

TRIALS = "trials"
"""The folder of a study with the recipes of its trials."""


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
        if not studies_of(folder) - {self.study.name}:
            return False
        pipeline = self.pipeline_of(arm)
        return bool(changes(folder, made_from(self.study.recipe_of(arm, seed), pipeline.data, pipeline.losses)))

    def settings(self, trial: Trial) -> Recipe:
        """The recipe of a trial. Arms that `after` names must be trained: a step gate without steps takes theirs."""
        waits_for = self.study.after.get(trial.arm)
        steps: Mapping[str, int] = {}
        if waits_for:
            steps = Log.read(trial.folder.with_name(f"{waits_for[0]}.{trial.seed}") / LOG).admissions
        more = {**steps_to_come(self.study, trial.arm, steps), **self.changes_for_losses(trial.arm)}
        return self.study.recipe_of(trial.arm, trial.seed, **more)

    def job(self, settings: Recipe, folder: Path, arm: str) -> Job:
        """A training. Its recipe is left in the folder of the study, for `cclm train`."""
        path = self.folder / TRIALS / f"{settings.name}.json"
        save_recipe(path, settings)
        return Job(settings.name, path, folder, self.pipeline_of(arm).data.folder)

    def is_done(self, job: Job, arm: str) -> bool:
        """Whether a job is trained."""
        pipeline = self.pipeline_of(arm)
        return is_finished(job.folder, job.settings(), pipeline.data, None if job.only else pipeline.losses)


def studies_of(run: Path) -> set[str]:
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
