"""The curriculum inside Hugging Face's Trainer: any gate and sampler, one dataset per language or domain.

    trainer = CurriculumTrainer(model=model, args=args, data_collator=collator, curriculum=curriculum,
                                train_dataset={"tur": ..., "aze": ...}, eval_dataset={"tur": ..., "aze": ...})
    trainer.train()

Every evaluation is one round: it measures the dev loss of every language in bits per target token and ends with one
`Curriculum.observe`. `class MyTrainer(CurriculumMixin, SFTTrainer)` does the same for TRL and any other Trainer.
"""

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    import torch
    from torch import Tensor
    from torch.utils.data import Sampler
    from transformers import Seq2SeqTrainer, Trainer
    from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, get_last_checkpoint
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"cclm.integrations.transformers needs {missing.name}: pip install 'ccl-m[hf]'", name=missing.name
    ) from None

from cclm.curriculum import BatchSampler, Curriculum
from cclm.formats.benchmark import Benchmark
from cclm.formats.trainer_checkpoint import NAME, TrainerCheckpoint
from cclm.integrations.bits import output_bits
from cclm.integrations.training_sets import Key, TrainingSets, is_stream

if TYPE_CHECKING:
    from typing import Any as Base  # whichever Trainer it is mixed with
else:
    Base = object

MEASURED = frozenset({"train_loss"})
"""Signals beside dev_loss that CurriculumMixin measures itself."""
logger = logging.getLogger(__name__)


class CurriculumMixin(Base):  # type: ignore[misc]
    """Adds a curriculum to a Trainer; it stands before the Trainer's class: `class Mine(CurriculumMixin, SFTTrainer)`.

    `train_dataset` and `eval_dataset` have one dataset per language. `mixed_batches=True` draws a language for every
    example; by default all examples of a batch are of one language.
    """

    train_dataset: Any

    def __init__(
        self,
        *args: Any,
        curriculum: Curriculum,
        train_dataset: Mapping[str, Any],
        eval_dataset: Mapping[str, Any],
        mixed_batches: bool = False,
        **kwargs: Any,
    ) -> None:
        check_datasets(curriculum, train_dataset, eval_dataset)
        self.curriculum, self.mixed_batches = curriculum, mixed_batches
        self._initial = curriculum.state_dict()
        self._checkpoint: Path | None = None
        self._rows: list[Tensor] | None = None  # what an evaluation has measured so far
        self._train_bits: dict[str, tuple[float, float]] = {}  # of this process, since the last round
        self._train_sets = dict(train_dataset)
        first = next(iter(self._train_sets))
        super().__init__(*args, train_dataset=self._train_sets[first], eval_dataset=dict(eval_dataset), **kwargs)
        if self.train_dataset is not self._train_sets[first]:
            raise ValueError(
                f"{type(self).__name__} prepares its training set while it is constructed:"
                " prepare the dataset of every language before and switch that off"
            )
        self._check_settings()
        self._check_collator()
        self.train_dataset = TrainingSets(self._train_sets, seed=self._seed, sizes=curriculum.sizes)

    def signals(self, needs: frozenset[str]) -> dict[str, object]:
        """The signals beside dev_loss that this round's observation needs; override it to measure signals of your own.

        `train_loss` is measured where a method needs it.
        """
        if "train_loss" not in needs:
            return {}
        totals = self._total_train_bits()
        self._train_bits = {}
        return {"train_loss": {lang: bits / tokens for lang, (bits, tokens) in totals.items() if tokens}}

    def train(self, resume_from_checkpoint: str | Path | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """Trains; a resumed training continues with the next batch and with the curriculum as it was."""
        found: Any = resume_from_checkpoint
        if found is True:
            found = get_last_checkpoint(self.args.output_dir)  # type: ignore[no-untyped-call]
        self._checkpoint = Path(found) if found else None
        result = super().train(resume_from_checkpoint, *args, **kwargs)
        if waiting := self.curriculum.candidates:
            logger.warning("never admitted, so took no part in training: %s", ", ".join(waiting))
        return result

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval", **kwargs: Any
    ) -> dict[str, float]:
        """Evaluates as the Trainer does; within training, an evaluation of all languages is a round.

        `eval_bits_per_token` is the mean over the languages: a `metric_for_best_model`.
        """
        metrics: dict[str, float] = super().evaluate(eval_dataset, ignore_keys, metric_key_prefix, **kwargs)
        if eval_dataset is None:
            losses = {lang: metrics[f"{metric_key_prefix}_{lang}_bits_per_token"] for lang in sorted(self._train_sets)}
            metrics[f"{metric_key_prefix}_bits_per_token"] = math.fsum(losses.values()) / len(losses)
            if self.is_in_train:
                self._observe(losses)
        return metrics

    def evaluation_loop(self, *args: Any, metric_key_prefix: str = "eval", **kwargs: Any) -> Any:
        """Adds `..._bits_per_token` to the metrics of the Trainer: the loss per target token, over all processes."""
        self._rows = []
        output = super().evaluation_loop(*args, metric_key_prefix=metric_key_prefix, **kwargs)
        if self._rows:
            output.metrics[f"{metric_key_prefix}_bits_per_token"] = _mean(self._rows)
        self._rows = None
        return output

    def prediction_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """One batch of an evaluation, measured per target token."""
        if self._rows is None or inputs.get("labels") is None:
            return super().prediction_step(model, inputs, *args, **kwargs)
        inputs_as_given = dict(inputs)
        with _outputs_of(model) as outputs:
            result = super().prediction_step(model, inputs, *args, **kwargs)
        rows = output_bits(outputs[-1], inputs_as_given, self.model.config)
        self._rows.append(self.accelerator.gather_for_metrics(rows).cpu())  # without what fills up the last batch
        return result

    def training_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Tensor:
        """One micro-batch of training, measured per target token where a method needs the training loss."""
        if "train_loss" not in self.curriculum.signals:
            result: Tensor = super().training_step(model, inputs, *args, **kwargs)
            return result
        inputs_as_given = dict(inputs)
        with _outputs_of(model) as outputs:
            result = super().training_step(model, inputs, *args, **kwargs)
        with torch.no_grad():
            bits, tokens = output_bits(outputs[-1], inputs_as_given, self.model.config).double().sum(dim=0).tolist()
        lang = self._batches.languages(self._microbatch * self.accelerator.num_processes + self.args.process_index)[0]
        before = self._train_bits.get(lang, (0.0, 0.0))
        self._train_bits[lang] = (before[0] + bits, before[1] + tokens)
        self._microbatch += 1
        return result

    def _prepare_dataset(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        """TRL's trainers tokenise and pack in their constructor, one training set; this does it for every language."""
        prepare = super()._prepare_dataset
        first = next(iter(self._train_sets))
        if dataset is not self._train_sets[first]:
            return prepare(dataset, *args, **kwargs)
        self._train_sets = {lang: prepare(each, *args, **kwargs) for lang, each in self._train_sets.items()}
        return self._train_sets[first]

    def _get_train_sampler(self, train_dataset: Any = None) -> "_Sampler":
        """The draws, from the start or from the checkpoint that training resumes from. Called when training starts."""
        group = self._group
        examples = group * self._train_batch_size  # per optimizer step
        self._batches = BatchSampler(
            self.curriculum,
            seed=self._seed,
            draws=-(-len(self.train_dataset) // examples) * group,  # whole steps, as many examples as there are
            batch_size=self._train_batch_size,
            mixed=self.mixed_batches,
            group=group,
        )
        self._train_bits = {}
        consumed = 0
        if self._checkpoint is None:
            self.curriculum.load_state_dict(self._initial)  # a second train() starts anew
        else:
            consumed = self._restore(TrainerCheckpoint.read(self._checkpoint / NAME))
        self._resumed_at = consumed // group if self._checkpoint else None
        self._microbatch = consumed // self.accelerator.num_processes
        return _Sampler(self._batches, skipped=consumed % len(self._batches), batch_size=self._train_batch_size)

    def _restore(self, saved: TrainerCheckpoint) -> int:
        then, now = (saved.batches_per_step, saved.batch_size), (self._group, self._train_batch_size)
        if then != now:
            raise ValueError(
                f"{self._checkpoint}: a step had {then[0]} batches of {then[1]}, here it has {now[0]} of {now[1]};"
                " a resume needs the same batch size and the same accumulation times processes"
            )
        self.curriculum.load_state_dict(saved.curriculum)
        self._batches.load_state_dict(saved.batches)
        if self.is_world_process_zero():
            self._train_bits = dict(saved.train_bits)  # the sum over all processes
        consumed: int = saved.batches["index"]
        return consumed

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Writes curriculum.json first: a checkpoint with a trainer_state.json, which comes last, has one."""
        state = TrainerCheckpoint(
            curriculum=self.curriculum.state_dict(),
            batches=self._batches.state_dict(consumed=self.state.global_step * self._group),
            batch_size=self._train_batch_size,
            batches_per_step=self._group,
            train_bits=self._total_train_bits(),
        )
        if self.args.should_save:
            folder = Path(self._get_output_dir(trial)) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
            folder.mkdir(parents=True, exist_ok=True)
            state.write(folder / NAME)
        super()._save_checkpoint(model, trial)

    def _observe(self, dev_loss: dict[str, float]) -> None:
        step, before = self.state.global_step, self.curriculum.explain()
        if step == self._resumed_at or (before["round"] and step == before["step"]):
            return  # eval_on_start after a resume, or the end of an epoch: no round of its own
        signals = self.signals(self.curriculum.needs)
        self.curriculum.observe(step=step, dev_loss=dev_loss, dev_loss_se=None, **signals)
        self.log(self._explained())

    def _explained(self) -> dict[str, float]:
        """What `Curriculum.explain` returns, as numbers for trackers, with passes over each language's training set."""
        facts = self.curriculum.explain()
        draws = self._batches.state_dict(consumed=self.state.global_step * self._group)["counters"]
        numbers = {}
        for lang, size in self.train_dataset.sizes.items():
            numbers[f"curriculum/weight/{lang}"] = facts["weights"].get(lang, 0.0)
            numbers[f"curriculum/admitted/{lang}"] = float(lang in facts["admitted"])
            numbers[f"curriculum/passes/{lang}"] = draws[lang] / size
            for name in ("competence", "hrls_competence"):
                if lang in facts[name]:
                    numbers[f"curriculum/{name}/{lang}"] = facts[name][lang]
        return numbers

    def _total_train_bits(self) -> dict[str, tuple[float, float]]:
        """Bits and target tokens of training batches since the last round, summed over the processes."""
        if self.accelerator.num_processes == 1:
            return dict(self._train_bits)
        mine = [self._train_bits.get(lang, (0.0, 0.0)) for lang in self._train_sets]
        total = self.accelerator.reduce(torch.tensor(mine, dtype=torch.float64, device=self.args.device), "sum")
        return {lang: (bits, tokens) for lang, (bits, tokens) in zip(self._train_sets, total.tolist(), strict=True)}

    @property
    def _seed(self) -> int:
        return int(self.args.seed if self.args.data_seed is None else self.args.data_seed)

    @property
    def _group(self) -> int:
        """Batches per optimizer step, over all processes."""
        return int(self.get_total_train_batch_size(self.args) // self._train_batch_size)

    def _check_settings(self) -> None:
        args, streams = self.args, [lang for lang, each in self._train_sets.items() if is_stream(each)]
        unknown = self.curriculum.signals - MEASURED if type(self).signals is CurriculumMixin.signals else frozenset()
        config = args.accelerator_config
        for refused, complaint in (
            (args.eval_strategy == "no", "eval_strategy is 'no', but every evaluation is a round: set 'steps'"),
            (args.train_sampling_strategy != "random", "train_sampling_strategy: the curriculum draws; leave it out"),
            (args.ignore_data_skip, "ignore_data_skip: a resume is exact without it; leave it out"),
            (config.split_batches, "accelerator_config.split_batches: batches are drawn for one process each"),
            (config.dispatch_batches, "accelerator_config.dispatch_batches: every process draws its own batches"),
            (
                bool(streams) and args.dataloader_num_workers > 0,
                f"dataloader_num_workers is {args.dataloader_num_workers}, but streams are read in the main process"
                f" ({', '.join(streams)}): set it to 0",
            ),
            (
                bool(unknown),
                f"the curriculum needs {', '.join(sorted(unknown))}, which is not measured here: override signals()",
            ),
            (
                self.mixed_batches and "train_loss" in self.curriculum.signals,
                "mixed_batches: the curriculum needs train_loss, which is measured where a batch has one language",
            ),
        ):
            if refused:
                raise ValueError(complaint)

    def _check_collator(self) -> None:
        """Collates one example of each language, to find what cannot be trained or evaluated."""
        collate = self._get_collator_with_removed_columns(self.data_collator)
        for what, datasets in (("train_dataset", self._train_sets), ("eval_dataset", self.eval_dataset)):
            for lang, dataset in datasets.items():
                example = next(iter(dataset), None) if is_stream(dataset) else dataset[0]
                if example is None:
                    raise ValueError(f"{what}: {lang} is empty")
                if "labels" not in collate([example]):
                    raise ValueError(
                        f"{what}: the data_collator makes no labels for {lang}; they are the target tokens"
                    )


class CurriculumTrainer(CurriculumMixin, Seq2SeqTrainer):
    """Hugging Face's Seq2SeqTrainer with a curriculum, for NLLB, M2M100, mBART, Marian and the like."""


class _Sampler(Sampler[Key]):
    """Keys of `TrainingSets` for a DataLoader, batch after batch.

    The Trainer resumes within an epoch by skipping the batches of that epoch that it had consumed. They are not drawn
    again: placeholders stand in their places.
    """

    def __init__(self, batches: BatchSampler, *, skipped: int, batch_size: int) -> None:
        self._batches, self._skipped, self._batch_size = batches, skipped, batch_size

    def __len__(self) -> int:
        return len(self._batches) * self._batch_size

    def __iter__(self) -> Iterator[Key]:
        yield from repeat(("", 0), self._skipped * self._batch_size)
        self._skipped = 0
        for batch in self._batches.pairs():
            yield from batch


def check_datasets(curriculum: Curriculum, train: Mapping[str, Any], dev: Mapping[str, Any]) -> None:
    """Refuses datasets that do not fit one another or the curriculum."""
    for what, datasets in (("train_dataset", train), ("eval_dataset", dev)):
        if not isinstance(datasets, Mapping):
            kind = "None" if datasets is None else f"a {type(datasets).__name__}"
            raise ValueError(f'{what} is {kind}; give one dataset per language: {{"tur": ..., "aze": ...}}')
        if missing := sorted(set(curriculum.sizes) - set(datasets)):
            raise ValueError(f"{what}: nothing for {', '.join(missing)}, which the curriculum has")
        if unknown := sorted(set(datasets) - set(curriculum.sizes)):
            known = ", ".join(sorted(curriculum.sizes))
            raise ValueError(f"{what}: {', '.join(unknown)} is not in the curriculum, which has {known}")
        if empty := [lang for lang, dataset in datasets.items() if not is_stream(dataset) and not len(dataset)]:
            raise ValueError(f"{what}: {', '.join(empty)} is empty")


def measure_benchmark(
    trainer_factory: Callable[[str], Trainer], languages: Iterable[str], *, file: str | Path | None = None
) -> dict[str, float]:
    """The reference losses L*: trains one model per language and measures its dev loss in bits per target token.

    `trainer_factory("aze")` returns a Trainer for this language alone, with its `eval_dataset`. The model is measured
    as training leaves it: with `load_best_model_at_end=True`, at its best. What is in `file` already is not trained
    again.
    """
    path = Path(file) if file is not None else None
    losses = dict(Benchmark.read(path).losses) if path and path.exists() else {}
    wanted = list(languages)
    for lang in wanted:
        if lang in losses:
            continue
        trainer = trainer_factory(lang)
        if trainer.eval_dataset is None:
            raise ValueError(f"the trainer of {lang} has no eval_dataset: L* is a dev loss")
        trainer.train()
        losses[lang] = dev_bits(trainer)
        if path and trainer.is_world_process_zero():
            Benchmark(losses=losses).write(path)
    return {lang: losses[lang] for lang in wanted}


@torch.no_grad()
def dev_bits(trainer: Trainer) -> float:
    """The loss of a Trainer's model on its dev set, in bits per target token."""
    datasets = trainer.eval_dataset if isinstance(trainer.eval_dataset, dict) else {None: None}
    model: Any = trainer.model
    model.eval()
    rows = []
    for name in datasets:
        for inputs in trainer.get_eval_dataloader(name):
            measured = output_bits(model(**inputs), inputs, model.config)
            rows.append(trainer.accelerator.gather_for_metrics(measured).cpu())
    return _mean(rows)


def _mean(rows: list[Tensor]) -> float:
    bits, tokens = torch.cat(rows).double().sum(dim=0).tolist()
    return float(bits / tokens) if tokens else float("nan")  # the curriculum counts NaN as refused


@contextmanager
def _outputs_of(model: torch.nn.Module) -> Iterator[list[Any]]:
    """Yields a list with the model's last output in the block. In a step that also generates, it is for the labels."""
    outputs: list[Any] = [None]
    hook = model.register_forward_hook(lambda module, inputs, output: outputs.__setitem__(0, output))
    try:
        yield outputs
    finally:
        hook.remove()
