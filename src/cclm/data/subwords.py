"""Learning the subwords: one SentencePiece model per language, or one for all, from a sample of the training text."""

import io
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import sentencepiece

from cclm.data.examine import CHUNK, Rules, examine
from cclm.data.texts import Texts, digest
from cclm.data.vocabulary import reason_of
from cclm.data.workers import Workers, chunked
from cclm.errors import DataError
from cclm.progress_bar import Progress
from cclm.recipe.schema import VocabularySection
from cclm.rng import key, uniform

THREADS = 4
"""Threads of SentencePiece's trainer, the same on every machine: its sums, and so its models, depend on it."""


PASSAGE = 8
"""Sentences in a row that make a passage."""
REPEATED = 10_000
"""Characters of a repeated passage that a model learns from. SentencePiece takes about one second for a repeated
passage of this length (measured: 0.4 s for 6,000 characters, 7 s for 24,000), and more with the square of it."""


@dataclass(frozen=True)
class Side:
    """One side of the training text of a language."""

    language: str
    is_pivot: bool
    pairs: int


@dataclass(frozen=True)
class ModelTask:
    """A SentencePiece model to learn."""

    name: str
    sides: tuple[Side, ...]
    settings: VocabularySection
    rules: Rules
    path: Path

    @property
    def sentences(self) -> int:
        """How many sentences there are to learn from."""
        return sum(side.pairs for side in self.sides)


def learn_models(
    folder: Path,
    settings: VocabularySection,
    rules: Rules,
    sizes: dict[str, int],
    workers: Workers,
    progress: Progress,
) -> dict[str, Path]:
    """Learns all models of a recipe into the folder; gives the model of each language. `sizes`: training pairs."""
    folder.mkdir()
    pivot = rules.settings.pivot
    if settings.joint:
        sides = {"joint": [Side(lang, is_pivot, size) for lang, size in sizes.items() for is_pivot in (False, True)]}
    else:
        sides = {lang: [Side(lang, False, size)] for lang, size in sizes.items()}
        sides[pivot] = [Side(lang, True, size) for lang, size in sizes.items()]
    tasks = [ModelTask(name, tuple(of), settings, rules, folder / f"{name}.model") for name, of in sides.items()]
    tasks.sort(key=lambda task: -task.sentences)  # the longest first keeps all cores busy
    progress("learning subwords", 0)  # the first model may take minutes
    for _ in workers.map(_learn, tasks):
        progress("learning subwords", 1)
    return {lang: folder / f"{'joint' if settings.joint else lang}.model" for lang in (*sizes, pivot)}


def _learn(task: ModelTask) -> None:
    settings = task.settings
    model = train_model(
        _Sample(task), pieces=settings.pieces, character_coverage=settings.character_coverage, what=task.name
    )
    task.path.write_bytes(model)


@dataclass(frozen=True)
class _Sample:
    """The training text of a model, or an even sample of it where it has more than `vocabulary.sample` sentences."""

    task: ModelTask

    def __iter__(self) -> Iterator[str]:
        task = self.task
        texts = Texts(task.rules.settings)
        share = task.settings.sample / max(1, task.sentences)
        for side in task.sides:
            chance = key(task.rules.settings.seed, "vocabulary", task.name, side.language)
            pairs = texts.read(side.language, "train", Counter())
            chosen = (pair for pair in pairs if share >= 1 or uniform(chance, pair[0]) < share)
            for chunk in chunked(chosen, CHUNK):
                kept, _ = examine(chunk, side.language, "train", task.rules)
                yield from (pivot if side.is_pivot else other for _, pivot, other in kept)


def limit_repeats(sentences: Iterable[str]) -> Iterator[str]:
    """The sentences without those that continue a repeated passage beyond `REPEATED` characters.

    SentencePiece sorts the suffixes of the whole text by comparing them, which takes time with the square of the length
    of a repeated passage: one sentence 10,000 times in a row takes hours. Single sentences that are repeated here and
    there take no longer than any text, and are all used.
    """
    seen: set[int] = set()
    window: deque[int] = deque(maxlen=PASSAGE)
    repeated = 0
    for sentence in sentences:
        window.append(digest(sentence))
        passage = hash(tuple(window))
        repeated = repeated + len(sentence) if passage in seen else 0
        seen.add(passage)
        if repeated <= REPEATED:
            yield sentence


def train_model(sentences: Iterable[str], *, pieces: int, character_coverage: float, what: str) -> bytes:
    """A unigram SentencePiece model of at most `pieces` pieces; fewer where the text does not support as many.

    It has more pieces where the text has more characters than that: every character needs one. The sentences are then
    iterated over twice.
    """
    try:
        return _train(sentences, pieces, character_coverage, what)
    except RuntimeError as error:
        # It fails when it has counted the characters, before the long part of its work.
        if too_few := _TOO_FEW_PIECES.search(str(error)):
            return _train(sentences, int(too_few[1]), character_coverage, what)
        raise DataError(f"SentencePiece could not learn the subwords of {what}: {reason_of(error)}") from None


_TOO_FEW_PIECES = re.compile(r"smaller than required_chars\. \d+ vs (\d+)")


def _train(sentences: Iterable[str], pieces: int, character_coverage: float, what: str) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=_nonempty(limit_repeats(sentences), what),
        model_writer=model,
        model_type="unigram",
        vocab_size=pieces,
        hard_vocab_limit=False,
        character_coverage=character_coverage,
        unk_id=0,
        bos_id=-1,
        eos_id=-1,
        pad_id=-1,
        num_threads=THREADS,
        max_sentence_length=1 << 20,
        minloglevel=2,
    )
    return model.getvalue()


def _nonempty(sentences: Iterable[str], what: str) -> Iterator[str]:
    empty = True
    for sentence in sentences:
        empty = False
        yield sentence
    if empty:
        raise DataError(f"no text to learn the subwords of {what} from")
