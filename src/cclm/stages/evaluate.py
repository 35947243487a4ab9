"""`cclm translate`, `cclm score`, `cclm report`: from a trained run to its numbers and its page."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from safetensors.torch import load_file

from cclm.config import ConfigError, check
from cclm.data.cleaning import clean
from cclm.data.errors import DataError
from cclm.data.prepared import Prepared
from cclm.data.scan import Progress
from cclm.data.texts import Texts
from cclm.data.vocabulary import BOS, EOS, Vocabulary
from cclm.data.workers import available_cores
from cclm.evaluation.scores import read_lines, score
from cclm.model.transformer import Transformer
from cclm.recipe import Recipe
from cclm.report.page import write_report
from cclm.stages.progress import shown
from cclm.training.session import shape_of
from cclm.training.tasks import Task, tasks
from cclm.translation.export import export
from cclm.translation.translate import Translator, verify

BITEXT = "recipe.json"
"""What the folder of the bitext runs has in place of a config.yaml."""
SAMPLES = 32
"""Dev sentences on which the exported model must agree with the trained one."""


def recipe_of(run: Path) -> Recipe:
    """The recipe that a run, or a folder of bitext runs, was made with."""
    path = run / BITEXT if is_bitext(run) else run / "config.yaml"
    if not path.exists():
        raise ConfigError(f"{run}: no run here (it has no config.yaml)")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path}: damaged: {error}") from None
    return check(Recipe, content, str(path))


def is_bitext(run: Path) -> bool:
    """Whether this is the folder of the bitext runs, which together are one system: each translates its own task."""
    return (run / BITEXT).exists()


def run_translate(run: Path, split: str = "test") -> list[Path]:
    """Translates a split of every task with the best checkpoint; gives the files written."""
    recipe = recipe_of(run)
    prepared = Prepared.open(recipe.prepared)
    made = _scored(_tasks_of(run, recipe, prepared), prepared, split)
    done = []
    with shown({"translating": sum(prepared.sizes[task.language][split] for task in made.values())}) as progress:
        for model, its_tasks in _models(run, made).items():
            translator = exported(model, recipe, prepared, its_tasks[0])
            done += [_translate(run, recipe, prepared, task, split, translator, progress) for task in its_tasks]
    (run / "translations" / f"{split}.checkpoint").write_text(_checkpoints(run, made), encoding="utf-8")
    return done


def _models(run: Path, made: dict[str, Task]) -> dict[Path, list[Task]]:
    """Which run's model translates which tasks."""
    if is_bitext(run):
        return {run / name: [task] for name, task in made.items()}
    return {run: list(made.values())}


def _checkpoints(run: Path, made: dict[str, Task]) -> str:
    """The checkpoints that translate these tasks, a line each."""
    return "".join(_best(model) + "\n" for model in _models(run, made))


def _best(run: Path) -> str:
    """The name of the best checkpoint."""
    path = run / "checkpoints" / "best"
    if not path.exists():
        raise ConfigError(f"{run}: no checkpoint yet; train it first")
    return path.read_text(encoding="utf-8").strip()


def _scored(made: dict[str, Task], prepared: Prepared, split: str) -> dict[str, Task]:
    """The tasks that have this split; it may be missing for some, not for all."""
    there = {name: task for name, task in made.items() if split in prepared.sizes[task.language]}
    if not there:
        raise DataError(f"no language has a {split} set: there is nothing to translate")
    return there


def exported(run: Path, recipe: Recipe, prepared: Prepared, task: Task) -> Translator:
    """The best checkpoint as a CTranslate2 model, which has been shown to give the trained model's probabilities."""
    best = run / "checkpoints" / _best(run)
    state = load_file(best / "model.safetensors")
    source, target = vocabularies(recipe, prepared)
    folder = run / "ctranslate2"
    export(
        {name: tensor.numpy() for name, tensor in state.items()},
        heads=recipe.model.heads,
        source_symbols=source.symbols,
        target_symbols=target.symbols,
        folder=folder,
    )
    model = Transformer(shape_of(recipe, prepared), recipe.seed)
    model.load_state_dict(state)
    translator = Translator(folder, threads=available_cores())
    verify(translator, _log_probabilities(model.eval(), source, target), _samples(prepared, task, source, target))
    return translator


def _log_probabilities(
    model: Transformer, source: Vocabulary, target: Vocabulary
) -> Callable[[Sequence[str], Sequence[str]], list[float]]:
    """What the trained model gives each symbol of a target after its first, and its end."""
    into, out_of = {s: i for i, s in enumerate(target.symbols)}, {s: i for i, s in enumerate(source.symbols)}

    @torch.no_grad()
    def of(source_symbols: Sequence[str], target_symbols: Sequence[str]) -> list[float]:
        ids = [into[symbol] for symbol in target_symbols]
        logits = model(torch.tensor([[*(out_of[s] for s in source_symbols), EOS]]), torch.tensor([ids]))
        found = torch.log_softmax(logits[0], dim=-1)
        return [float(found[place, i]) for place, i in enumerate([*ids[1:], EOS])]

    return of


def _samples(
    prepared: Prepared, task: Task, source: Vocabulary, target: Vocabulary
) -> list[tuple[list[str], list[str]]]:
    corpus = prepared.corpus(task.language, "dev")
    samples = []
    for index in range(min(SAMPLES, len(corpus))):
        other, pivot = corpus.pair(index)
        from_ids, to_ids = (other, pivot) if task.direction.to_pivot else (pivot, other)
        start = BOS if task.direction.target_tag is None else task.direction.target_tag
        samples.append(
            (_source(task, source, from_ids.tolist()), [target.symbols[i] for i in (start, *to_ids.tolist())])
        )
    return [sample for sample in samples if sample[0]]


def _source(task: Task, vocabulary: Vocabulary, ids: list[int]) -> list[str]:
    tag = [] if task.direction.source_tag is None else [task.direction.source_tag]
    return [vocabulary.symbols[i] for i in (*tag, *ids)] if ids else []


def vocabularies(recipe: Recipe, prepared: Prepared) -> tuple[Vocabulary, Vocabulary]:
    """That of the source, and that of the target."""
    sides = (prepared.other, prepared.pivot)
    return sides if recipe.data.direction == "many-to-one" else (sides[1], sides[0])


def _tasks_of(run: Path, recipe: Recipe, prepared: Prepared) -> dict[str, Task]:
    """All tasks, or the one that a bitext model was trained for: its folder has the task's name."""
    made = tasks(recipe.data, prepared)
    return {run.name: made[run.name]} if run.parent.name == "bitext" and run.name in made else made


def _translate(
    run: Path, recipe: Recipe, prepared: Prepared, task: Task, split: str, translator: Translator, progress: Progress
) -> Path:
    stem = run / "translations" / f"{split}.{task.source}-{task.target}"
    stem.parent.mkdir(exist_ok=True)
    _write(Path(f"{stem}.txt"), hypotheses(recipe, prepared, task, split, translator, progress))
    pairs = texts(recipe, task, split)
    _write(Path(f"{stem}.reference.txt"), [target for _, target in pairs])
    _write(Path(f"{stem}.source.txt"), [source for source, _ in pairs])
    return Path(f"{stem}.txt")


def hypotheses(
    recipe: Recipe, prepared: Prepared, task: Task, split: str, translator: Translator, progress: Progress
) -> list[str]:
    """A split of a task, translated: detokenised text."""
    source, target = vocabularies(recipe, prepared)
    corpus = prepared.corpus(task.language, split)
    sentences = [
        _source(task, source, corpus.pair(i)[0 if task.direction.to_pivot else 1].tolist()) for i in range(len(corpus))
    ]
    start = target.symbols[BOS if task.direction.target_tag is None else task.direction.target_tag]
    settings = recipe.translation
    found = translator.translate_ids(
        sentences, start, settings.beam, settings.length_penalty, progress=lambda n: progress("translating", n)
    )
    return ["".join(symbols).replace(" ", "").replace("▁", " ").strip() for symbols in found]


def texts(recipe: Recipe, task: Task, split: str) -> list[tuple[str, str]]:
    """The (source, target) pairs of a split, as the user wrote them, cleaned."""
    pairs = [(clean(p)[0], clean(o)[0]) for _, p, o in Texts(recipe.data).read(task.language, split, Counter())]
    return [(other, pivot) if task.direction.to_pivot else (pivot, other) for pivot, other in pairs]


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def run_score(run: Path, split: str = "test", *, quiet: bool = False) -> dict[str, object]:
    """Scores the translations of a split, translated first if they are not there; writes scores.json."""
    recipe = recipe_of(run)
    prepared = Prepared.open(recipe.prepared)
    made = _scored(_tasks_of(run, recipe, prepared), prepared, split)
    stems = {name: run / "translations" / f"{split}.{task.source}-{task.target}" for name, task in made.items()}
    of = run / "translations" / f"{split}.checkpoint"
    if not of.exists() or of.read_text(encoding="utf-8") != _checkpoints(run, made):
        run_translate(run, split)
    systems = {
        name: (read_lines(Path(f"{stem}.txt")), read_lines(Path(f"{stem}.reference.txt")))
        for name, stem in stems.items()
    }
    hrls = [name for name, task in made.items() if task.language in recipe.data.high_resource]
    scores = score(systems, high_resource=hrls, low_resource=[name for name in made if name not in hrls])
    text = json.dumps(scores, indent=1, ensure_ascii=False, allow_nan=False)
    (run / "scores.json").write_text(text + "\n", encoding="utf-8")
    if not quiet:
        _print(scores)
    return scores


def _print(scores: dict[str, object]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("", "BLEU", "95 %", "chrF"):
        table.add_column(head, justify="right" if head else "left")
    languages: dict[str, dict[str, float]] = scores["languages"]  # type: ignore[assignment]
    for name, row in languages.items():
        interval = f"{row['bleu_low']:.1f}-{row['bleu_high']:.1f}"
        table.add_row(name, f"{row['bleu']:.1f}", interval, f"{row['chrf']:.1f}")
    means: dict[str, float | None] = scores["means"]  # type: ignore[assignment]
    for name, value in means.items():
        table.add_row(name, "-" if value is None else f"{value:.1f}", style="dim")
    Console().print(table)


def run_report(run: Path) -> Path:
    """The page of a run."""
    try:
        return write_report(run)
    except ValueError as error:
        raise ConfigError(str(error)) from None
