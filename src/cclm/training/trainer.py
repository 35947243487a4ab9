"""The training loop: draw, step, look, decide, save; on one screen."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from cclm.curriculum import Curriculum, draw_language
from cclm.data.batches import Batch, Batches
from cclm.errors import TrainingError
from cclm.model.loss import losses
from cclm.model.schedule import learning_rate
from cclm.model.transformer import Transformer
from cclm.recipe.schema import Recipe
from cclm.rng import key
from cclm.training import checkpoint as checkpoints
from cclm.training.adam import Adam
from cclm.training.console import Telling
from cclm.training.dev_loss import DevLoss, Evaluator, tensors
from cclm.training.device import GROWTH, Device
from cclm.training.faults import fault
from cclm.training.forking import Followers
from cclm.training.log import Log
from cclm.training.progress import ALL_STEPS, Progress
from cclm.training.ranks import Ranks
from cclm.training.rewards import Rewards
from cclm.training.stopping import better, metric_over, validated

SHOW_EVERY = 50
"""Steps between two train events."""
PATIENCE_WITH_NAN = 10
"""Steps in a row whose loss or gradient is not finite before the training gives up."""


@dataclass
class Parts:
    """What a trainer is made of."""

    recipe: Recipe
    model: Transformer
    optimizer: Adam
    curriculum: Curriculum
    train: dict[str, Batches]
    evaluator: Evaluator
    rewards: Rewards | None
    dev_sizes: dict[str, int]
    device: Device
    ranks: Ranks


class Trainer:
    """Trains until it has converged, run out of steps, or been told to stop; it can go on from any checkpoint."""

    def __init__(
        self, parts: Parts, folder: Path, progress: Progress, log: Log, telling: Telling, followers: Followers
    ) -> None:
        self._ = parts
        self._folder, self._log, self._telling, self._followers = folder, log, telling, followers
        self.progress = progress
        self._settings, self._every = parts.recipe.training, parts.recipe.curriculum.every

    def run(self, poll: Callable[[], None]) -> str:
        """Trains to the end and gives the reason; `poll` raises where the process was told to stop.

        What is due after a step is part of the progress: a training stopped in the middle of a probe goes on with it.
        """
        progress = self.progress
        while progress.finished is None or progress.due:
            if not progress.due:
                progress.step += 1
                self._train_step(progress.step)
                progress.due = self._due(progress.step)
            elif progress.due[0] == "show":
                self._show(progress.step)
                progress.due.pop(0)
            elif progress.due[0] == "probe":  # a round of the curriculum
                self._probe(progress.step)
                progress.due.pop(0)
            elif progress.due[0] == "validate":
                self._validate(progress.step)
                progress.due.pop(0)
            elif progress.due.pop(0) == "save":
                self.save(logged=True)
            poll()
        return progress.finished

    def _due(self, step: int) -> list[str]:
        settings = self._settings
        last = step >= settings.max_steps
        due = ["show"] if step % SHOW_EVERY == 0 else []
        due += ["probe"] if step % self._every == 0 else []
        due += ["validate", "save"] if step % settings.validate_every == 0 or last else []
        return due

    def _train_step(self, step: int) -> None:
        """One update from `accumulate` micro-batches a rank, each of one language, drawn on its own."""
        self._.model.train()
        ranks = self._.ranks
        drawn = [self._draw() for _ in range(self._settings.accumulate * ranks.world)]
        mine = {number: self._.train[name].batch(counter) for number, name, counter in drawn if ranks.takes(number)}
        tokens = int(ranks.sum([[sum(batch.target_tokens for batch in mine.values())]])[0][0])
        rows = [
            self._learn(number, mine[number], tokens) if number in mine else (0.0, 0.0, 0) for number, _, _ in drawn
        ]
        total = 0.0
        for (_, name, _), (smoothed, nll, count) in zip(drawn, ranks.sum(rows), strict=True):
            total += self._count(name, smoothed, nll, int(count))
        ranks.sum_gradients(self._.model.parameters())
        self._update(step, total)

    def _draw(self) -> tuple[int, str, int]:
        """The next micro-batch: its number over all ranks, its language, and which batch of that it is."""
        number, progress = self.progress.micro, self.progress
        name = draw_language(self._.recipe.seed, number, self._.curriculum.distribution)
        counter = progress.counters.get(name, 0)
        progress.counters[name], progress.micro = counter + 1, number + 1
        return number, name, counter

    def _learn(self, number: int, batch: Batch, tokens: int) -> tuple[float, float, int]:
        """Adds a micro-batch's share of the gradient; gives its losses and its target tokens, of `tokens` in all."""
        torch.manual_seed(key(self._.recipe.seed, "dropout", number) >> 1)
        source, target_input, target_output = tensors(batch, self._.device.torch)
        with self._.device.autocast():
            logits = self._.model(source, target_input)
        found = losses(logits, target_output, self._settings.label_smoothing)
        del logits  # large, and of no use to the backward pass
        (found.smoothed * (self.progress.scale / tokens)).backward()  # type: ignore[no-untyped-call]
        return found.smoothed.item(), found.nll.item(), batch.target_tokens

    def _update(self, step: int, total: float) -> None:
        """The optimizer's step; one whose loss or gradient is not finite is never taken, only counted."""
        parameters = list(self._.model.parameters())
        if self.progress.scale != 1:
            torch._foreach_mul_([p.grad for p in parameters if p.grad is not None], 1 / self.progress.scale)
        norm = torch.nn.utils.clip_grad_norm_(parameters, self._settings.clip or math.inf)
        if math.isfinite(total) and bool(torch.isfinite(norm)):
            rate = learning_rate(step, peak=self._settings.learning_rate, warmup=self._settings.warmup)
            self._.optimizer.step(rate)
            self._taken()
        else:
            self._skipped(step)
        self._.optimizer.forget_gradients()

    def _taken(self) -> None:
        progress = self.progress
        progress.skipped_in_a_row = 0
        if self._.device.precision == "fp16":
            progress.scale_age += 1
            if progress.scale_age == GROWTH:
                progress.scale, progress.scale_age = 2 * progress.scale, 0

    def _skipped(self, step: int) -> None:
        """In fp16 the gradient was probably too large for its format: the loss is scaled down, as far as that goes."""
        progress = self.progress
        progress.skipped += 1
        progress.skipped_in_a_row += 1
        if progress.scale > 1:
            progress.scale, progress.scale_age, progress.skipped_in_a_row = progress.scale / 2, 0, 0
        elif progress.skipped_in_a_row >= PATIENCE_WITH_NAN:
            raise TrainingError(
                f"step {step}: loss or gradient not finite in {PATIENCE_WITH_NAN} steps in a row;"
                " the last checkpoint is intact: lower training.learning_rate or set training.clip"
            )

    def _count(self, name: str, smoothed: float, nll: float, tokens: int) -> float:
        if math.isfinite(smoothed):
            progress, shown = self.progress, self.progress.shown
            progress.train_nats[name] = progress.train_nats.get(name, 0.0) + smoothed
            progress.train_tokens[name] = progress.train_tokens.get(name, 0) + tokens
            shown["smoothed"] = shown.get("smoothed", 0.0) + smoothed
            shown["nll"] = shown.get("nll", 0.0) + nll
            shown.setdefault("tokens", {})[name] = shown.get("tokens", {}).get(name, 0) + tokens
            shown.setdefault("draws", {})[name] = shown.get("draws", {}).get(name, 0) + 1
        return smoothed

    def _show(self, step: int) -> None:
        shown, self.progress.shown = self.progress.shown, {}
        tokens = sum(shown.get("tokens", {}).values()) or 1
        rate = learning_rate(step, peak=self._settings.learning_rate, warmup=self._settings.warmup)
        facts = {
            "loss": shown.get("smoothed", 0.0) / tokens / math.log(2),
            "nll": shown.get("nll", 0.0) / tokens / math.log(2),
            "learning_rate": rate,
            "draws": shown.get("draws", {}),
            "tokens": shown.get("tokens", {}),
            "skipped": self.progress.skipped,
        }
        self._log.write("train", step, **facts)
        self._telling.trained(step, facts)

    def _probe(self, step: int) -> None:
        """Algorithm 1: measure every language on dev, admit who is ready, set the weights."""
        curriculum, progress = self._.curriculum, self.progress
        with self._telling.timed("probe"):
            found = self._.evaluator.probe(self._.model, step, self._.recipe.curriculum.dev_sample)
        fault("probe:measured")
        signals, dev_loss = self._signals(step), {name: loss.smoothed for name, loss in found.items()}
        self._followers.part(curriculum, self._checkpoint, step=step, dev_loss=dev_loss, signals=signals)
        progress.train_nats, progress.train_tokens = {}, {}
        new = curriculum.observe(step=step, dev_loss=dev_loss, **signals)
        self._followers.observe(step, dev_loss, signals)
        told = curriculum.explain()
        names = ("dev_loss", "competence", "hrls_competence", "weights", "admitted")
        cosines = {name: found for name, found in signals.items() if name.endswith("gradient_cosine")}
        self._log.write("probe", step, **{name: told[name] for name in names}, **cosines)
        fault("probe:logged")
        self._telling.probed(step, told, progress)
        self._welcome(step, new)

    def _signals(self, step: int) -> dict[str, Any]:
        """What the curriculum needs in this round beside the dev losses."""
        curriculum, progress, rewards = self._.curriculum, self.progress, self._.rewards
        signals: dict[str, Any] = {}
        if "train_loss" in curriculum.needs:
            signals["train_loss"] = {
                name: nats / progress.train_tokens[name] / math.log(2) for name, nats in progress.train_nats.items()
            }
        if rewards:
            with self._telling.timed("reward"):
                signals |= rewards.signals(
                    curriculum.needs, self._.model, step, curriculum.admitted, scale=progress.scale
                )
        return signals

    def _welcome(self, step: int, new: tuple[str, ...]) -> None:
        """Languages that have just been admitted: told with the reason; what stopping waits for starts anew."""
        admissions = self._.curriculum.explain()["admissions"]
        for lang in new:
            facts = {name: value for name, value in admissions[lang].items() if name != "step"}
            self._log.write("admitted", step, language=lang, **facts)
            self._telling.admitted(step, lang, facts["reason"])
        if new:
            self.progress.stop_best, self.progress.stop_waited = None, 0
            self.progress.last_admission = step

    def _validate(self, step: int) -> None:
        """Whole dev sets: which checkpoint is the best so far, and whether it is time to stop."""
        with self._telling.timed("validation"):
            found = self._.evaluator.validate(self._.model)
        fault("validation:measured")
        facts = validated(found, self._.dev_sizes)
        self._log.write("validation", step, **facts)
        fault("validation:logged")
        self._telling.validated(step, facts)
        self._select(step, found)
        self._consider_stopping(step, found)
        if step >= self._settings.max_steps and self.progress.finished is None:
            self._finish(ALL_STEPS)

    def _select(self, step: int, found: dict[str, DevLoss]) -> None:
        value = metric_over(self._settings.select_on, found, self._.dev_sizes)
        if better(self._settings.select_on, value, self.progress.selected):
            self.progress.selected, self.progress.selected_step = value, step

    def _consider_stopping(self, step: int, found: dict[str, DevLoss]) -> None:
        progress, admitted = self.progress, self._.curriculum.admitted
        value = metric_over(self._settings.stop_on, {name: found[name] for name in admitted}, self._.dev_sizes)
        if better(self._settings.stop_on, value, progress.stop_best):
            progress.stop_best, progress.stop_waited = value, 0
            return
        progress.stop_waited += 1
        if progress.stop_waited < self._settings.patience:
            return
        remaining = self._.curriculum.admit_remaining()
        self._followers.admit_remaining()
        if not remaining:
            self._finish(f"no better in {self._settings.patience} validations")
            return
        progress.phase = 2  # the second phase of Algorithm 1: optimizer and schedule go on
        self._log.write("phase", step, phase=2, admitted=list(remaining))
        self._welcome(step, remaining)

    def _finish(self, reason: str) -> None:
        progress = self.progress
        progress.finished = reason
        facts: dict[str, Any] = {"reason": reason, "best": progress.selected_step}
        if progress.selected_step is not None and progress.selected_step < progress.last_admission:
            facts["note"] = f"the selected checkpoint precedes the last admission, at step {progress.last_admission}"
        self._log.write("stopped", progress.step, **facts)
        self._telling.stopped(progress.step, facts)

    def save(self, *, logged: bool) -> None:
        """Writes a checkpoint. One that a signal asked for is no fact of the training and not in its log."""
        if logged:
            self._log.write("saved", self.progress.step)
        if self._.ranks.first:
            checkpoints.save(
                self._folder / "checkpoints",
                self._checkpoint(),
                step=self.progress.step,
                best=self.progress.selected_step,
            )
        self._.ranks.wait()

    def _checkpoint(self) -> checkpoints.Checkpoint:
        """All that there is now."""
        self.progress.log_bytes = self._log.sync()
        return checkpoints.Checkpoint(
            model={name: tensor.contiguous() for name, tensor in self._.model.state_dict().items()},
            optimizer=self._.optimizer.state(),
            curriculum=self._.curriculum.state_dict(),
            progress=self.progress.to_dict(),
            followers=self._followers.state(),
        )
