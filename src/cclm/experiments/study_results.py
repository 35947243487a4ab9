"""The content of results.json: the outcome of every trial, the means of every arm, and the comparisons of arms."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from cclm.curriculum import LanguageGraph
from cclm.data.batches import Batches
from cclm.data.prepared import Prepared
from cclm.errors import DataError
from cclm.evaluation.compare import over_sentences
from cclm.evaluation.evaluate import Evaluation
from cclm.evaluation.scores import ALWAYS
from cclm.evaluation.statistics import SAMPLES, Comparison, holm, over_seeds, sentence
from cclm.experiments.benchmark import reference_folder
from cclm.formats import study as formats
from cclm.formats.checkpoint import tokens_after_the_log
from cclm.formats.log import Log, Validation
from cclm.formats.run import LOG
from cclm.formats.run_folder import MULTILINGUAL
from cclm.formats.scores import METRICS, MetricName
from cclm.recipe.schema import Recipe
from cclm.recipe.study import BITEXT, Study, plain
from cclm.training.provenance import newest_checkpoint, progress_of
from cclm.training.tasks import tasks

SHARES = (50, 75, 100)
"""Percent of the budget at which the dev loss is reported: short runs favour other methods than long ones."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a training; losses are those of the selected checkpoint, in bits per token."""

    steps: int
    best: int | None
    reason: str
    tokens: int
    admissions: dict[str, int]
    draws: dict[str, int]
    epochs: dict[str, float]
    weighted: float | None
    macro: float | None
    dev_loss: dict[str, float | None]
    macro_at: dict[str, float | None]
    """Macro dev loss after 50, 75 and 100 percent of the steps."""


def outcome(run: Path, max_steps: int, batches: Mapping[str, int]) -> Outcome:
    """The outcome of a finished training, from its log; `batches` is the number per pass over each language."""
    log = Log.read(run / LOG)
    stopped, best = log.stopped, log.best
    if stopped is None or best is None:
        raise DataError(f"{run}: its log has no end; train it to its end first")
    validations = {event.step: event for event in log.of(Validation)}
    newest = newest_checkpoint(run)
    draws = progress_of(newest).counters if newest else {}
    return Outcome(
        steps=stopped.step,
        best=stopped.best,
        reason=stopped.reason,
        tokens=log.tokens + tokens_after_the_log(run, stopped.step),
        admissions=log.admissions,
        draws={lang: draws.get(lang, 0) for lang in batches},
        epochs={lang: draws.get(lang, 0) / count for lang, count in batches.items()},
        weighted=best.weighted,
        macro=best.macro,
        dev_loss=best.dev_loss,
        macro_at={str(share): _macro_at(validations, max_steps * share // 100) for share in SHARES},
    )


def _macro_at(validations: Mapping[int, Validation], step: int) -> float | None:
    """The macro dev loss at the last validation up to a step; None where the training had ended before it."""
    within = [earlier for earlier in validations if earlier <= step]
    return validations[max(within)].macro if within and max(validations) >= step else None


@dataclass(frozen=True)
class BitextOutcome:
    """The outcome of the bitext runs in a folder: steps and tokens are sums over them."""

    steps: int
    tokens: int
    dev_loss: dict[str, float | None]


def bitext_outcome(folder: Path, names: Sequence[str]) -> BitextOutcome:
    """The outcome of the bitext models of these tasks."""
    found = {name: outcome(folder / name, 0, {}) for name in names}
    return BitextOutcome(
        steps=sum(each.steps for each in found.values()),
        tokens=sum(each.tokens for each in found.values()),
        dev_loss={name: each.dev_loss[name] for name, each in found.items()},
    )


GROUPS = ("all", "hrl", "lrl")
Groups = Mapping[str, list[str]]
"""The tasks of each group of languages."""


@dataclass(frozen=True)
class Trial:
    """An arm with a seed, and the folder of its run (or of its bitext runs)."""

    arm: str
    seed: int
    folder: Path
    run: str
    """The path of the run in the work folder; for bitext models, that of a link to `folder`."""

    @property
    def name(self) -> str:
        """The name of its run."""
        return f"{self.arm}.{self.seed}"


def results(
    study: Study,
    recipe: Recipe,
    prepared: Prepared,
    losses: Mapping[str, float],
    trials: Sequence[Trial],
    failed: Mapping[str, str],
    graph: LanguageGraph | None,
) -> formats.StudyResults:
    """The results of a study. They contain no times, so that they are the same however often it was interrupted."""
    groups = scored_groups(recipe, prepared)
    batches = _batches(recipe, prepared)
    made = [_trial(trial, recipe, batches, failed.get(trial.name)) for trial in trials]
    arms = {arm: arm_on_average([trial for trial in made if trial.arm == arm], groups) for arm in study.arms}
    return formats.StudyResults(
        study=_declared(study),
        data=_data(recipe, prepared),
        similarity={lrl: dict(row) for lrl, row in graph.similarity.items()} if graph else {},
        benchmark=_benchmark(recipe, prepared, losses),
        trials=made,
        arms=arms,
        comparisons=comparisons(study, made, groups, Path(recipe.work)),
    )


def _declared(study: Study) -> formats.Declared:
    return formats.Declared(
        **study.model_dump(mode="json", include={"name", "recipe", "seeds", "primary", "endpoint"}),
        arms=plain(study.arms),
        changes=plain(study.changes),
        baseline=study.against,
    )


def _data(recipe: Recipe, prepared: Prepared) -> formats.StudyData:
    made = tasks(recipe.data, prepared)
    hrls, lrls = recipe.data.by_resource({name: task.language for name, task in made.items()})
    return formats.StudyData(
        direction=recipe.data.direction,
        pivot=recipe.data.pivot,
        high_resource=hrls,
        low_resource=lrls,
        sizes={name: dict(prepared.sizes[task.language]) for name, task in made.items()},
    )


def _benchmark(recipe: Recipe, prepared: Prepared, losses: Mapping[str, float]) -> formats.StudyBenchmark:
    source = recipe.benchmark.source
    if source in ("file", "none") or not losses:
        return formats.StudyBenchmark(losses=dict(losses), steps=None, tokens=None)
    folder = reference_folder(recipe, prepared)
    runs = [folder / name for name in ([MULTILINGUAL] if source == MULTILINGUAL else losses)]
    found = [outcome(run, 0, {}) for run in runs]
    made = formats.StudyBenchmark(
        losses=dict(losses), steps=sum(each.steps for each in found), tokens=sum(each.tokens for each in found)
    )
    return made.model_copy(update={"method": source}) if source == MULTILINGUAL else made


def _batches(recipe: Recipe, prepared: Prepared) -> dict[str, int]:
    """The number of batches per pass over each task."""
    return {
        name: len(
            Batches(
                prepared.corpus(task.language, "train"),
                task.direction,
                language=name,
                seed=0,
                budget=recipe.training.batch_tokens,
            )
        )
        for name, task in tasks(recipe.data, prepared).items()
    }


def scored_groups(recipe: Recipe, prepared: Prepared) -> dict[str, list[str]]:
    """The tasks that have a test set: all of them, those of HRLs, those of LRLs."""
    made = tasks(recipe.data, prepared).items()
    scored = {name: task.language for name, task in made if "test" in prepared.sizes[task.language]}
    hrls, lrls = recipe.data.by_resource(scored)
    return {"all": list(scored), "hrl": hrls, "lrl": lrls}


def _trial(trial: Trial, recipe: Recipe, batches: Mapping[str, int], why: str | None) -> formats.Trial:
    facts: dict[str, object] = {
        "arm": trial.arm,
        "seed": trial.seed,
        "run": trial.run,
        "state": "failed" if why else "finished",
        "why": why,
    }
    if not why:
        if trial.arm == BITEXT:
            facts |= asdict(bitext_outcome(trial.folder, list(batches)))
        else:
            facts |= asdict(outcome(trial.folder, recipe.training.max_steps, batches))
        scores = Evaluation(trial.folder).scored()
        assert scores  # it was scored after its training
        facts["scores"] = {"languages": scores.languages, "means": scores.means.plain()}
    return formats.Trial.model_validate(facts)


# --- arms -------------------------------------------------------------------------------------------------------------


def arm_on_average(made: Sequence[formats.Trial], groups: Groups) -> formats.Arm:
    """An arm on average over its finished seeds."""
    finished = [trial for trial in made if trial.is_finished]
    if not finished:
        return formats.Arm(seeds=0)
    more = _more_scores(finished, groups)
    arm = formats.Arm(
        seeds=len(finished),
        bleu=_metric(finished, "bleu", groups),
        chrf=_metric(finished, "chrf", groups),
        languages={
            lang: {metric: mean(score(trial, metric, [lang]) for trial in finished) for metric in METRICS}
            for lang in groups["all"]
        },
        weighted=mean(trial.weighted for trial in finished),
        macro=mean(trial.macro for trial in finished),
        steps=mean(trial.steps for trial in finished),
    )
    return arm.model_copy(update={"more_scores": more}) if more else arm


def _metric(finished: Sequence[formats.Trial], metric: str, groups: Groups) -> formats.Metric:
    means = {group: mean(score(trial, metric, names) for trial in finished) for group, names in groups.items()}
    worst = mean(min(row[metric] for row in _rows(trial).values()) for trial in finished)
    return formats.Metric(**means, worst=worst)


def _more_scores(finished: Sequence[formats.Trial], groups: Groups) -> dict[str, formats.MoreScores]:
    """Scores other than BLEU and chrF, mean over seeds. A language needs the score in all seeds, a group in any of its
    languages."""
    found: dict[str, formats.MoreScores] = {}
    rows = [_rows(trial) for trial in finished]
    for name in dict.fromkeys(name for each in rows for row in each.values() for name in row if name not in ALWAYS):
        there = [lang for lang in groups["all"] if all(name in each[lang] for each in rows)]
        languages = {lang: sum(each[lang][name] for each in rows) / len(rows) for lang in there}
        means = {group: mean(languages.get(lang) for lang in names) for group, names in groups.items()}
        if languages:
            found[name] = formats.MoreScores(**means, languages=languages)
    return found


def _rows(trial: formats.Trial) -> dict[str, dict[str, float]]:
    assert trial.scores is not None  # it is finished
    return trial.scores.languages


def score(trial: formats.Trial, metric: str, names: list[str]) -> float | None:
    """The mean score of a trial over these languages; None without languages."""
    return mean(_rows(trial)[name][metric] for name in names)


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of the values that are not None; None if there are none."""
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else None


# --- comparisons ------------------------------------------------------------------------------------------------------


def comparisons(study: Study, made: Sequence[formats.Trial], groups: Groups, work: Path) -> list[formats.Comparison]:
    """The primary comparisons, then every arm with the baseline; each by the endpoint first, then the other metric."""
    pairs = [*study.primary, *((arm, study.against) for arm in study.arms if arm != study.against)]
    metrics = sorted(METRICS, key=lambda metric: metric != study.endpoint)
    found: list[formats.Comparison] = []
    for pair in dict.fromkeys(pairs):
        for metric in metrics:
            of_pair = _compare(study, made, groups, pair, metric)
            found += _resample(of_pair, made, groups, work) if len(study.seeds) == 1 else of_pair
    return [_with_sentence(each, _higher(study, made, groups, each)) for each in _with_holm(found)]


def _compare(
    study: Study, made: Sequence[formats.Trial], groups: Groups, pair: tuple[str, str], metric: MetricName
) -> list[formats.Comparison]:
    """Two arms over all languages, HRLs and LRLs, paired by seed."""
    found = []
    for over in (group for group in GROUPS if groups[group]):
        ours, theirs = (_by_seed(study, made, arm, metric, groups[over]) for arm in pair)
        if ours.keys() & theirs.keys():
            paired = over_seeds(ours, theirs)
            found.append(
                formats.Comparison(
                    first=pair[0],
                    second=pair[1],
                    primary=pair in study.primary and metric == study.endpoint and over == "all",
                    metric=metric,
                    over=over,
                    differences={str(seed): value for seed, value in paired.differences.items()},
                    mean=paired.difference,
                    low=paired.low,
                    high=paired.high,
                    p=paired.p,
                    holm=None,
                    sentence="",
                )
            )
    return found


def _by_seed(study: Study, made: Sequence[formats.Trial], arm: str, metric: str, names: list[str]) -> dict[int, float]:
    finished = {trial.seed: trial for trial in made if trial.arm == arm and trial.is_finished}
    scores = {seed: score(finished[seed], metric, names) for seed in study.seeds if seed in finished}
    return {seed: value for seed, value in scores.items() if value is not None}


def _resample(
    of_pair: list[formats.Comparison], made: Sequence[formats.Trial], groups: Groups, work: Path
) -> list[formats.Comparison]:
    """The comparisons of a study with one seed, with intervals and p from a bootstrap of its test sentences.

    The comparison over all languages also has those of each language.
    """
    if not of_pair:
        return []
    runs = {trial.arm: work / trial.run for trial in made}
    ours, theirs = (Evaluation(runs[arm]) for arm in (of_pair[0].first, of_pair[0].second))
    languages, means = over_sentences(ours, theirs, groups, metric=of_pair[0].metric)
    found = []
    for comparison in of_pair:
        row = means[comparison.over]
        facts = comparison.plain() | {"low": row.low, "high": row.high, "p": row.p, "resamples": SAMPLES}
        if comparison.over == "all":
            facts["languages"] = {lang: asdict(each) for lang, each in languages.items()}
        found.append(formats.Comparison.model_validate(facts))
    return found


def _with_holm(found: Sequence[formats.Comparison]) -> list[formats.Comparison]:
    """The primary comparisons with p adjusted for all of them."""
    deciding = {i: each.p for i, each in enumerate(found) if each.primary and each.p is not None}
    adjusted = dict(zip(deciding, holm(list(deciding.values())), strict=True))
    return [each.model_copy(update={"holm": adjusted.get(i)}) for i, each in enumerate(found)]


def _higher(study: Study, made: Sequence[formats.Trial], groups: Groups, found: formats.Comparison) -> float:
    """The higher mean score of the two arms of a comparison."""
    pair = (found.first, found.second)
    return max(fmean(_by_seed(study, made, arm, found.metric, groups[found.over]).values()) for arm in pair)


def _with_sentence(found: formats.Comparison, higher: float) -> formats.Comparison:
    """The comparison with a sentence that states its conclusion, given the higher of the two scores."""
    over = {"all": "", "hrl": " on HRLs", "lrl": " on LRLs"}[found.over]
    compared = Comparison(
        found.first,
        found.second,
        METRICS[found.metric] + over,
        seeds=len(found.differences),
        mean=found.mean,
        low=found.low,
        high=found.high,
        p=found.p if found.holm is None else found.holm,
        adjusted=found.holm is not None,
        higher=higher,
    )
    return found.model_copy(update={"sentence": sentence(compared)})
