"""Subwords: one SentencePiece model per language, and one vocabulary of all their pieces per side."""

import io
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from cclm.data.filtering import Rules, filter_pairs
from cclm.data.model_tokenizer import ModelTokenizer, TokenizerSide
from cclm.data.readers.source import Decoded
from cclm.data.texts import Texts, digest
from cclm.data.workers import Workers
from cclm.errors import DataError
from cclm.formats.prepared import Layout, VocabularyFile
from cclm.progress_bar import Progress
from cclm.recipe.schema import VocabularySection
from cclm.rng import key, uniform

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")


def tag(language: str) -> str:
    """The tag of a language as a vocabulary symbol. In text, the same characters are ordinary text."""
    return f"<2{language}>"


class Segmenter:
    """A SentencePiece model. Its ids are not those of the vocabulary; 0 is the unknown piece."""

    def __init__(self, path: Path) -> None:
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
        except (OSError, RuntimeError) as error:
            raise DataError(f"{path}: not a SentencePiece model ({reason_of(error)})") from None

    @property
    def pieces(self) -> list[str]:
        """The piece of each id; the unknown piece is the empty string."""
        sp = self._processor
        return ["" if sp.is_unknown(i) else sp.id_to_piece(i) for i in range(sp.get_piece_size())]

    @property
    def scores(self) -> dict[str, float]:
        """The logarithm of the probability of each piece, without the unknown piece."""
        sp = self._processor
        return {sp.id_to_piece(i): sp.get_score(i) for i in range(sp.get_piece_size()) if not sp.is_unknown(i)}

    def encode(self, texts: list[str]) -> list[list[int]]:
        """The ids of each text."""
        if len(texts) < 64:  # for a list, SentencePiece starts a thread, which takes longer than a few sentences
            return [self._processor.encode(text) for text in texts]
        ids: list[list[int]] = self._processor.encode(texts, num_threads=1)
        return ids

    def normalize(self, text: str) -> str:
        """The text as the model normalises it: NFKC, single spaces."""
        normalized: str = self._processor.normalize(text)
        return normalized.replace("▁", " ").strip()


SubwordModel = Path | TokenizerSide
"""What splits the text of a language: a SentencePiece model, or the tokenizer of a pretrained model."""


def segmenter_of(model: SubwordModel) -> Segmenter | ModelTokenizer:
    """Loads a subword model."""
    return Segmenter(model) if isinstance(model, Path) else model.load()


def reason_of(error: Exception) -> str:
    """The last line of a SentencePiece error, which is the reason; the lines before it point into its source."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


@dataclass(frozen=True)
class Vocabulary:
    """All symbols of one side of the model: special symbols, language tags, then pieces by decreasing frequency."""

    symbols: tuple[str, ...]
    tags: dict[str, int]
    counts: tuple[int, ...]
    """The count of each piece in the training text; 0 for special symbols and tags."""
    layout: Layout | None = None
    """Of the vocabulary of a pretrained model, whose special symbols are not ours."""

    @classmethod
    def join(cls, counts: Iterable[Mapping[str, int]], languages: Sequence[str]) -> "Vocabulary":
        """The union of the pieces of several models, given as counts. A piece that two languages share is one symbol.

        Pieces that do not occur in the segmented training text are included: without them, known characters of new
        sentences would become unknown.
        """
        total: dict[str, int] = {}
        for table in counts:
            for piece, count in table.items():
                total[piece] = total.get(piece, 0) + count
        reserved = (*SPECIALS, *(tag(lang) for lang in languages))
        pieces = sorted(total.keys() - {""}, key=lambda piece: (-total[piece], piece))
        tags = {lang: len(SPECIALS) + i for i, lang in enumerate(languages)}
        # "<s>" or "<2aze>" may occur in the text often enough to become a piece. A space at its end keeps such a piece
        # distinct from the reserved symbol; other pieces never contain a space.
        symbols = (piece + " " if piece in reserved else piece for piece in pieces)
        return cls((*reserved, *symbols), tags, (*[0] * len(reserved), *(total[piece] for piece in pieces)))

    def grown(self, counts: Iterable[Mapping[str, int]], languages: Sequence[str]) -> "Vocabulary":
        """This vocabulary with the tags of new languages and the pieces that it lacks after all of its own symbols.

        Ids of the old symbols stay what they are, and so do their counts.
        """
        more = Vocabulary.join(counts, languages)
        tags = [lang for lang in languages if lang not in self.tags]
        pieces = [
            (symbol, count)
            for symbol, count in list(zip(more.symbols, more.counts, strict=True))[more._first_piece :]
            if symbol.rstrip(" ") not in self.ids
        ]
        size = len(self.symbols)
        return Vocabulary(
            (*self.symbols, *map(tag, tags), *(symbol for symbol, _ in pieces)),
            {**self.tags, **{lang: size + i for i, lang in enumerate(tags)}},
            (*self.counts, *[0] * len(tags), *(count for _, count in pieces)),
        )

    def __len__(self) -> int:
        return len(self.symbols)

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of each piece, without special symbols and tags."""
        reserved = {*range(len(SPECIALS)), *self.tags.values()}
        return {symbol.rstrip(" "): i for i, symbol in enumerate(self.symbols) if i not in reserved}

    @property
    def _first_piece(self) -> int:
        return len(SPECIALS) + len(self.tags)

    def table(self, segmenter: Segmenter) -> NDArray[np.uint32]:
        """Maps the ids of a SentencePiece model to ids of this vocabulary."""
        return np.array([self.ids.get(piece, UNK) for piece in segmenter.pieces], dtype=np.uint32)

    def tag_id(self, language: str) -> int:
        """The id of a language's tag."""
        if language not in self.tags:
            raise DataError(f"no tag for {language!r} in the vocabulary; known languages: {', '.join(self.tags)}")
        return self.tags[language]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of a sequence of ids. Special symbols and tags are omitted, except that unknown pieces become ⁇."""
        hidden = {*range(len(SPECIALS)), *self.tags.values()}
        pieces = ["⁇" if i == UNK else "" if i in hidden else self.symbols[i] for i in ids]
        return "".join(pieces).replace(" ", "").replace("▁", " ").strip()

    def file(self) -> VocabularyFile:
        """The vocabulary as a file."""
        symbols = list(zip(self.symbols, self.counts, strict=True))
        return VocabularyFile(tags=self.tags, symbols=symbols, layout=self.layout)

    @classmethod
    def of(cls, file: VocabularyFile) -> "Vocabulary":
        """The vocabulary in a file."""
        symbols, counts = zip(*file.symbols, strict=True)
        return cls(symbols, file.tags, counts, file.layout)


THREADS = 4
"""Threads of SentencePiece's trainer. Fixed, because the order of its floating-point sums depends on it."""
PASSAGE = 8
"""Number of consecutive sentences that are compared to detect a repeated passage."""
REPEATED = 10_000
"""The maximum length of a repeated passage in the text for SentencePiece, in characters. Its running time grows with
the square of this length (measured: 0.4 s for 6,000 characters, 7 s for 24,000)."""


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
        """The number of sentences to learn from."""
        return sum(side.pairs for side in self.sides)


def learn_models(
    folder: Path,
    settings: VocabularySection,
    rules: Rules,
    sizes: dict[str, int],
    workers: Workers,
    progress: Progress,
) -> dict[str, Path]:
    """Learns all models of a recipe and writes them into the folder; returns the path of each language's model.

    `sizes` is the number of training pairs per language.
    """
    folder.mkdir()
    pivot = rules.settings.pivot
    if settings.joint:
        sides = {"joint": [Side(lang, is_pivot, size) for lang, size in sizes.items() for is_pivot in (False, True)]}
    else:
        sides = {lang: [Side(lang, False, size)] for lang, size in sizes.items()}
        sides[pivot] = [Side(lang, True, size) for lang, size in sizes.items()]
    tasks = [ModelTask(name, tuple(text), settings, rules, folder / f"{name}.model") for name, text in sides.items()]
    tasks.sort(key=lambda task: -task.sentences)  # longest first, which keeps all cores busy
    progress("learning subwords", 0)  # shown at once, because the first model may take minutes
    for _ in workers.map(_learn, tasks):
        progress("learning subwords", 1)
    return {lang: folder / f"{'joint' if settings.joint else lang}.model" for lang in (*sizes, pivot)}


def _learn(task: ModelTask) -> None:
    settings = task.settings
    model = train_model(
        _Sample(task), pieces=settings.pieces, character_coverage=settings.character_coverage, name=task.name
    )
    task.path.write_bytes(model)


@dataclass(frozen=True)
class _Sample:
    """The training text of a model; a uniform sample if it has more than `vocabulary.sample` sentences."""

    task: ModelTask

    def __iter__(self) -> Iterator[str]:
        task = self.task
        texts = Texts(task.rules.settings)
        share = task.settings.sample / max(1, task.sentences)
        for side in task.sides:
            sample_key = key(task.rules.settings.seed, "vocabulary", task.name, side.language)
            for chunk in texts.chunks(side.language, "train"):
                pairs = chunk.pairs(Counter())
                chosen = [pair for pair in pairs if share >= 1 or uniform(sample_key, pair[0]) < share]
                kept, _ = filter_pairs(Decoded(chosen), side.language, "train", task.rules)
                yield from (pivot if side.is_pivot else other for _, pivot, other in kept)


def limit_repeats(sentences: Iterable[str]) -> Iterator[str]:
    """Omits sentences that continue a repeated passage beyond `REPEATED` characters.

    SentencePiece sorts all suffixes of the text. The time for this grows with the square of the length of a repeated
    passage: one sentence repeated 10,000 times in a row takes hours. Isolated repeated sentences are not a problem and
    are kept.
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


def train_model(sentences: Iterable[str], *, pieces: int, character_coverage: float, name: str) -> bytes:
    """Trains a unigram SentencePiece model of at most `pieces` pieces; fewer if the text is too small for as many.

    It has more pieces if the text has more distinct characters, because each one needs a piece. In that case the
    sentences are iterated over twice.
    """
    try:
        return _train(sentences, pieces, character_coverage, name)
    except RuntimeError as error:
        # SentencePiece reports this after counting characters, before the slow part of its work.
        if too_few := _TOO_FEW_PIECES.search(str(error)):
            return _train(sentences, int(too_few[1]), character_coverage, name)
        raise DataError(f"SentencePiece could not learn the subwords of {name}: {reason_of(error)}") from None


_TOO_FEW_PIECES = re.compile(r"smaller than required_chars\. \d+ vs (\d+)")


def _train(sentences: Iterable[str], pieces: int, character_coverage: float, name: str) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=_nonempty(limit_repeats(sentences), name),
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


def _nonempty(sentences: Iterable[str], name: str) -> Iterator[str]:
    empty = True
    for sentence in sentences:
        empty = False
        yield sentence
    if empty:
        raise DataError(f"no text to learn the subwords of {name} from")
