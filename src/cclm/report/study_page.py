"""The report of a study: the order of its sections; training, cost, tuning, failures and data."""

import json
from collections import Counter
from collections.abc import Mapping

from cclm.formats.study import StudyBenchmark, StudyResults, Try, TunedArm, Tuning
from cclm.report.document import (
    DASH,
    Block,
    Cell,
    Document,
    Paragraph,
    Section,
    Table,
    abbreviated,
    as_markdown,
    cross_table,
    decimal,
    document_page,
    integer,
    mean,
    name_seeds,
    number_column,
    percent,
    plural,
)
from cclm.report.study_claims import claims_section, differences_section
from cclm.report.study_scores import Study, scores_section

SHARES = {share: f"at {share}\u00a0%" for share in ("50", "75", "100")}
SIDES = {"lrl": "LRL", "hrl": "HRL"}
TUNING = (
    "Dev losses in bits per token at the selected checkpoint; the lowest of each arm is bold. The macro loss, the mean"
    " over languages, decides: a loss weighted by dev sentences would favour methods that draw HRLs most often."
)


def study_page(results: StudyResults, *, seconds: Mapping[str, float] | None = None) -> str:
    """The report as an HTML page; `seconds` maps runs, as named in the results, to their training times."""
    return document_page(study_document(Study(results), seconds or {}))


def study_markdown(
    results: StudyResults, *, seconds: Mapping[str, float] | None = None, pictures: str | None = None
) -> str:
    """The report as Markdown; with `pictures`, the folder of `forest.svg`, the figure is linked."""
    return as_markdown(study_document(Study(results), seconds or {}), pictures)


def study_document(study: Study, seconds: Mapping[str, float]) -> Document:
    """The report, with all sections that the study has data for."""
    sections = [claims_section(study), scores_section(study)]
    if study.finished():
        sections += [_training(study), _cost(study, seconds)]
    if study.results.tuning:
        sections.append(_tuning(study.results.tuning))
    if study.failed():
        sections.append(_failures(study))
    sections += [differences_section(study), _data(study)]
    return Document("cclm study", study.name, _lead(study), sections)


def _lead(study: Study) -> str:
    facts, trials, finished = study.results.data, study.results.trials, len(study.finished())
    languages = f"{plural(len(facts.high_resource), 'HRL')} and {plural(len(facts.low_resource), 'LRL')}"
    ended = "all trials finished" if finished == len(trials) else f"{finished} of {len(trials)} trials finished"
    return (
        f"{plural(len(study.arms), 'arm')}, {name_seeds(study.seeds)}, on the recipe {study.results.study.recipe}:"
        f" {facts.direction} with {facts.pivot}, {languages}; {ended}."
        f" Endpoint: mean {study.endpoint_name} over all languages."
    )


def _training(study: Study) -> Section:
    """Which languages each arm drew and admitted, and its dev losses during training."""
    blocks: list[Block] = [_by_language(study, "Micro-batches drawn", "draws", 0)]
    blocks.append(_by_language(study, "Passes over the training data", "epochs", 1))
    blocks += _admissions(study)
    blocks.append(_dev_losses(study))
    return Section("training", "Training", blocks)


def _by_language(study: Study, caption: str, key: str, digits: int) -> Table:
    arms = [arm for arm in study.arms if any(getattr(trial, key) for trial in study.finished(arm))]

    def cell(arm: str, lang: str) -> Cell:
        values = [getattr(trial, key)[lang] for trial in study.finished(arm) if lang in (getattr(trial, key) or {})]
        return Cell(decimal(mean(values), digits) if values else DASH)

    return cross_table(f"{caption}{study.over_seeds}", ("arm", arms), ("language", study.languages), cell)


def _admissions(study: Study) -> list[Block]:
    """One row per trial in which a language was admitted late or never; the other arms in a sentence."""
    trials = [(trial, trial.admissions) for trial in study.finished() if trial.admissions is not None]
    waited = [(trial, steps) for trial, steps in trials if any(steps.values())]
    late = {lang for _, steps in waited for lang, step in steps.items() if step}
    late |= {lang for _, steps in waited for lang in study.results.data.low_resource if lang not in steps}
    names = [lang for lang in study.languages if lang in late]
    by_name = {f"{trial.arm}, seed {trial.seed}": steps for trial, steps in waited}

    def cell(trial: str, lang: str) -> Cell:
        step = by_name[trial].get(lang)
        return Cell("never" if step is None else integer(step))

    waiting = {trial.arm for trial, _ in waited}
    at_once = [arm for arm in study.arms if arm not in waiting and any(trial.arm == arm for trial, _ in trials)]
    blocks: list[Block] = []
    if waited:
        note = "The step at which each language was admitted; languages not listed were trained from the start."
        blocks.append(cross_table("Admissions", ("trial", list(by_name)), ("language", names), cell, note))
    if at_once:
        blocks.append(Paragraph(f"These arms trained on all languages from the start: {', '.join(at_once)}."))
    return blocks


def _dev_losses(study: Study) -> Table:
    arms = [arm for arm in study.arms if study.average(arm, "macro") is not None]
    shares = {share: [_macro_loss_at(study, arm, share) for arm in arms] for share in SHARES}
    columns = [number_column(values, 3, lowest=True) for values in shares.values()]
    columns += [
        number_column([study.average(arm, key) for arm in arms], 3, lowest=True) for key in ("macro", "weighted")
    ]
    stopped = [_stop_reasons(study, arm) for arm in arms]
    rows = [[Cell(arm), *row] for arm, *row in zip(arms, *columns, stopped, strict=True)]
    head = ("arm", *SHARES.values(), "selected", "selected, weighted", "why it stopped")
    note = (
        "Bits per token, mean over languages and seeds, at the last validation within 50, 75 and 100\u00a0% of the"
        " maximum number of steps, and at the selected checkpoint, there also weighted by dev sentences. A dash means"
        " that a seed had stopped before."
    )
    return Table("Dev loss during training", head, rows, note, text_columns=(0, len(head) - 1))


def _macro_loss_at(study: Study, arm: str, share: str) -> float | None:
    """The macro dev loss, mean over seeds; None if a seed had stopped before, as the means would not compare."""
    values = [(trial.macro_at or {}).get(share) for trial in study.finished(arm)]
    known = [value for value in values if value is not None]
    return mean(known) if known and len(known) == len(values) else None


def _stop_reasons(study: Study, arm: str) -> Cell:
    counts = Counter(trial.reason for trial in study.finished(arm) if trial.reason)
    several = len(counts) > 1
    return Cell("; ".join(f"{reason} ({n})" if several else reason for reason, n in counts.items()) or DASH)


def _cost(study: Study, seconds: Mapping[str, float]) -> Section:
    """Steps and tokens of one trial of each arm, the cost of L*, and seconds if they were measured."""
    benchmark = study.results.benchmark
    benchmark_tokens = benchmark.tokens if benchmark else None
    rows = []
    for arm in study.arms:
        tokens, steps = study.average(arm, "tokens"), study.average(arm, "steps")
        own = benchmark.arms.get(arm, benchmark_tokens) if benchmark else None
        share = percent(own / tokens) if own and tokens and arm != "bitext" else DASH
        row = [Cell(arm), Cell(integer(steps)), Cell(abbreviated(tokens)), Cell(share)]
        times = [seconds[trial.run] for trial in study.finished(arm) if trial.run in seconds]
        rows.append([*row, Cell(integer(mean(times)) if times else DASH)] if seconds else row)
    head = ("arm", "steps", "target tokens", "cost of L*", *(("seconds",) if seconds else ()))
    blocks: list[Block] = [Table(f"Cost of one trial{study.over_seeds}", head, rows)]
    if benchmark and benchmark_tokens:
        steps_taken = f"{plural(benchmark.steps, 'step')} and " if benchmark.steps else ""
        text = (
            f"Methods that use competence need L* first. Training {_models(benchmark)} took"
            f" {steps_taken}{abbreviated(benchmark_tokens)} target tokens, once for all arms{_except(benchmark)}."
            " The column “cost of L*” shows these tokens as a share of one trial."
        )
        blocks.append(Paragraph(text))
    return Section("cost", "Cost", blocks)


def _models(benchmark: StudyBenchmark) -> str:
    if benchmark.method == "multilingual":
        return "the multilingual model that gives L*"
    return "the bitext models that give L*"


def _except(benchmark: StudyBenchmark) -> str:
    return f" but {', '.join(benchmark.arms)}, which have their own L*" if benchmark.arms else ""


def _tuning(tuning: Tuning) -> Section:
    """One row per value that was tried, the rule of the choice, and the cost."""
    rows = [row for name, arm in tuning.arms.items() for row in _tries(name, arm)]
    head = ("arm", "key", "value", "macro dev loss", "weighted", "outcome")
    most = max((len(arm.tries) for arm in tuning.arms.values()), default=0)
    rule = (
        f"Each arm in the table was trained once with each of {plural(most, 'value')}. All its trials use the value"
        f" with the lowest macro dev loss. The choice used only dev data and seed {tuning.seed}, which is not used in"
        " any comparison. Settings that are not in the table were not tuned."
    )
    cost = (
        f"Tuning took {plural(len(rows), 'training')}, {plural(tuning.steps, 'step')} and"
        f" {abbreviated(tuning.tokens)} target tokens, in addition to the cost of the trials."
    )
    table = Table("Tuning", head, rows, TUNING, (0, 1, 5))
    return Section("tuning", "Tuning", [Paragraph(rule), table, Paragraph(cost)])


def _tries(name: str, arm: TunedArm) -> list[list[Cell]]:
    """The rows of an arm, with its lowest losses marked."""
    macro = number_column([attempt.macro for attempt in arm.tries], 3, lowest=True)
    weighted = number_column([attempt.weighted for attempt in arm.tries], 3, lowest=True)
    return [
        [Cell(name), Cell(arm.key), Cell(str(attempt.value), best=attempt.chosen), *losses, Cell(_outcome(attempt))]
        for attempt, *losses in zip(arm.tries, macro, weighted, strict=True)
    ]


def _outcome(attempt: Try) -> str:
    return f"failed: {attempt.why}" if attempt.why else "chosen" if attempt.chosen else ""


def _failures(study: Study) -> Section:
    rows = [
        [Cell(trial.arm), Cell(str(trial.seed)), Cell(trial.run), Cell(trial.why or DASH)] for trial in study.failed()
    ]
    note = "Failed trials are not part of any mean or comparison."
    table = Table("Failed trials", ("arm", "seed", "run", "why"), rows, note, (0, 2, 3))
    return Section("failures", "Failures", [table])


def _data(study: Study) -> Section:
    """Sentence pairs, dev losses of the bitext models, similarities, and the settings of each arm."""
    blocks: list[Block] = [_statistics(study)]
    if study.results.similarity:
        blocks.append(_similarities(study))
    blocks.append(_arms(study))
    return Section("data", "Data and settings", blocks)


def _statistics(study: Study) -> Table:
    data, losses = study.results.data, study.results.benchmark.losses if study.results.benchmark else {}
    languages = [*data.low_resource, *data.high_resource]
    tasks = [*languages, *(lang for lang in losses if lang not in languages)]
    columns: dict[str, list[str]] = {"": [SIDES[study.side(lang)] for lang in tasks]}
    for split in ("train", "dev", "test"):
        columns[split] = [integer(data.sizes.get(lang, {}).get(split)) for lang in tasks]
    columns["L*"] = [decimal(losses.get(lang), 3) for lang in tasks]
    if study.paper:
        columns["train, paper"] = [integer(study.paper.pairs(lang)) for lang in tasks]
        columns["L*, paper"] = [decimal(study.paper.loss(lang), 3) for lang in tasks]
    rows = [[Cell(lang), *map(Cell, row)] for lang, *row in zip(tasks, *columns.values(), strict=True)]
    one = study.results.benchmark is not None and study.results.benchmark.method == "multilingual"
    of, title = (
        ("a short multilingual training", "L*")
        if one
        else ("the language's bitext model", "dev losses of the bitext models")
    )
    note = f"train, dev, test: sentence pairs. L*: dev loss of {of}, in bits per token."
    return Table(f"Dataset statistics and {title}", ("language", *columns), rows, note, (0, 1))


def _similarities(study: Study) -> Table:
    similarity, paper = study.results.similarity or {}, study.paper
    hrls = list(dict.fromkeys(hrl for row in similarity.values() for hrl in row))
    cells: dict[tuple[str, str], Cell] = {}
    for lrl, row in similarity.items():
        for hrl, cell in zip(hrls, number_column([row.get(hrl) for hrl in hrls]), strict=True):
            printed = paper.similarity(lrl, hrl) if paper else None
            cells[hrl, lrl] = cell if printed is None else Cell(f"{cell.text} ({decimal(printed)})", cell.best)
    note = "Bold: the nearest HRL." + (" In brackets: the paper's values." if paper else "")
    return cross_table("Similarities", ("HRL", hrls), ("LRL", list(similarity)), lambda hrl, lrl: cells[hrl, lrl], note)


def _arms(study: Study) -> Table:
    settings = study.results.study.arms
    rows = [[Cell(arm), Cell(_changes(settings.get(arm)))] for arm in study.arms]
    return Table("Settings of each arm that differ from the recipe", ("arm", "settings"), rows, text_columns=(0, 1))


def _changes(settings: dict[str, object] | None) -> str:  # settings of any type
    return ", ".join(f"{key} = {_value(value)}" for key, value in (settings or {}).items()) or DASH


def _value(value: object) -> str:
    """A setting as short text; objects as `key=value`, without the key `name`."""
    if isinstance(value, dict):
        return " ".join(str(inner) if key == "name" else f"{key}={_value(inner)}" for key, inner in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
