"""How the arms of a study learned and what that cost: draws, admissions, dev losses, steps and tokens."""

from collections.abc import Mapping
from statistics import fmean

from cclm.report.document import Block, Cell, Section, Table, Words, crossed
from cclm.report.study import Study
from cclm.report.written import NOTHING, column, count, decimal, large, percent, whole

SHARES = {share: f"at {share}\u00a0%" for share in ("50", "75", "100")}


def course(study: Study) -> Section:
    """What each arm drew, whom it admitted when, and where it stood on the way."""
    blocks: list[Block] = [_by_language(study, "Micro-batches drawn", "draws", 0)]
    blocks.append(_by_language(study, "Passes over the training data", "epochs", 1))
    blocks += _admissions(study)
    blocks.append(_dev_losses(study))
    return Section("course", "How they learned", blocks)


def _by_language(study: Study, caption: str, key: str, digits: int) -> Table:
    arms = [arm for arm in study.arms if any(trial.get(key) for trial in study.finished(arm))]

    def cell(arm: str, lang: str) -> Cell:
        values = [trial[key][lang] for trial in study.finished(arm) if lang in (trial.get(key) or {})]
        return Cell(decimal(fmean(values), digits) if values else NOTHING)

    return crossed(f"{caption}{study.over_seeds}", ("arm", arms), ("language", study.languages), cell)


def _admissions(study: Study) -> list[Block]:
    """A row for each trial in which somebody had to wait; the other arms in a sentence."""
    trials = [trial for trial in study.finished() if trial.get("admissions") is not None]
    waited = [trial for trial in trials if any(trial["admissions"].values())]
    late = {lang for trial in waited for lang, step in trial["admissions"].items() if step}
    late |= {
        lang for trial in waited for lang in study.results["data"]["low_resource"] if lang not in trial["admissions"]
    }
    names = [lang for lang in study.languages if lang in late]
    by_name = {f"{trial['arm']}, seed {trial['seed']}": trial["admissions"] for trial in waited}

    def cell(trial: str, lang: str) -> Cell:
        step = by_name[trial].get(lang)
        return Cell("never" if step is None else whole(step))

    waiting = {trial["arm"] for trial in waited}
    at_once = [arm for arm in study.arms if arm not in waiting and any(trial["arm"] == arm for trial in trials)]
    blocks: list[Block] = []
    if waited:
        note = "The step at which each language joined; all others took part from the start."
        blocks.append(crossed("Admissions", ("trial", list(by_name)), ("language", names), cell, note))
    if at_once:
        blocks.append(Words(f"All languages took part from the start in {', '.join(at_once)}."))
    return blocks


def _dev_losses(study: Study) -> Table:
    arms = [arm for arm in study.arms if study.averaged(arm, "macro") is not None]
    shares = {share: [_at(study, arm, share) for arm in arms] for share in SHARES}
    columns = [column(values, 3, lowest=True) for values in shares.values()]
    columns += [column([study.averaged(arm, key) for arm in arms], 3, lowest=True) for key in ("macro", "weighted")]
    stopped = [_stopped(study, arm) for arm in arms]
    rows = [[Cell(arm), *row] for arm, *row in zip(arms, *columns, stopped, strict=True)]
    head = ("arm", *SHARES.values(), "selected", "selected, weighted", "why it stopped")
    note = (
        "Bits a token, mean over languages and seeds, at the last validation within each share of the greatest number"
        " of steps; at the selected checkpoint also weighted by dev sentences. A dash where some seed had stopped"
        " before: without it the mean would be of other seeds."
    )
    return Table("Dev loss on the way", head, rows, note, words=(0, len(head) - 1))


def _at(study: Study, arm: str, share: str) -> float | None:
    """The mean over seeds, if every seed came so far."""
    values = [(trial.get("macro_at") or {}).get(share) for trial in study.finished(arm)]
    there = [value for value in values if value is not None]
    return fmean(there) if there and len(there) == len(values) else None


def _stopped(study: Study, arm: str) -> Cell:
    reasons = [str(trial["reason"]) for trial in study.finished(arm) if trial.get("reason")]
    counts = {reason: reasons.count(reason) for reason in dict.fromkeys(reasons)}
    many = len(counts) > 1
    return Cell("; ".join(f"{reason} ({n})" if many else reason for reason, n in counts.items()) or NOTHING)


def cost(study: Study, seconds: Mapping[str, float]) -> Section:
    """Steps and tokens of a trial of each arm, what L* adds, and seconds where somebody took the time."""
    benchmark = study.results.get("benchmark") or {}
    extra = benchmark.get("tokens")
    rows = []
    for arm in study.arms:
        tokens, steps = study.averaged(arm, "tokens"), study.averaged(arm, "steps")
        share = percent(extra / tokens) if extra and tokens and arm != "bitext" else NOTHING
        row = [Cell(arm), Cell(whole(steps)), Cell(large(tokens)), Cell(share)]
        taken = [seconds[trial["run"]] for trial in study.finished(arm) if trial["run"] in seconds]
        rows.append([*row, Cell(whole(fmean(taken)) if taken else NOTHING)] if seconds else row)
    head = ("arm", "steps", "target tokens", "L* beside it", *(("seconds",) if seconds else ()))
    blocks: list[Block] = [Table(f"Cost of one trial{study.over_seeds}", head, rows)]
    if extra:
        steps = benchmark.get("steps")
        trained = f"{count(steps, 'step')} and " if steps else ""
        blocks.append(
            Words(
                f"Whatever goes by competence needs L* first. The bitext models behind it took {trained}{large(extra)}"
                " target tokens, once for all arms; “L* beside it” is that as a share of one trial."
            )
        )
    return Section("cost", "What it cost", blocks)
