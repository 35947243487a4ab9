"""What a study and a sweep leave on disk, read and checked: results.json and sweep.json."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cclm.report.shape import ANYTHING, NUMBER, TEXT, WHOLE, YES_NO, Each, Optional, check

VERSION = 1

_MEANS = Each(NUMBER.or_null)
_GROUPS = dict.fromkeys(("all", "hrl", "lrl"), Optional(NUMBER))
_FAILED = {"arm": TEXT, "seed": WHOLE, "run": TEXT, "state": TEXT, "why": TEXT.or_null}
_FINISHED = _FAILED | {
    "why": Optional(TEXT),
    "steps": WHOLE,
    "tokens": WHOLE,
    "reason": Optional(TEXT),
    "admissions": Optional(Each(WHOLE)),
    "draws": Optional(Each(NUMBER)),
    "epochs": Optional(Each(NUMBER)),
    "weighted": Optional(NUMBER),
    "macro": Optional(NUMBER),
    "macro_at": Optional(Each(NUMBER.or_null)),
    "scores": {"languages": Each({"bleu": NUMBER, "chrf": NUMBER})},
}
TRIALS = {"finished": _FINISHED, "failed": _FAILED}
_TRY = {
    "value": ANYTHING,
    "run": TEXT,
    "chosen": YES_NO,
    "why": Optional(TEXT),
    "macro": Optional(NUMBER),
    "weighted": Optional(NUMBER),
}
STUDY = {
    "study": {
        "name": TEXT,
        "recipe": TEXT,
        "seeds": [WHOLE],
        "arms": Each(Optional(Each(ANYTHING))),
        "primary": [[TEXT]],
        "endpoint": TEXT,
    },
    "data": {
        "direction": TEXT,
        "pivot": TEXT,
        "high_resource": [TEXT],
        "low_resource": [TEXT],
        "sizes": Each(Each(WHOLE.or_null)),
    },
    "similarity": Optional(Each(Each(NUMBER))),
    "benchmark": Optional({"losses": Each(NUMBER), "steps": Optional(WHOLE), "tokens": Optional(WHOLE)}),
    "tuning": Optional(
        {"seed": WHOLE, "steps": WHOLE, "tokens": WHOLE, "arms": Each({"key": TEXT, "tries": [_TRY]})},
    ),
    "trials": [{"state": TEXT}],
    "arms": Each(
        {
            "seeds": WHOLE,
            "bleu": Optional(_MEANS),
            "chrf": Optional(_MEANS),
            "languages": Optional(Each({"bleu": NUMBER.or_null, "chrf": NUMBER.or_null})),
            "weighted": Optional(NUMBER),
            "macro": Optional(NUMBER),
            "steps": Optional(NUMBER),
            "more_scores": Optional(Each(_GROUPS | {"languages": Each(NUMBER)})),
        }
    ),
    "comparisons": [
        {
            "first": TEXT,
            "second": TEXT,
            "primary": YES_NO,
            "metric": TEXT,
            "over": TEXT,
            "differences": Each(NUMBER),
            "mean": NUMBER,
            "low": Optional(NUMBER),
            "high": Optional(NUMBER),
            "p": Optional(NUMBER),
            "holm": Optional(NUMBER),
            "sentence": TEXT,
            "resamples": Optional(WHOLE),
            "languages": Optional(Each({"difference": NUMBER, "p": NUMBER})),
        }
    ],
}
_POINT = {"threshold": NUMBER, "aggregate": TEXT}
SWEEP = {
    "recipe": TEXT,
    "thresholds": [NUMBER],
    "aggregates": [TEXT],
    "leaves": [
        _POINT
        | {
            "run": TEXT,
            "weighted": NUMBER,
            "macro": NUMBER,
            "steps": WHOLE,
            "best": Optional(WHOLE),
            "admissions": Each(WHOLE),
            "bleu": Optional(NUMBER),
            "chrf": Optional(NUMBER),
            "same_as": Optional(_POINT),
        }
    ],
    "chosen": _POINT,
    "steps": {"trained": WHOLE, "independent": WHOLE, "fewest": WHOLE},
    "rival": Optional({"name": TEXT, "weighted": Optional(NUMBER), "bleu": Optional(NUMBER)}),
}


def read_study(folder: Path) -> dict[str, Any]:
    """The results of the study in this folder."""
    return _read(folder / "results.json", "study", _check_study)


def read_sweep(folder: Path) -> dict[str, Any]:
    """The outcome of the sweep in this folder."""
    return _read(folder / "sweep.json", "sweep", lambda sweep: check(sweep, SWEEP))


def _check_study(results: dict[str, Any]) -> None:
    check(results, STUDY)
    for number, trial in enumerate(results["trials"]):
        state = trial["state"]
        if state not in TRIALS:
            raise ValueError(f"trials[{number}].state: expected 'finished' or 'failed', got {state!r}")
        check(trial, TRIALS[state], f"trials[{number}]")


def _read(path: Path, what: str, checked: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f"no {what} here: {path.parent} has no {path.name}; run `cclm {what}` first")
    again = f"run `cclm {what}` again: it makes the file anew from the runs"
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON: {error}; {again}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected an object, got {type(content).__name__}; {again}")
    if content.get("version") != VERSION:
        raise ValueError(f"{path}: version {content.get('version')!r}; this program reads {VERSION}: {again}")
    try:
        checked(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}; {again}") from None
    return content
