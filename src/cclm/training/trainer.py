"""The training loop: draw a language, take a step, measure, decide, save."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cclm.curriculum import Curriculum, draw_language
from cclm.curriculum.languages import listed
from cclm.data.batches import Batch, Batches
from cclm.data.splitting import Splitter
from cclm.errors import TrainingError
from cclm.formats.checkpoint import ALL_STEPS, Branch, EarlyDecay, Progress, SinceShown
from cclm.formats.log import Decay, Phase, Probe, Saved, Stopped, Train
from cclm.formats.run import NOT_FINITE, DrawnBatch, NotFinite
from cclm.model.interface import TranslationModel
from cclm.model.random import seed_dropout
from cclm.model.schedule import Schedule
from cclm.recipe.schema import Recipe, TrainingSection
from cclm.rng import key
from cclm.signals import fault
from cclm.training import checkpoint as checkpoints
from cclm.training.adam import Adam
from cclm.training.average import Average
from cclm.training.console import TrainingConsole
from cclm.training.dev_probe import DevProbe, Found
from cclm.training.device import GROWTH, Device
from cclm.training.forking import Forks, Measured, admitted_event
from cclm.training.log import LogWriter
from cclm.training.ranks import Ranks
from cclm.training.rewards import Rewards
from cclm.training.validation import DevLoss, Evaluator, better, metric_over, validation_event

SHOW_EVERY = 50
"""Steps between two train events."""
PATIENCE_WITH_NAN = 10
"""Consecutive steps with a loss or gradient that is not finite before the training ends with an error."""

LINES = 3
"""The most languages with a warning line each; one more line names the rest. For admissions, four times as many."""
FAR_ABOVE = 10.0
"""A competence above this is suspicious: L* is more than 3.3 bits per token worse than the model that is trained."""


@dataclass
class Parts:
    """The objects that a trainer uses."""

    recipe: Recipe
    model: TranslationModel
    optimizer: Adam
    average: Average | None
    curriculum: Curriculum
    train: dict[str, Batches]
    evaluator: Evaluator
    probe: DevProbe | None
    """The bounded probe; None with `curriculum.dev_sample`."""
    rewards: Rewards | None
    splitter: Splitter | None
    dev_sizes: dict[str, int]
    device: Device
    ranks: Ranks


@dataclass(frozen=True)
class Outputs:
    """Where a trainer writes: the run directory, its log, what people see, and the runs that share this training."""

    folder: Path
    log: LogWriter
    console: TrainingConsole
    forks: Forks
    forced: Sequence[str] = ()
    """Settings that were changed with `--force`, for the manifests of checkpoints."""


@dataclass
class _Step:
    """A step whose losses have not been read from the device yet."""

    step: int
    drawn: list[tuple[int, str, int]]
    """Its micro-batches, as `Trainer._draw` returns them."""
    table: Tensor
    """One row per micro-batch: smoothed loss, plain loss, target tokens."""
    is_finite: Tensor = field(default_factory=lambda: torch.tensor(True))
    """Whether losses and gradient are finite; otherwise the step is not taken."""


class Trainer:
    """Trains until no progress is made, all steps are done, or a signal arrives; it can resume from any checkpoint."""

    def __init__(self, parts: Parts, progress: Progress, outputs: Outputs) -> None:
        self.parts, self.progress, self.outputs = parts, progress, outputs
        self._settings, self._every = parts.recipe.training, parts.recipe.curriculum.every
        self._schedule = schedule_of(self._settings)
        self._warned: set[str] = set()
        self._since_good: list[DrawnBatch] = []  # micro-batches since the last step that was taken
        self._unread: list[_Step] = []
        # torch looks for parameters in every module, which takes a small model 3 % of a step.
        self._parameters = list(parts.model.parameters())
        self._sums = parts.ranks.overlapped(self._parameters)
        parts.model.train()  # parts of a pretrained model may not be in that mode yet

    def run(self, poll: Callable[[], None]) -> str:
        """Trains to the end and returns the reason; `poll` raises once a signal has arrived.

        What is due after a step is part of the progress: a training stopped in the middle of a probe resumes with it.
        """
        progress = self.progress
        while progress.finished is None or progress.due:
            if not progress.due:
                progress.step += 1
                self._train_step(progress.step)
                progress.due = self._due(progress.step)
                if progress.due:
                    self._read_losses()
            elif progress.due[0] == "show":
                self._show(progress.step)
                progress.due.pop(0)
            elif progress.due[0] == "probe":  # a round of the curriculum
                self._probe(progress.step)
                progress.due.pop(0)
            elif progress.due[0] == "validate":
                self._validate(progress.step)
                progress.due.pop(0)
            elif progress.due[0] == "decay":  # after the save: a longer training goes on from that checkpoint
                self._log_decay(progress.step, self._settings.max_steps, f"the last {self._settings.decay_steps} steps")
                progress.due.pop(0)
            else:
                # Taken off the list first: the checkpoint must not say that it is still to be saved.
                what = progress.due.pop(0)
                self.save(logged=what == "save")
            poll()
        return progress.finished

    def _due(self, step: int) -> list[str]:
        """What is to be done after a step, in this order."""
        settings = self._settings
        decays = ["decay"] if step == self._schedule.decay_start and not self.progress.early_decay else []
        due = ["show"] if step % SHOW_EVERY == 0 else []
        due += ["probe"] if step % self._every == 0 else []
        if step % settings.validate_every == 0 or step >= self._last_step:
            return [*due, "validate", "save", *decays]
        # Not logged: training.save_every may be changed when a run is resumed, and the log stays the same.
        is_extra = settings.save_every is not None and step % settings.save_every == 0
        return [*due, "extra save", *decays] if is_extra or decays else due

    @property
    def _last_step(self) -> int:
        """The last step: `max_steps`, or the end of the decay of a training that is stopped early."""
        return self.progress.early_decay.until if self.progress.early_decay else self._settings.max_steps

    def _rate(self, step: int) -> float:
        early = self.progress.early_decay
        return self._schedule.rate(step, stopped=(early.start, early.until) if early else None)

    def _train_step(self, step: int) -> None:
        """One update from `accumulate` micro-batches per rank, each of one language and drawn independently."""
        if not self.parts.model.training:  # after a validation
            self.parts.model.train()
        ranks = self.parts.ranks
        drawn = [self._draw() for _ in range(self._settings.accumulate * ranks.world)]
        mine = {number: self._batch(number, name, counter) for number, name, counter in drawn if ranks.takes(number)}
        own = {number: batch.target_tokens for number, batch in mine.items()}
        tokens = ranks.tokens(sum(own.values()), expected=self._settings.batch_tokens * len(drawn))
        table = torch.zeros(len(drawn), 3, device=self.parts.device.torch)
        for place, (number, _, _) in enumerate(drawn):
            if number in mine:
                # Gradients are complete, and can be sent, in the last backward pass of this rank.
                with self._sums.sending() if self._sums and number == max(mine) else nullcontext():
                    table[place, :2] = self._learn(number, mine[number], tokens)
                table[place, 2] = own[number]
        ranks.sum_table(table)
        if self._sums:
            self._sums.finish()
            # The losses were divided by an estimate; the table now has the target tokens of all ranks.
            torch._foreach_mul_(self._gradients(), tokens / table[:, 2].sum())
        else:
            ranks.sum_gradients(self._parameters)
        self._update(_Step(step, drawn, table))

    def _draw(self) -> tuple[int, str, int]:
        """The next micro-batch: its number over all ranks, its language, and which batch of that language it is."""
        number, progress = self.progress.micro, self.progress
        name = draw_language(self.parts.recipe.seed, number, self.parts.curriculum.distribution)
        counter = progress.counters.get(name, 0)
        progress.counters[name], progress.micro = counter + 1, number + 1
        return number, name, counter

    def _batch(self, number: int, name: str, counter: int) -> Batch:
        batch = self.parts.train[name].batch(counter)
        return self.parts.splitter(batch, name, number) if self.parts.splitter else batch

    def _learn(self, number: int, batch: Batch, tokens: int) -> Tensor:
        """Adds the gradient of a micro-batch, divided by `tokens` of the step; returns its smoothed and plain loss."""
        seed_dropout(key(self.parts.recipe.seed, "dropout", number), self.parts.device.torch)
        found = self.parts.device.losses(self.parts.model, batch, self._settings.label_smoothing)
        (found.smoothed * (self.progress.scale / tokens)).backward()  # type: ignore[no-untyped-call]
        return torch.stack([found.smoothed.detach(), found.nll])

    def _gradients(self) -> list[Tensor]:
        return [parameter.grad for parameter in self._parameters if parameter.grad is not None]

    def _update(self, taken: _Step) -> None:
        """Takes the optimizer's step. A step whose loss or gradient is not finite is not taken, only counted."""
        gradients, rate = self._gradients(), self._rate(taken.step)
        if self.progress.scale != 1:
            torch._foreach_mul_(gradients, 1 / self.progress.scale)
        norm = torch.nn.utils.get_total_norm(gradients)
        if self._settings.clip is not None:
            torch.nn.utils.clip_grads_with_norm_(self._parameters, self._settings.clip, norm)
        taken.is_finite = torch.isfinite(norm + taken.table[:, 0].sum())
        self._unread.append(taken)
        if not self._reads_every_step:
            self.parts.optimizer.step(rate, skip=(~taken.is_finite).float())
        elif self._read_losses():
            self.parts.optimizer.step(rate)
            if self.parts.average:
                self.parts.average.add_step(taken.step)
        self.parts.optimizer.zero_grad()

    @property
    def _reads_every_step(self) -> bool:
        """Whether the host decides if a step is taken. A GPU would have to be waited for, and decides itself.

        The loss scale of fp16 and an average over the steps depend on the decision.
        """
        average = self._settings.average
        return not self.parts.device.is_gpu or self.parts.device.precision == "fp16" or bool(average and average.ema)

    def _read_losses(self) -> bool:
        """Counts the steps since the last call, whose losses are read here; returns whether the last one is taken."""
        steps, self._unread = self._unread, []
        read = iter(self.parts.device.numbers([tensor for one in steps for tensor in (one.table, one.is_finite)]))
        is_taken = True
        # One iterator twice: each step has two tensors, its table and whether it is finite.
        for one, rows, (is_finite,) in zip(steps, read, read, strict=True):
            # A row of the table has three numbers: smoothed loss, plain loss, target tokens.
            for (number, name, counter), place in zip(one.drawn, range(0, len(rows), 3), strict=True):
                smoothed, nll, tokens = rows[place : place + 3]
                self._count(name, smoothed, nll, int(tokens))
                loss = smoothed if math.isfinite(smoothed) else None
                batch = DrawnBatch(step=one.step, number=number, language=name, batch=counter, loss=loss)
                self._since_good.append(batch)
            is_taken = bool(is_finite)
            self._taken() if is_taken else self._skipped(one.step)
        return is_taken

    def _taken(self) -> None:
        progress = self.progress
        progress.skipped_in_a_row = 0
        self._since_good.clear()
        if self.parts.device.precision == "fp16":
            progress.scale_age += 1
            if progress.scale_age == GROWTH:
                progress.scale, progress.scale_age = 2 * progress.scale, 0

    def _skipped(self, step: int) -> None:
        """Counts a step that was not taken. In fp16 the gradient probably overflowed, and the loss is scaled down."""
        progress = self.progress
        progress.skipped += 1
        progress.skipped_in_a_row += 1
        if progress.scale > 1:
            progress.scale, progress.scale_age, progress.skipped_in_a_row = progress.scale / 2, 0, 0
        elif progress.skipped_in_a_row >= PATIENCE_WITH_NAN:
            path = self.outputs.folder / NOT_FINITE
            if self.parts.ranks.first:
                NotFinite(batches=self._since_good).write(path)
            raise TrainingError(
                f"step {step}: loss or gradient not finite in {PATIENCE_WITH_NAN} steps in a row; the last checkpoint"
                f" is intact: lower training.learning_rate or set training.clip ({path} lists the batches)"
            )

    def _count(self, name: str, smoothed: float, nll: float, tokens: int) -> None:
        if math.isfinite(smoothed):
            progress, shown = self.progress, self.progress.shown
            progress.train_nats[name] = progress.train_nats.get(name, 0.0) + smoothed
            progress.train_tokens[name] = progress.train_tokens.get(name, 0) + tokens
            shown.smoothed += smoothed
            shown.nll += nll
            shown.tokens[name] = shown.tokens.get(name, 0) + tokens
            shown.draws[name] = shown.draws.get(name, 0) + 1

    def _show(self, step: int) -> None:
        shown, self.progress.shown = self.progress.shown, SinceShown()
        tokens = sum(shown.tokens.values()) or 1
        event = Train(
            step=step,
            loss=shown.smoothed / tokens / math.log(2),
            nll=shown.nll / tokens / math.log(2),
            learning_rate=self._rate(step),
            draws=shown.draws,
            tokens=shown.tokens,
            skipped=self.progress.skipped,
        )
        self.outputs.log.write(event)
        self.outputs.console.trained(event)

    def _probe(self, step: int) -> None:
        """A round of Algorithm 1: measures every language on dev, admits those that are ready, sets the weights."""
        curriculum, progress, outputs = self.parts.curriculum, self.progress, self.outputs
        with outputs.console.timed("probe"):
            found = self._measure(step)
        fault("probe:measured")
        measured = Measured(step, found.dev_loss, self._signals(step), found.dev_loss_se)
        outputs.forks.separate(curriculum, self._checkpoint, measured)  # from the state before this round
        progress.train_nats, progress.train_tokens = {}, {}
        if self.parts.probe and found.memory:
            self.parts.probe.memory = found.memory
        new = measured.observe(curriculum)
        outputs.forks.observe(measured)
        cosines = {name: table for name, table in measured.signals.items() if name.endswith("gradient_cosine")}
        event = probe_event(step, curriculum, cosines)
        outputs.log.write(event)
        fault("probe:logged")
        outputs.console.probed(event)
        self._warn_of_useless_losses(event)
        self._admit(step, new)

    def _measure(self, step: int) -> Found:
        """The dev losses of a round."""
        model, curriculum = self.parts.model, self.parts.curriculum
        if self.parts.probe:
            trained = sum(self.progress.train_tokens.values())
            return self.parts.probe.measure(model, step, trained, curriculum.weights)
        found = self.parts.evaluator.probe(model, step, self.parts.recipe.curriculum.dev_sample or 0)
        return Found({name: loss.smoothed for name, loss in found.items()})

    def _warn_of_useless_losses(self, event: Probe) -> None:
        """Warns, once per language, of a reference loss L* that is far worse than the shared model."""
        far = {lang: value for lang, value in event.competence.items() if value is not None and value > FAR_ABOVE}
        new = [lang for lang in far if lang not in self._warned]
        self._warned.update(new)
        for lang in new[:LINES]:
            reference = (event.dev_loss[lang] or 0.0) + math.log2(far[lang])
            self.outputs.console.print(
                f"warning: competence of {lang} is {far[lang]:.3g}, far above 1: its reference loss L* of"
                f" {reference:.2f} bits per token is much worse than this model ({event.dev_loss[lang]:.2f});"
                " raise benchmark.max_steps, or correct benchmark.file"
            )
        if more := new[LINES:]:
            self.outputs.console.print(f"warning: the same holds for {len(more)} more languages: {listed(more)}")

    def _signals(self, step: int) -> dict[str, object]:
        """The signals that the curriculum needs in this round beside the dev losses, by name."""
        curriculum, progress, rewards = self.parts.curriculum, self.progress, self.parts.rewards
        signals: dict[str, object] = {}
        if "train_loss" in curriculum.needs:
            signals["train_loss"] = {
                name: nats / progress.train_tokens[name] / math.log(2) for name, nats in progress.train_nats.items()
            }
        if rewards:
            with self.outputs.console.timed("reward"):
                signals |= rewards.signals(
                    curriculum.needs, self.parts.model, step, curriculum.admitted, scale=progress.scale
                )
        return signals

    def _admit(self, step: int, new: tuple[str, ...]) -> None:
        """Logs the languages that were just admitted, with the reason, and restarts the count of early stopping."""
        for lang in new:
            event = admitted_event(step, lang, self.parts.curriculum)
            self.outputs.log.write(event)
            if len(new) <= 4 * LINES:
                self.outputs.console.admitted(step, lang, event.reason)
        if len(new) > 4 * LINES:
            self.outputs.console.print(
                f"step {step:,}: {len(new)} languages admitted: {listed(new)}; log.jsonl has the reasons",
                style="bold green",
            )
        if new:
            self.progress.stop_best, self.progress.stop_waited = None, 0
            self.progress.last_admission = step

    def _validate(self, step: int) -> None:
        """Measures the whole dev sets; updates the best checkpoint, and considers stopping."""
        average, probe = self.parts.average, self.parts.probe
        if average:
            average.add_validation(step)
        with self.outputs.console.timed("validation"), average.in_use() if average else nullcontext():
            # The probe remembers losses of the weights that are trained, not of their average.
            whole = probe.measure_all(self.parts.model) if probe and not average else None
            found = self.parts.evaluator.validate(self.parts.model, whole.dev_losses if whole else None)
        fault("validation:measured")
        if probe and whole:
            probe.memory = whole.memory
        event = validation_event(step, found, self.parts.dev_sizes)
        self.outputs.log.write(event)
        fault("validation:logged")
        self.outputs.console.validated(event)
        self._select(step, found)
        self._consider_stopping(step, found)
        if step >= self._last_step and self.progress.finished is None:
            early = self.progress.early_decay
            self._finish(f"{early.reason}, then annealed for {early.until - early.start} steps" if early else ALL_STEPS)

    def _select(self, step: int, found: dict[str, DevLoss]) -> None:
        value = metric_over(self._settings.select_on, found, self.parts.dev_sizes)
        if better(self._settings.select_on, value, self.progress.selected):
            self.progress.selected, self.progress.selected_step = value, step

    def _consider_stopping(self, step: int, found: dict[str, DevLoss]) -> None:
        """Counts validations without progress. When patience is used up, admits all remaining languages, or stops."""
        progress, admitted = self.progress, self.parts.curriculum.admitted
        value = metric_over(self._settings.stop_on, {name: found[name] for name in admitted}, self.parts.dev_sizes)
        if better(self._settings.stop_on, value, progress.stop_best):
            progress.stop_best, progress.stop_waited = value, 0
            return
        progress.stop_waited += 1
        if progress.stop_waited < self._settings.patience or progress.early_decay:
            return
        remaining = self.parts.curriculum.admit_remaining()
        self.outputs.forks.admit_remaining()
        if not remaining:
            self._stop_early(step, f"no better in {self._settings.patience} validations")
            return
        progress.phase = 2  # the second phase of Algorithm 1: optimizer and schedule go on
        self.outputs.log.write(Phase(step=step, phase=2, admitted=list(remaining)))
        self._admit(step, remaining)

    def _stop_early(self, step: int, reason: str) -> None:
        """Ends the training now or, with an annealing schedule, after a linear decay of `decay_steps`.

        A decay that would not end before `max_steps` is not begun: the schedule reaches zero there anyway.
        """
        until = step + self._settings.decay_steps
        if not self._schedule.anneals:
            self._finish(reason)
        elif until < self._settings.max_steps:
            self.progress.early_decay = EarlyDecay(start=step, until=until, reason=reason)
            self._log_decay(step, until, reason)

    def _log_decay(self, step: int, until: int, reason: str) -> None:
        event = Decay(step=step, until=until, reason=reason)
        self.outputs.log.write(event)
        self.outputs.console.print(f"step {step:,}: the learning rate decays to zero until step {until:,}: {reason}")

    def _finish(self, reason: str) -> None:
        progress = self.progress
        progress.finished = reason
        event = Stopped(step=progress.step, reason=reason, best=progress.selected_step)
        if progress.selected_step is not None and progress.selected_step < progress.last_admission:
            note = f"the selected checkpoint precedes the last admission, at step {progress.last_admission}"
            event = event.model_copy(update={"note": note})
        self.outputs.log.write(event)
        self.outputs.console.stopped(event)

    def save(self, *, logged: bool) -> None:
        """Writes a checkpoint. Extra ones, as after a signal, are not `logged`: interruptions do not change the log."""
        self._read_losses()
        self.parts.ranks.check_same_weights(self.parts.model, self.progress.step)
        if self.progress.step == self._schedule.decay_start:
            self.progress.branch = Branch(step=self.progress.step, selected=self.progress.selected_step)
        if logged:
            self.outputs.log.write(Saved(step=self.progress.step))
        if self.parts.ranks.first:
            checkpoints.save(self.outputs.folder / "checkpoints", self._checkpoint())
        self.parts.ranks.wait()

    def _checkpoint(self) -> checkpoints.Checkpoint:
        """The present state."""
        self.progress.log_bytes = self.outputs.log.sync()
        return checkpoints.Checkpoint(
            model={name: tensor.contiguous() for name, tensor in self.parts.model.trained().items()},
            optimizer=self.parts.optimizer.state(),
            curriculum=self.parts.curriculum.state_dict(),
            progress=self.progress,
            forks=self.outputs.forks.state(),
            average=self.parts.average.state() if self.parts.average else {},
            probe=self.parts.probe.state() if self.parts.probe else {},
            forced=tuple(self.outputs.forced),
        )


def schedule_of(settings: TrainingSection) -> Schedule:
    """The learning-rate schedule of a recipe."""
    return Schedule(
        settings.schedule,
        peak=settings.learning_rate,
        warmup=settings.warmup,
        steps=settings.max_steps,
        decay=settings.decay_steps,
    )


def probe_event(step: int, curriculum: Curriculum, cosines: Mapping[str, Any] | None = None) -> Probe:
    """The state of a curriculum after an observation, as an event; `cosines` are signals that are logged, too."""
    explained = curriculum.explain()
    names = ("dev_loss", "dev_loss_se", "competence", "competence_se", "hrls_competence", "weights", "admitted")
    return Probe(step=step, **{name: explained[name] for name in names if name in explained}, **(cosines or {}))
