"""`cclm study`: every arm with every seed, trained, translated, scored and compared; what is done is not done again."""

import json
from collections.abc import Mapping
from pathlib import Path

from cclm.atomic import atomic_text, write_if_changed
from cclm.data.prepared import Prepared
from cclm.data.workers import available_cores
from cclm.errors import ConfigError, TrainingError
from cclm.evaluation.evaluate import Evaluation
from cclm.experiments.benchmark import benchmark, bitext_recipe
from cclm.experiments.prepare import prepared_data
from cclm.experiments.processes import Training, side_by_side
from cclm.experiments.study_results import results, write_results
from cclm.experiments.train import draw, graph_of
from cclm.experiments.trials import Trial, trainings, trials
from cclm.experiments.tuning import tune
from cclm.experiments.watch import Remaining, Watch
from cclm.recipe.schema import Recipe
from cclm.recipe.study import BITEXT, Study, plain
from cclm.report.pages import write_study
from cclm.training.provenance import differences, is_finished


class TrialTraining(Training):
    """A trial in its process: trained, then translated and scored."""

    def run(self) -> None:
        """The training, and its scores."""
        super().run()
        evaluation = Evaluation(self.folder)
        if not evaluation.scored():
            evaluation.score()


def study_folder(study: Study, recipe: Recipe) -> Path:
    """Where a study leaves what is its own; its runs are among the other runs of the work folder."""
    return Path(recipe.work) / "studies" / study.name


def run(study: Study, at_once: int | None = None) -> Path:
    """From the first training to the comparison; gives the page."""
    recipe = study.recipe_of()
    folder = study_folder(study, recipe)
    _declare(study, folder)
    prepared = prepared_data(recipe)
    draw(recipe, graph_of(recipe, prepared))
    with Watch(bitext_recipe(recipe).training.max_steps) as watch:
        losses = benchmark(recipe, prepared, at_once=at_once, saw=watch.saw, say=watch.say)
    write_if_changed(folder / "losses.json", json.dumps({"version": 1, "losses": losses}, indent=1) + "\n")
    at_once = at_once or available_cores()
    tuned = tune(study, recipe, prepared, folder, at_once)
    study = tuned.study
    untuned = {trial.name: tuned.failed[trial.arm] for trial in trials(study, recipe) if trial.arm in tuned.failed}
    failed = _train(study, recipe, prepared, folder, at_once, untuned)
    tuning = {"tuning": tuned.facts} if tuned.facts else {}
    write_results(folder, results(study, recipe, prepared, losses, failed) | tuning)
    page = write_study(folder)
    if failed:
        told = "\n  ".join(f"{name}: {why}" for name, why in failed.items())
        raise TrainingError(
            f"{len(failed)} of {len(trials(study, recipe))} trials failed; the same command tries them again."
            f" What the others came to: {page}\n  {told}"
        )
    return page


def _declare(study: Study, folder: Path) -> None:
    """What is asked stands before the answers: it is written down before the first run and holds from then on."""
    now = study.model_dump(mode="json", include={"primary", "endpoint", "seeds"})
    if study.tune:
        now["tune"] = plain(study.tune.model_dump(mode="json"))
    path = folder / "declared.json"
    folder.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        atomic_text(path, json.dumps(now, indent=1) + "\n")
    changed = differences(json.loads(path.read_text(encoding="utf-8")), now)
    if changed:
        raise ConfigError(
            f"{path}: the study was declared otherwise before its runs; give it another name\n  " + "\n  ".join(changed)
        )


def _train(
    study: Study, recipe: Recipe, prepared: Prepared, folder: Path, at_once: int, untuned: Mapping[str, str]
) -> dict[str, str]:
    """Trains and scores every trial that is not done; gives why some failed. One that waits for a failed one fails."""
    every = trials(study, recipe)
    failed = dict(untuned)
    with Watch(recipe.training.max_steps) as watch:
        for wave in study.waves():
            due: list[Training] = []
            for trial in (trial for trial in every if trial.arm in wave and trial.name not in untuned):
                blocked = [f"{arm}.{trial.seed}" for arm in study.after.get(trial.arm, ())]
                if why := next((name for name in blocked if name in failed), None):
                    failed[trial.name] = f"waits for {why}, which failed"
                    continue
                due += _due(study, trial, recipe, prepared, folder / "losses.json")
            remaining = Remaining(watch, len(due), f"{len(every)} trials in all")
            complaints = side_by_side(due, at_once, remaining.saw)
            failed |= {name.partition("/")[0]: why for name, why in complaints.items()}
    for trial in every:
        if trial.arm == BITEXT and trial.name not in failed:
            evaluation = Evaluation(trial.folder)
            evaluation.scored() or evaluation.score()
    return failed


def _due(study: Study, trial: Trial, recipe: Recipe, prepared: Prepared, losses: Path) -> list[Training]:
    """The trainings of a trial that are not done."""
    made = trainings(study, trial, recipe, prepared, losses)
    if trial.arm == BITEXT:
        return [training for training in made if not _is_done(training, prepared, None)]
    known = json.loads(losses.read_text(encoding="utf-8"))["losses"]
    due = [TrialTraining(each.name, each.recipe, each.folder) for each in made]
    return [each for each in due if not (_is_done(each, prepared, known) and Evaluation(each.folder).scored())]


def _is_done(training: Training, prepared: Prepared, losses: dict[str, float] | None) -> bool:
    return is_finished(training.folder, training.settings(), prepared, losses)
