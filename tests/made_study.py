"""What a study and a sweep would have written, made up from a formula, with the statistics done by SciPy."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from cclm.formats.study import StudyResults

LRLS, HRLS = ["aze", "bel", "glg", "slk"], ["tur", "rus", "por", "ces"]
ARMS = {
    "proportional": {"curriculum.gate": {"name": "all"}, "curriculum.sampler": {"name": "temperature", "tau": 1}},
    "uniform": {"curriculum.gate": {"name": "all"}, "curriculum.sampler": {"name": "temperature", "tau": "inf"}},
    "tau-5": {"curriculum.gate": {"name": "all"}, "curriculum.sampler": {"name": "temperature", "tau": 5}},
    "multidds-s": {"curriculum.gate": {"name": "all"}, "curriculum.sampler": {"name": "multidds-s"}},
    "ccl-m-max": {"curriculum.gate": {"name": "competence", "aggregate": "max", "threshold": 0.9}},
    "ccl-m-avg": {"curriculum.gate": {"name": "competence", "aggregate": "avg", "threshold": 0.9}},
    "gate-uniform": {"curriculum.sampler": {"name": "temperature", "tau": "inf"}},
    "gate-tau-5": {"curriculum.sampler": {"name": "temperature", "tau": 5}},
    "gate-proportional": {"curriculum.sampler": {"name": "temperature", "tau": 1}},
}
PRIMARY = [["ccl-m-avg", "proportional"], ["ccl-m-avg", "tau-5"], ["ccl-m-avg", "multidds-s"]]


def made_study(
    *,
    name: str = "phrasebook-study",
    recipe: str = "phrasebook",
    arms: Sequence[str] = tuple(ARMS),
    seeds: Sequence[int] = (1, 2, 3, 4, 5),
    primary: Sequence[Sequence[str]] = PRIMARY,
    failed: Sequence[tuple[str, int]] = (),
    lrls: Sequence[str] = tuple(LRLS),
    hrls: Sequence[str] = tuple(HRLS),
    tuned: bool = False,
) -> dict[str, Any]:
    """results.json as an object; `failed` names the trials that did not finish."""
    chance, languages = np.random.default_rng(7), [*lrls, *hrls]
    trials: list[dict[str, Any]] = []
    for i, arm in enumerate([*arms, "bitext"]):
        for seed in seeds if arm != "bitext" else seeds[:1]:
            base = {"arm": arm, "seed": seed, "run": f"runs/{arm}.{seed}"}
            if (arm, seed) in failed:
                trials.append({**base, "state": "failed", "why": "loss is not finite at step 310"})
                continue
            gain = 1.4 * i / max(len(arms) - 1, 1) if arm != "bitext" else -4.0
            trials.append(
                {**base, "state": "finished", "why": None, **_trial(arm, gain, chance, languages, list(lrls))}
            )
    finished = [trial for trial in trials if trial["state"] == "finished"]
    tuning = {"tuning": made_tuning()} if tuned else {}
    return tuning | {
        "version": 1,
        "study": {
            "name": name,
            "recipe": recipe,
            "seeds": list(seeds),
            "arms": {arm: ARMS.get(arm, {}) for arm in arms},
            "primary": [list(pair) for pair in primary],
            "endpoint": "chrf",
        },
        "data": {
            "direction": "many-to-one",
            "pivot": "eng",
            "high_resource": list(hrls),
            "low_resource": list(lrls),
            "sizes": {
                lang: {"train": 4500 + 900 * n * n, "dev": 240 + n, "test": 300} for n, lang in enumerate(languages)
            },
        },
        "similarity": {
            lrl: {hrl: 0.6 if n == m else 0.1 + 0.02 * m for m, hrl in enumerate(hrls)} for n, lrl in enumerate(lrls)
        },
        "benchmark": {
            "losses": {lang: 7.5 - 0.4 * n for n, lang in enumerate(languages)},
            "steps": 6400,
            "tokens": 4_915_200,
        },
        "trials": trials,
        "arms": {arm: _summary(arm, finished, list(hrls)) for arm in [*arms, "bitext"]},
        "comparisons": _comparisons(finished, list(arms), [list(pair) for pair in primary], list(hrls)),
    }


def typed(results: dict[str, Any]) -> StudyResults:
    """The same as the class that the report reads."""
    return StudyResults.check(results, "results.json")


def made_tuning() -> dict[str, Any]:
    """What was tuned: two arms, three values each, one of which failed."""
    arms = {"ccl-m-avg": ("threshold", [0.7, 0.85, 1.0], [4.31, 4.2, 4.25]), "tau-5": ("tau", [1, 5, ".inf"], [4.4, 5])}
    made: dict[str, Any] = {}
    for arm, (key, values, losses) in arms.items():
        tries = [
            {"value": value, "run": f"runs/{arm}-{key}-{value}.0", "chosen": loss == 4.2, "why": None}
            | {"macro": loss, "weighted": 8 - loss, "best": 2900, "steps": 3000, "tokens": 2_000_000}
            for value, loss in zip(values, losses, strict=False)
        ]
        made[arm] = {"key": f"curriculum.{key}", "tries": tries}
    failed = dict.fromkeys(("macro", "weighted", "best", "steps", "tokens"))
    run = {"value": ".inf", "run": "runs/tau-5-tau-inf.0", "chosen": False, "why": "loss is not finite at step 310"}
    made["tau-5"]["tries"].append(run | failed)
    return {"seed": 0, "steps": 15_000, "tokens": 10_000_000, "arms": made}


def _trial(arm: str, gain: float, chance: np.random.Generator, languages: list[str], lrls: list[str]) -> dict[str, Any]:
    rows = {}
    for n, lang in enumerate(languages):
        bleu = float(18 + 2.1 * (n % 9) + gain + chance.normal(0, 0.3))
        rows[lang] = {"bleu": bleu, "bleu_low": bleu - 1, "bleu_high": bleu + 1, "chrf": 0.8 * bleu + 22}
    values, high = [row["bleu"] for row in rows.values()], [r["bleu"] for lang, r in rows.items() if lang not in lrls]
    low = [rows[lang]["bleu"] for lang in lrls]
    means = {"all": np.mean(values), "hrl": np.mean(high), "lrl": np.mean(low), "worst": min(values)}
    scores = {"languages": rows, "means": {key: float(value) for key, value in means.items()}}
    cost = {"steps": 3000, "tokens": 2_304_000, "scores": scores}
    if arm == "bitext":
        return cost
    late = {lrl: 300 + 100 * n for n, lrl in enumerate(lrls)} if arm.startswith(("ccl-m", "gate")) else {}
    macro = 4.4 - gain / 20
    return cost | {
        "best": 2800,
        "reason": "max_steps reached",
        "admissions": dict.fromkeys(languages, 0) | late,
        "draws": {lang: 700 + 11 * n for n, lang in enumerate(languages)},
        "epochs": {lang: 12.5 / (n + 1) for n, lang in enumerate(languages)},
        "weighted": macro - 0.3,
        "macro": macro,
        "dev_loss": dict.fromkeys(languages, macro),
        "macro_at": {"50": macro + 0.5, "75": macro + 0.1, "100": None if arm == "uniform" else macro + 0.01},
    }


def score(trial: dict[str, Any], metric: str, over: str, hrls: Sequence[str]) -> float:
    """A score of a trial over a group of languages."""
    rows = trial["scores"]["languages"]
    wanted = {"all": rows, "worst": rows, "hrl": hrls, "lrl": [lang for lang in rows if lang not in hrls]}[over]
    values = [rows[lang][metric] for lang in wanted]
    return float(min(values) if over == "worst" else np.mean(values))


def _summary(arm: str, finished: list[dict[str, Any]], hrls: list[str]) -> dict[str, Any]:
    own = [trial for trial in finished if trial["arm"] == arm]
    if not own:
        return {"seeds": 0}
    made: dict[str, Any] = {"seeds": len(own), "steps": 3000.0}
    for metric in ("bleu", "chrf"):
        groups = ("all", "hrl", "lrl", "worst")
        made[metric] = {over: float(np.mean([score(trial, metric, over, hrls) for trial in own])) for over in groups}
    languages = own[0]["scores"]["languages"]
    made["languages"] = {
        lang: {m: float(np.mean([t["scores"]["languages"][lang][m] for t in own])) for m in ("bleu", "chrf")}
        for lang in languages
    }
    if arm != "bitext":
        made |= {key: float(np.mean([trial[key] for trial in own])) for key in ("weighted", "macro")}
    return made


def _comparisons(
    finished: list[dict[str, Any]], arms: list[str], primary: list[list[str]], hrls: list[str]
) -> list[dict[str, Any]]:
    """Every primary pair, and every arm against the first."""
    pairs = primary + [[arm, arms[0]] for arm in arms[1:] if [arm, arms[0]] not in primary]
    made = []
    for first, second in pairs:
        for metric in ("chrf", "bleu"):
            for over in ("all", "hrl", "lrl"):
                by_seed = {
                    arm: {t["seed"]: score(t, metric, over, hrls) for t in finished if t["arm"] == arm}
                    for arm in (first, second)
                }
                shared = sorted(by_seed[first].keys() & by_seed[second].keys())
                if shared:
                    found = {str(seed): by_seed[first][seed] - by_seed[second][seed] for seed in shared}
                    declared = [first, second] in primary
                    made.append(_comparison(first, second, metric, over, found, declared))
    tested = [one for one in made if one["primary"] and one["metric"] == "chrf" and one["over"] == "all"]
    adjusted = 0.0
    for rank, one in enumerate(sorted(tested, key=lambda one: one["p"] or 0.0)):
        if one["p"] is not None:
            adjusted = one["holm"] = max(adjusted, min(1.0, one["p"] * (len(tested) - rank)))
    return made


def _comparison(
    first: str, second: str, metric: str, over: str, found: dict[str, float], primary: bool
) -> dict[str, Any]:
    values, low, high, p = list(found.values()), None, None, None
    if len(values) > 1:
        error, mean, free = stats.sem(values), np.mean(values), len(values) - 1
        half = stats.t.ppf(0.975, free) * error
        low, high, p = float(mean - half), float(mean + half), float(2 * stats.t.sf(abs(mean / error), free))
    sentence = f"{first} and {second} differ by {np.mean(values):+.2f} {metric} over {over}"
    base = {"first": first, "second": second, "primary": primary, "metric": metric, "over": over}
    numbers = {"differences": found, "mean": float(np.mean(values)), "low": low, "high": high, "p": p, "holm": None}
    return base | numbers | {"sentence": sentence}


def made_sweep(*, scored: bool = True, rival: bool = True, thresholds: Sequence[float] = ()) -> dict[str, Any]:
    """sweep.json as an object: the loss is least at 0.8 for avg."""
    grid = list(thresholds or (0.5, 0.6, 0.7, 0.8, 0.9, 1.0))
    leaves = []
    for aggregate in ("max", "avg"):
        for i, threshold in enumerate(grid):
            loss = 4.2 + 0.8 * (threshold - 0.8) ** 2 + (0.03 if aggregate == "max" else 0)
            admissions = dict.fromkeys(HRLS, 0) | {lrl: 200 * i + 100 * n for n, lrl in enumerate(LRLS)}
            leaf = {
                "threshold": threshold,
                "aggregate": aggregate,
                "run": f"runs/sweep-{aggregate}-{threshold}",
                "weighted": loss,
                "macro": loss + 0.6,
                "steps": 3000,
                "best": 2900,
                "admissions": admissions,
                "bleu": 30 - 4 * (loss - 4.2) if scored else None,
                "chrf": 50 - 4 * (loss - 4.2) if scored else None,
                "same_as": {"threshold": threshold, "aggregate": "max"} if aggregate == "avg" and i == 0 else None,
            }
            leaves.append(leaf)
    return {
        "version": 1,
        "recipe": "phrasebook",
        "thresholds": grid,
        "aggregates": ["max", "avg"],
        "leaves": leaves,
        "chosen": {"threshold": min(grid, key=lambda t: abs(t - 0.8)), "aggregate": "avg"},
        "steps": {"trained": 21_400, "independent": 36_000, "fewest": 20_900},
        "rival": {"name": "multidds-s", "weighted": 4.27, "bleu": 29.6} if rival else None,
    }
