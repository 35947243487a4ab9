"""The report of a study: all sections in order, and those on learning, cost, tuning, failures and data."""

import json
from collections.abc import Mapping
from typing import Any

from cclm.formats.study import StudyResults, Try, TunedArm, Tuning
from cclm.report.document import (
    DASH,
    Block,
    Cell,
    Document,
    Paragraph,
    Section,
    Table,
    as_markdown,
    cross_table,
    decimal,
    document_page,
    large,
    mean,
    name_seeds,
    number_column,
    percent,
    plural,
    whole,
)
from cclm.report.study import Study, scores_section
from cclm.report.study_claims import claims_section, differences_section

SHARES = {share: f"at {share}\u00a0%" for share in ("50", "75", "100")}
SIDES = {"lrl": "LRL", "hrl": "HRL"}
TUNING = (
    "Bits per token at the selected checkpoint; the lowest of an arm is bold. The mean over languages decides; weighted"
    " by dev sentences, it would favour whoever draws HRLs most."
)


def study_page(results: StudyResults, *, seconds: Mapping[str, float] | None = None) -> str:
    """The report as one HTML page; `seconds` is the training time of each run, by its name in the results."""
    return document_page(study_document(Study(results), seconds or {}))


def study_markdown(
    results: StudyResults, *, seconds: Mapping[str, float] | None = None, pictures: str | None = None
) -> str:
    """The report as Markdown; with `pictures`, the folder of `forest.svg`, the figure is linked."""
    return as_markdown(study_document(Study(results), seconds or {}), pictures)


def study_document(study: Study, seconds: Mapping[str, float]) -> Document:
    """All sections of the report that the study has data for."""
    sections = [claims_section(study), scores_section(study)]
    if study.finished():
        sections += [_course(study), _cost(study, seconds)]
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


def _course(study: Study) -> Section:
    """What each arm drew, whom it admitted when, and where it stood on the way."""
    blocks: list[Block] = [_by_language(study, "Micro-batches drawn", "draws", 0)]
    blocks.append(_by_language(study, "Passes over the training data", "epochs", 1))
    blocks += _admissions(study)
    blocks.append(_dev_losses(study))
    return Section("course", "How they learned", blocks)


def _by_language(study: Study, caption: str, key: str, digits: int) -> Table:
    arms = [arm for arm in study.arms if any(getattr(trial, key) for trial in study.finished(arm))]

    def cell(arm: str, lang: str) -> Cell:
        values = [getattr(trial, key)[lang] for trial in study.finished(arm) if lang in (getattr(trial, key) or {})]
        return Cell(decimal(mean(values), digits) if values else DASH)

    return cross_table(f"{caption}{study.over_seeds}", ("arm", arms), ("language", study.languages), cell)


def _admissions(study: Study) -> list[Block]:
    """One row per trial in which a language had to wait; the other arms in a sentence."""
    trials = [(trial, trial.admissions) for trial in study.finished() if trial.admissions is not None]
    waited = [(trial, steps) for trial, steps in trials if any(steps.values())]
    late = {lang for _, steps in waited for lang, step in steps.items() if step}
    late |= {lang for _, steps in waited for lang in study.results.data.low_resource if lang not in steps}
    names = [lang for lang in study.languages if lang in late]
    by_name = {f"{trial.arm}, seed {trial.seed}": steps for trial, steps in waited}

    def cell(trial: str, lang: str) -> Cell:
        step = by_name[trial].get(lang)
        return Cell("never" if step is None else whole(step))

    waiting = {trial.arm for trial, _ in waited}
    at_once = [arm for arm in study.arms if arm not in waiting and any(trial.arm == arm for trial, _ in trials)]
    blocks: list[Block] = []
    if waited:
        note = "The step at which each language joined; all others took part from the start."
        blocks.append(cross_table("Admissions", ("trial", list(by_name)), ("language", names), cell, note))
    if at_once:
        blocks.append(Paragraph(f"All languages took part from the start in {', '.join(at_once)}."))
    return blocks


def _dev_losses(study: Study) -> Table:
    arms = [arm for arm in study.arms if study.average(arm, "macro") is not None]
    shares = {share: [_at(study, arm, share) for arm in arms] for share in SHARES}
    columns = [number_column(values, 3, lowest=True) for values in shares.values()]
    columns += [
        number_column([study.average(arm, key) for arm in arms], 3, lowest=True) for key in ("macro", "weighted")
    ]
    stopped = [_stopped(study, arm) for arm in arms]
    rows = [[Cell(arm), *row] for arm, *row in zip(arms, *columns, stopped, strict=True)]
    head = ("arm", *SHARES.values(), "selected", "selected, weighted", "why it stopped")
    note = (
        "Bits per token, mean over languages and seeds, at the last validation within each share of the greatest number"
        " of steps; at the selected checkpoint also weighted by dev sentences. A dash where some seed had stopped"
        " before: without it the mean would be of other seeds."
    )
    return Table("Dev loss on the way", head, rows, note, words=(0, len(head) - 1))


def _at(study: Study, arm: str, share: str) -> float | None:
    """The mean over seeds, if every seed trained that long."""
    values = [(trial.macro_at or {}).get(share) for trial in study.finished(arm)]
    there = [value for value in values if value is not None]
    return mean(there) if there and len(there) == len(values) else None


def _stopped(study: Study, arm: str) -> Cell:
    reasons = [trial.reason for trial in study.finished(arm) if trial.reason]
    counts = {reason: reasons.count(reason) for reason in dict.fromkeys(reasons)}
    many = len(counts) > 1
    return Cell("; ".join(f"{reason} ({n})" if many else reason for reason, n in counts.items()) or DASH)


def _cost(study: Study, seconds: Mapping[str, float]) -> Section:
    """Steps and tokens of one trial of each arm, what L* adds, and seconds if they were measured."""
    benchmark = study.results.benchmark
    extra = benchmark.tokens if benchmark else None
    rows = []
    for arm in study.arms:
        tokens, steps = study.average(arm, "tokens"), study.average(arm, "steps")
        share = percent(extra / tokens) if extra and tokens and arm != "bitext" else DASH
        row = [Cell(arm), Cell(whole(steps)), Cell(large(tokens)), Cell(share)]
        taken = [seconds[trial.run] for trial in study.finished(arm) if trial.run in seconds]
        rows.append([*row, Cell(whole(mean(taken)) if taken else DASH)] if seconds else row)
    head = ("arm", "steps", "target tokens", "L* beside it", *(("seconds",) if seconds else ()))
    blocks: list[Block] = [Table(f"Cost of one trial{study.over_seeds}", head, rows)]
    if benchmark and extra:
        trained = f"{plural(benchmark.steps, 'step')} and " if benchmark.steps else ""
        blocks.append(
            Paragraph(
                f"Methods that use competence need L* first. The bitext models behind it took {trained}{large(extra)}"
                " target tokens, once for all arms; “L* beside it” is that as a share of one trial."
            )
        )
    return Section("cost", "What it cost", blocks)


def _tuning(tuned: Tuning) -> Section:
    """One row per value that was tried, what the choice rests on, and the cost."""
    rows = [row for name, arm in tuned.arms.items() for row in _tries(name, arm)]
    head = ("arm", "key", "value", "macro dev loss", "weighted", "outcome")
    most = max((len(arm.tries) for arm in tuned.arms.values()), default=0)
    words = (
        f"Each of these arms was trained once with each of {plural(most, 'value')}, and the one with the lowest macro"
        f" dev loss went into all its trials. The choice used dev data only, and seed {tuned.seed}, which is in no"
        " comparison. What is not in the table was not tuned."
    )
    cost = (
        f"The tuning took {plural(len(rows), 'training')}, {plural(tuned.steps, 'step')} and {large(tuned.tokens)}"
        " target tokens, in addition to the cost of the trials."
    )
    table = Table("Tuning", head, rows, TUNING, (0, 1, 5))
    return Section("tuning", "What was tuned", [Paragraph(words), table, Paragraph(cost)])


def _tries(name: str, arm: TunedArm) -> list[list[Cell]]:
    """The tries of an arm, with its lowest losses marked."""
    macro = number_column([one.macro for one in arm.tries], 3, lowest=True)
    weighted = number_column([one.weighted for one in arm.tries], 3, lowest=True)
    return [
        [Cell(name), Cell(arm.key), Cell(str(one.value), best=one.chosen), *losses, Cell(_outcome(one))]
        for one, *losses in zip(arm.tries, macro, weighted, strict=True)
    ]


def _outcome(tried: Try) -> str:
    return f"failed: {tried.why}" if tried.why else "chosen" if tried.chosen else ""


def _failures(study: Study) -> Section:
    """The trials that failed, each with the reason."""
    rows = [[Cell(one.arm), Cell(str(one.seed)), Cell(one.run), Cell(one.why or DASH)] for one in study.failed()]
    note = "They are in no mean and in no comparison."
    return Section(
        "failures", "What failed", [Table("Failed trials", ("arm", "seed", "run", "why"), rows, note, (0, 2, 3))]
    )


def _data(study: Study) -> Section:
    """Sentence pairs, dev losses of the bitext models, similarities, and what each arm changes in the recipe."""
    blocks: list[Block] = [_statistics(study)]
    if study.results.similarity:
        blocks.append(_similarities(study))
    blocks.append(_arms(study))
    return Section("data", "What it was made of", blocks)


def _statistics(study: Study) -> Table:
    data, losses = study.results.data, study.results.benchmark.losses if study.results.benchmark else {}
    languages = [*data.low_resource, *data.high_resource]
    tasks = [*languages, *(lang for lang in losses if lang not in languages)]
    columns: dict[str, list[str]] = {"": [SIDES[study.side(lang)] for lang in tasks]}
    for split in ("train", "dev", "test"):
        columns[split] = [whole(data.sizes.get(lang, {}).get(split)) for lang in tasks]
    columns["L*"] = [decimal(losses.get(lang), 3) for lang in tasks]
    if study.paper:
        columns["train, paper"] = [whole(study.paper.pairs(lang)) for lang in tasks]
        columns["L*, paper"] = [decimal(study.paper.loss(lang), 3) for lang in tasks]
    rows = [[Cell(lang), *map(Cell, row)] for lang, *row in zip(tasks, *columns.values(), strict=True)]
    note = "Sentence pairs; L*: dev loss of the language's own bitext model, in bits per token."
    return Table("Dataset statistics and dev losses of the bitext models", ("language", *columns), rows, note, (0, 1))


def _similarities(study: Study) -> Table:
    similarity, paper = study.results.similarity or {}, study.paper
    hrls = list(dict.fromkeys(hrl for row in similarity.values() for hrl in row))
    found: dict[tuple[str, str], Cell] = {}
    for lrl, row in similarity.items():
        for hrl, cell in zip(hrls, number_column([row.get(hrl) for hrl in hrls]), strict=True):
            printed = paper.similarity(lrl, hrl) if paper else None
            found[hrl, lrl] = cell if printed is None else Cell(f"{cell.text} ({decimal(printed)})", cell.best)
    note = "Bold: the nearest HRL." + (" In brackets: the paper's." if paper else "")
    return cross_table("Similarities", ("HRL", hrls), ("LRL", list(similarity)), lambda hrl, lrl: found[hrl, lrl], note)


def _arms(study: Study) -> Table:
    settings = study.results.study.arms
    rows = [[Cell(arm), Cell(_changes(settings.get(arm)))] for arm in study.arms]
    return Table("What each arm changes in the recipe", ("arm", "settings"), rows, words=(0, 1))


def _changes(settings: dict[str, Any] | None) -> str:  # settings of any type
    return ", ".join(f"{key} = {_value(value)}" for key, value in (settings or {}).items()) or DASH


def _value(value: object) -> str:
    """A setting in a few words: the values of an object with their keys, but for the key `name`."""
    if isinstance(value, dict):
        return " ".join(str(inner) if key == "name" else f"{key}={_value(inner)}" for key, inner in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
