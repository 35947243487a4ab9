"""The curriculum: measurements in, sampling weights out. Any gate with any sampler; nothing here knows a model."""

import math
from collections.abc import Mapping
from copy import deepcopy
from functools import cached_property
from typing import Any

from cclm.curriculum.competence import self_evaluated, self_evaluated_se
from cclm.curriculum.draws import Distribution
from cclm.curriculum.languages import (
    check_benchmark,
    check_complete,
    check_known,
    check_sizes,
    is_number,
    listed,
)
from cclm.curriculum.situation import Gate, Reasons, Sampler, Situation

VERSION = 1
SIGNALS = ("train_loss", "gradient_cosine", "summed_gradient_cosine", "uncertainty")
"""Signals of an observation beside dev_loss; a user's own gate or sampler may need others."""


class Curriculum:
    """Which languages take part, and how often each is drawn, from what is measured while training.

    `sizes` are training pairs, `benchmark` the reference losses L* in bits per token (needed by gates and
    samplers that use competence). `smoothing` is the share of the past in each dev loss (0: none, as in the paper).

        curriculum = Curriculum(CompetenceGate(graph), InverseCompetence(), sizes=sizes, benchmark=benchmark)
        curriculum.weights                                   # {"tur": 0.25, ...}: an absent language takes no part
        curriculum.observe(step=100, dev_loss={"tur": 4.844, ...})
    """

    def __init__(
        self,
        gate: Gate,
        sampler: Sampler,
        *,
        sizes: Mapping[str, int],
        benchmark: Mapping[str, float] | None = None,
        smoothing: float = 0.0,
    ) -> None:
        if not is_number(smoothing) or not 0 <= smoothing < 1:
            raise ValueError(f"smoothing must be at least 0 and below 1; got {smoothing!r}")
        self._gate, self._sampler, self._smoothing = gate, sampler, smoothing
        self._sizes = check_sizes(sizes)
        self._benchmark = check_benchmark(benchmark or {}, self._sizes)
        self._canonical = tuple(sorted(self._sizes))
        for part in (gate, sampler):
            if "benchmark" in _needs(part):
                check_complete(self._benchmark, self._sizes, f"benchmark losses (L*) for {type(part).__name__}")
        self._step = self._round = 0
        self._dev_loss: dict[str, float] = {}
        self._dev_loss_se: dict[str, float] = {}
        self._refused: dict[str, dict[str, int]] = {}
        self._admissions: dict[str, dict[str, object]] = {}
        self._readiness: dict[str, float] = {}
        self._memory: dict[str, dict[str, Any]] = {"gate": {}, "sampler": {}}
        self._decide({})
        if not self._admissions:
            raise ValueError(f"{type(gate).__name__} admits no language at the start: there is nothing to train on")

    @property
    def sizes(self) -> dict[str, int]:
        """Training pairs of each language, as declared."""
        return dict(self._sizes)

    @property
    def admitted(self) -> tuple[str, ...]:
        """The languages that take part, in the order of their admission."""
        return tuple(self._admissions)

    @property
    def candidates(self) -> tuple[str, ...]:
        """The languages that are not admitted yet."""
        return tuple(lang for lang in self._sizes if lang not in self._admissions)

    @property
    def weights(self) -> dict[str, float]:
        """The probability of each admitted language; they sum to 1."""
        return dict(self._weights)

    @cached_property
    def distribution(self) -> Distribution:
        """The weights in a form for drawing; a new object whenever they change."""
        return Distribution(self._weights)

    @property
    def competence(self) -> dict[str, float]:
        """Self-evaluated competence of every language measured so far."""
        return {
            lang: self_evaluated(loss, self._benchmark[lang])
            for lang, loss in self._dev_loss.items()
            if lang in self._benchmark
        }

    @property
    def competence_se(self) -> dict[str, float]:
        """The standard error of each competence whose dev loss was observed with one."""
        return {
            lang: self_evaluated_se(value, self._dev_loss_se[lang])
            for lang, value in self.competence.items()
            if lang in self._dev_loss_se
        }

    @property
    def needs(self) -> frozenset[str]:
        """The signals, beside dev_loss, that the next observation must have."""
        due = [part for part in (self._gate, self._sampler) if (self._round + 1) % _every(part) == 0]
        return frozenset().union(*map(_needs, due)) - {"benchmark"}

    @property
    def signals(self) -> frozenset[str]:
        """All signals, beside dev_loss, that gate or sampler need in any round."""
        return (_needs(self._gate) | _needs(self._sampler)) - {"benchmark"}

    def observe(
        self,
        *,
        step: int,
        dev_loss: Mapping[str, float],
        dev_loss_se: Mapping[str, float] | None = None,
        **signals: Any,
    ) -> tuple[str, ...]:
        """Takes one round of measurements; returns the languages that it admits.

        `dev_loss` has bits per target token for every language, admitted or not. A value that is NaN, infinite or
        negative is ignored: the last good one is used, and `explain` counts it under "refused". `dev_loss_se` has the
        standard errors of dev losses, where they are known.
        """
        if isinstance(step, bool) or not isinstance(step, int) or step < self._step:
            raise ValueError(f"observe: step {step!r} after step {self._step}; steps are whole numbers that rise")
        check_complete(dev_loss, self._sizes, "dev_loss")
        self._check_signals(signals)
        good = self._good("dev_loss", dev_loss, least=0.0)
        errors = self._good("dev_loss_se", dev_loss_se or {}, least=0.0)
        signals = {name: self._good(name, values) for name, values in signals.items()}
        self._step, self._round = step, self._round + 1
        for lang, loss in good.items():
            past = self._dev_loss.get(lang, loss)
            self._dev_loss[lang] = self._smoothing * past + (1 - self._smoothing) * loss
            self._set_error(lang, errors.get(lang))
        return self._decide({"dev_loss": good, **signals})

    def _set_error(self, lang: str, error: float | None) -> None:
        """Keeps the standard error of a dev loss that was just observed, smoothed as the loss itself."""
        past = self._dev_loss_se.pop(lang, None)
        if error is not None and past is not None:
            error = math.hypot(self._smoothing * past, (1 - self._smoothing) * error)
        if error is not None:
            self._dev_loss_se[lang] = error

    def admit_remaining(self) -> tuple[str, ...]:
        """Admits all remaining languages (the paper's second phase) and returns them; the weights follow at once."""
        remaining = self.candidates
        self._admit({lang: {"reason": "admitted with all that remained"} for lang in remaining})
        self._weigh({})
        return remaining

    def explain(self) -> dict[str, Any]:
        """All that led to the present weights, as plain JSON: for log.jsonl and for people."""
        # A plain dict and no class: programs outside cclm read it, and the curriculum needs NumPy alone.
        errors = {
            "dev_loss_se": self._in_order(self._dev_loss_se),
            "competence_se": self._in_order(self.competence_se),
        }
        return {
            "step": self._step,
            "round": self._round,
            "dev_loss": self._in_order(self._dev_loss),
            "competence": self._in_order(self.competence),
            **{name: values for name, values in errors.items() if values},
            "hrls_competence": dict(self._readiness),
            "weights": self.weights,
            "admitted": list(self.admitted),
            "waiting": list(self.candidates),
            "admissions": {lang: dict(facts) for lang, facts in self._admissions.items()},
            "refused": {name: dict(counts) for name, counts in self._refused.items()},
        }

    def state_dict(self) -> dict[str, Any]:
        """Everything that has changed since the start, as plain JSON, and what identifies this curriculum."""
        return {
            "version": VERSION,
            "curriculum": self._identity(),
            "step": self._step,
            "round": self._round,
            "dev_loss": dict(self._dev_loss),
            **({"dev_loss_se": dict(self._dev_loss_se)} if self._dev_loss_se else {}),
            "refused": {name: dict(counts) for name, counts in self._refused.items()},
            "admissions": {lang: dict(facts) for lang, facts in self._admissions.items()},
            "weights": self.weights,
            "readiness": dict(self._readiness),
            "memory": deepcopy(self._memory),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state; that of another curriculum is refused."""
        if state.get("version") != VERSION:
            raise ValueError(f"curriculum state: version {state.get('version')!r}; this program reads {VERSION}")
        saved, mine = state["curriculum"], self._identity()
        for name in mine:
            if saved.get(name) != mine[name]:
                raise ValueError(f"state of another curriculum: {_difference(name, saved.get(name), mine[name])}")
        self._step, self._round = state["step"], state["round"]
        self._dev_loss = dict(state["dev_loss"])
        self._dev_loss_se = dict(state.get("dev_loss_se", {}))
        self._refused = {name: dict(counts) for name, counts in state["refused"].items()}
        self._admissions = {lang: dict(facts) for lang, facts in state["admissions"].items()}
        self._readiness = dict(state["readiness"])
        self._memory = deepcopy(state["memory"])
        self._set_weights(state["weights"])

    def _decide(self, signals: Mapping[str, Any]) -> tuple[str, ...]:
        """One round of Algorithm 1: the gate first, then the weights of all admitted languages, new ones included."""
        now = self._situation("gate", signals)
        due = self._round % _every(self._gate) == 0
        admitted = self._admit(self._gate.admit(now) if due else {})
        readiness = getattr(self._gate, "readiness", None)
        self._readiness = dict(readiness(now)) if readiness else {}
        if self._round % _every(self._sampler) == 0:
            self._weigh(signals)
        elif admitted:  # between its own rounds a sampler only adds new languages
            self._weigh({})
        return admitted

    def _admit(self, reasons: Reasons) -> tuple[str, ...]:
        check_known(reasons, self._sizes, type(self._gate).__name__)
        new = {lang: reason for lang, reason in reasons.items() if lang not in self._admissions}
        for lang, reason in new.items():
            self._admissions[lang] = {"step": self._step, **reason}
        return tuple(new)

    def _weigh(self, signals: Mapping[str, Any]) -> None:
        if not self._admissions:
            return
        weights = self._sampler.weights(self._situation("sampler", signals))
        name = type(self._sampler).__name__
        check_known(weights, self._admissions, f"weights of {name}")
        check_complete(weights, self._admissions, f"weights of {name}")
        if not all(is_number(w) and math.isfinite(w) and w >= 0 for w in weights.values()) or not any(weights.values()):
            raise ValueError(f"weights of {name}: finite, non-negative and not all zero is needed; got {dict(weights)}")
        total = math.fsum(weights.values())
        self._set_weights({lang: weights[lang] / total for lang in self._admissions})

    def _set_weights(self, weights: Mapping[str, float]) -> None:
        self._weights = dict(weights)
        self.__dict__.pop("distribution", None)

    def _situation(self, part: str, signals: Mapping[str, Any]) -> Situation:
        return Situation(
            step=self._step,
            round=self._round,
            languages=self._canonical,
            admitted=self.admitted,
            waiting=self.candidates,
            sizes=self._sizes,
            benchmark=self._benchmark,
            dev_loss=self._dev_loss,
            competence=self.competence,
            signals=signals,
            memory=self._memory[part],
            competence_se=self.competence_se,
        )

    def _check_signals(self, signals: Mapping[str, Any]) -> None:
        missing = self.needs - set(signals)
        if missing:
            raise ValueError(f"observe: this round needs {', '.join(sorted(missing))} too (see Curriculum.needs)")
        known = {*SIGNALS, *_needs(self._gate), *_needs(self._sampler)}
        unknown = sorted(set(signals) - known)
        if unknown:
            raise ValueError(f"observe: unknown signal {unknown[0]!r}; known are dev_loss, {', '.join(SIGNALS)}")

    def _good(self, name: str, values: Mapping[str, Any], least: float = -math.inf) -> dict[str, Any]:
        """The finite values; others are left out and counted. Of a matrix, each row by itself."""
        check_known(values, self._sizes, name)
        good: dict[str, Any] = {}
        for lang, value in values.items():
            if isinstance(value, Mapping):
                good[lang] = {k: float(v) for k, v in value.items() if is_number(v) and math.isfinite(v)}
                refused = len(value) - len(good[lang])
            elif is_number(value) and math.isfinite(value) and value >= least:
                good[lang] = float(value)
                refused = 0
            else:
                refused = 1
            if refused:
                counts = self._refused.setdefault(name, {})
                counts[lang] = counts.get(lang, 0) + refused
        return good

    def _in_order(self, values: Mapping[str, float]) -> dict[str, float]:
        return {lang: values[lang] for lang in self._sizes if lang in values}

    def _identity(self) -> dict[str, object]:
        return {
            "gate": _named(self._gate),
            "sampler": _named(self._sampler),
            "smoothing": self._smoothing,
            "sizes": dict(self._sizes),
            "benchmark": dict(self._benchmark),
        }


def _needs(part: object) -> frozenset[str]:
    return frozenset(getattr(part, "needs", ()))


def _every(part: object) -> int:
    return int(getattr(part, "every", 1))


def _named(part: object) -> str:
    """What identifies a gate or sampler: its repr, unless that is Python's default with a memory address."""
    return type(part).__qualname__ if type(part).__repr__ is object.__repr__ else repr(part)


def _difference(name: str, saved: Any, mine: Any) -> str:
    if not isinstance(saved, dict) or not isinstance(mine, dict):
        return f"{name} was {saved}, here it is {mine}"
    differing = [lang for lang in {*saved, *mine} if saved.get(lang) != mine.get(lang)]
    return f"{name} differs for {listed(differing)}"
