"""How well the bounded probe knows the dev losses: against whole dev sets and fresh samples, on the phrasebook.

    python benchmarks/probe_error.py                         # L*, then two trainings: about 15 minutes on two cores
    python benchmarks/probe_error.py --work work/phrasebook  # L* and runs of an earlier demo are used again

One training records the loss of every dev sentence in every round; its curriculum goes by the whole dev sets. On this
record, which is the same for all, probes are replayed with other seeds: errors are those of the estimate against the
whole dev set in the same round, in bits per token and in competence. "Within 2 se" is the share of estimates that are
off by less than twice the standard error that they claim; "admitted within a round" the share of LRLs that a gate
which goes by the estimates would admit at most one round before or after one that goes by the whole dev sets. The dev
sets of the phrasebook are so small that 256 sentences are most of them: a second table has each sentence five times,
and rounds that measure as many sentences as those of the paper's recipes. A second training, with the bounded probe of
the recipe, shows when languages are admitted.
"""

import argparse
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cclm.curriculum.bounded_probe import BoundedProbe, Memory
from cclm.experiments.pipeline import Pipeline
from cclm.formats.log import Log
from cclm.model.interface import TranslationModel
from cclm.recipe import load_recipe
from cclm.recipe.methods import CompetenceSection, ProbeSection
from cclm.rng import key, shuffled_many
from cclm.training.dev_probe import FORWARD, DevProbe, Found

Numbers = NDArray[np.float64]
SHARE = ProbeSection().share
REPLAYS = 20
PAPER_SENTENCES = FORWARD * SHARE * 100 * 2 * 4800 / 25
"""In a round of the paper's recipes: 100 steps of two batches, sentences of 25 tokens."""


@dataclass(frozen=True)
class Round:
    """What was recorded in a round: the losses of all dev sentences, and what the choice of a probe depends on."""

    step: int
    trained: int
    weights: dict[str, float]
    losses: dict[str, Numbers]


@dataclass(frozen=True)
class Record:
    """A training as its probes saw it."""

    rounds: list[Round]
    tokens: dict[str, Numbers]
    benchmark: dict[str, float]
    vouching: dict[str, dict[str, float]]
    validate_every: int
    threshold: float


def copies(record: Record, times: int = 5) -> Record:
    """The record with larger dev sets: every sentence several times."""
    rounds = [
        replace(each, losses={lang: np.tile(losses, times) for lang, losses in each.losses.items()})
        for each in record.rounds
    ]
    return replace(record, rounds=rounds, tokens={lang: np.tile(k, times) for lang, k in record.tokens.items()})


def of_share(share: float) -> Callable[[Round], float]:
    """The budget of a round."""
    return lambda each: FORWARD * share * each.trained


def main() -> None:
    """Trains, replays, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("work/probe-error"), help="folder for data and runs")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--no-training", action="store_true", help="leave out the training with the bounded probe")
    options = parser.parse_args()
    record, whole = recorded(options.work, options.steps)
    share = {f"bounded, {share:.0%}": of_share(share) for share in (0.01, SHARE, 0.06, 0.1)}
    print(table(record, share, (8, 16, 32, 64, 256)))
    copied = copies(record)
    mean = float(np.mean([counts.mean() for counts in copied.tokens.values()]))
    print("\neach sentence five times; rounds as in the paper's recipes\n")
    print(table(copied, {f"bounded, {SHARE:.0%}": lambda each: PAPER_SENTENCES * mean}, (64, 256)))
    if not options.no_training:
        print(admissions(options.work, options.steps, whole))


def recorded(work: Path, steps: int) -> tuple[Record, Path]:
    """The record of a training on whole dev sets, made where it is not there yet, and its run directory."""
    pipeline = _pipeline(work, "whole", steps)
    path = pipeline.folder.with_name("whole.npz")
    if not path.exists():
        rounds: list[Round] = []
        measure = DevProbe.measure
        DevProbe.measure = _recording(rounds)  # type: ignore[method-assign]
        try:
            pipeline.walk(("prepare", "graph", "benchmark", "train"))
        finally:
            DevProbe.measure = measure  # type: ignore[method-assign]
        _write(path, rounds)
    pipeline.walk(("prepare", "graph", "benchmark"))
    assert pipeline.graph
    assert pipeline.losses
    tokens = {
        lang: pipeline.data.corpus(lang, "dev").lengths[:, 1].astype(np.float64) + 1
        for lang in pipeline.recipe.data.languages
    }  # </s>
    recipe = pipeline.recipe
    assert isinstance(recipe.curriculum.gate, CompetenceSection)
    record = Record(
        _read(path),
        tokens,
        dict(pipeline.losses),
        pipeline.graph.shares_by_lrl(),
        recipe.training.validate_every,
        recipe.curriculum.gate.threshold,
    )
    return record, pipeline.folder


def _pipeline(work: Path, name: str, steps: int) -> Pipeline:
    changes = [f"work={work}", f"name={name}", f"training.max_steps={steps}", "training.patience=1000"]
    return Pipeline(load_recipe("phrasebook", changes))


def _recording(rounds: list[Round]) -> Callable[..., Found]:
    """In place of `DevProbe.measure`: measures everything."""

    def measure(
        self: DevProbe, model: TranslationModel, step: int, trained: int, weights: Mapping[str, float]
    ) -> Found:
        found = self.measure_all(model)
        rounds.append(Round(step, trained, dict(weights), dict(found.memory.losses)))
        return Found({lang: loss.smoothed for lang, loss in found.dev_losses.items()}, memory=found.memory)

    return measure


def _write(path: Path, rounds: list[Round]) -> None:
    arrays: dict[str, Numbers] = {}
    for each in rounds:
        arrays |= {f"{each.step}/losses/{lang}": losses for lang, losses in each.losses.items()}
        arrays |= {f"{each.step}/weight/{lang}": np.array(weight) for lang, weight in each.weights.items()}
        arrays[f"{each.step}/trained"] = np.array(each.trained)
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]


def _read(path: Path) -> list[Round]:
    rounds: dict[int, Round] = {}
    with np.load(path) as arrays:
        for name in arrays:
            step, what, *lang = name.split("/")
            each = rounds.setdefault(int(step), Round(int(step), int(arrays[f"{step}/trained"]), {}, {}))
            if what == "losses":
                each.losses[lang[0]] = arrays[name]
            elif what == "weight":
                each.weights[lang[0]] = float(arrays[name])
    return [rounds[step] for step in sorted(rounds)]


@dataclass(frozen=True)
class Estimated:
    """An estimate of a round beside the truth."""

    lang: str
    step: int
    weights: Mapping[str, float]
    loss: float
    truth: float
    error: float | None
    """The standard error that it claims."""
    spent: float
    """Target tokens of the round."""


def bounded(record: Record, budget: Callable[[Round], float], seed: int) -> Iterator[Estimated]:
    """The bounded probe on the record."""
    probe = BoundedProbe({lang: counts for lang, counts in record.tokens.items()}, seed=seed, vouching=record.vouching)
    memory: Memory = probe.start()
    for each in record.rounds:
        choice = probe.choose(memory, step=each.step, budget=budget(each), weights=each.weights)
        measured = {lang: each.losses[lang][chosen] for lang, chosen in choice.sentences.items()}
        memory, found = probe.update(memory, choice, measured)
        spent = sum(float(record.tokens[lang][chosen].sum()) for lang, chosen in choice.sentences.items())
        for lang, truth in truths(record, each).items():
            yield Estimated(lang, each.step, each.weights, found.dev_loss[lang], truth, found.dev_loss_se[lang], spent)
        if each.step % record.validate_every == 0:
            memory = probe.refresh(memory, each.losses)


def fresh(record: Record, sample: int, seed: int) -> Iterator[Estimated]:
    """The paper's probe on the record: as many sentences of every language, others in every round."""
    for each in record.rounds:
        spent, found = 0.0, {}
        for lang, counts in record.tokens.items():
            size = min(sample, len(counts))
            chosen = shuffled_many(np.arange(size), len(counts), key(seed, "probe", each.step, lang))
            found[lang] = float(each.losses[lang][chosen].sum() / counts[chosen].sum())
            spent += float(counts[chosen].sum())
        for lang, truth in truths(record, each).items():
            yield Estimated(lang, each.step, each.weights, found[lang], truth, None, spent)


def truths(record: Record, each: Round) -> dict[str, float]:
    """The losses on the whole dev sets."""
    return {lang: float(each.losses[lang].sum() / counts.sum()) for lang, counts in record.tokens.items()}


def table(record: Record, budgets: Mapping[str, Callable[[Round], float]], samples: Iterable[int]) -> str:
    """Markdown: one row per probe."""
    probes: dict[str, Callable[[int], Iterator[Estimated]]] = {
        f"fresh, {sample} sentences": partial(fresh, record, sample) for sample in samples
    }
    probes |= {name: partial(bounded, record, budget) for name, budget in budgets.items()}
    rows = [
        "| probe | tokens per round | share of the computation | rms error, bits | of admitted | of waiting"
        " | rms error of competence | within 2 se | admitted within a round |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, run in probes.items():
        rows.append(f"| {name} | {_row(record, [list(run(seed)) for seed in range(REPLAYS)])} |")
    sizes = sorted({len(counts) for counts in record.tokens.values()})
    return f"{len(record.rounds)} rounds, dev sets of {sizes} sentences\n\n" + "\n".join(rows)


def _row(record: Record, replays: list[list[Estimated]]) -> str:
    def rms(values: list[float]) -> str:
        return f"{math.sqrt(sum(value**2 for value in values) / len(values)):.3f}" if values else "-"

    found = [each for replay in replays for each in replay]
    trained = float(np.mean([each.trained for each in record.rounds]))
    errors = [each.loss - each.truth for each in found]
    admitted = [each.loss - each.truth for each in found if each.lang in each.weights]
    waiting = [each.loss - each.truth for each in found if each.lang not in each.weights]
    competence = [2 ** (record.benchmark[e.lang] - e.loss) - 2 ** (record.benchmark[e.lang] - e.truth) for e in found]
    claims = [abs(each.loss - each.truth) <= 2 * each.error + 1e-9 for each in found if each.error is not None]
    within = f"{sum(claims) / len(claims):.0%}" if claims else ""
    spent = sum(each.spent for each in found) / len(found)
    near = [abs(difference) <= 1 for replay in replays for difference in _rounds_apart(record, replay)]
    values = [f"{spent:,.0f}", f"{spent / FORWARD / trained:.1%}", *map(rms, (errors, admitted, waiting, competence))]
    return " | ".join([*values, within, f"{sum(near) / len(near):.0%}"])


def _rounds_apart(record: Record, replay: list[Estimated]) -> list[int]:
    """For each LRL, how many rounds later a gate would admit it by the estimates than by the whole dev sets."""
    competence = {
        what: {(e.step, e.lang): 2 ** (record.benchmark[e.lang] - getattr(e, what)) for e in replay}
        for what in ("loss", "truth")
    }

    def first(what: str, shares: Mapping[str, float]) -> int:
        for number, each in enumerate(record.rounds):
            ready = sum(share * competence[what][each.step, hrl] for hrl, share in shares.items())
            if ready >= record.threshold:
                return number
        return len(record.rounds)

    return [first("loss", shares) - first("truth", shares) for shares in record.vouching.values()]


def admissions(work: Path, steps: int, whole: Path) -> str:
    """When each language is admitted: by whole dev sets, and by the bounded probe."""
    pipeline = _pipeline(work, "bounded", steps)
    pipeline.walk(("prepare", "graph", "benchmark", "train"))
    found = {name: Log.read(folder / "log.jsonl").admissions for name, folder in (("w", whole), ("b", pipeline.folder))}
    rows = ["", "| language | admitted by whole dev sets | by the bounded probe |", "|---|---|---|"]
    rows += [f"| {lang} | {step} | {found['b'].get(lang, 'never')} |" for lang, step in found["w"].items()]
    return "\n".join([*rows, "", f"rounds have {pipeline.recipe.curriculum.every} steps"])


if __name__ == "__main__":
    main()
