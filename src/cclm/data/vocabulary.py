"""Vocabularies: one per side, the union of the pieces of its SentencePiece models; language tags are reserved ids."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from cclm.errors import DataError
from cclm.formats.prepared import VocabularyFile

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")


def tag(language: str) -> str:
    """The symbol of a language's tag in a vocabulary. In a text, the same characters are ordinary text."""
    return f"<2{language}>"


class Segmenter:
    """A SentencePiece model: text to its own numbers and back. 0 is the unknown piece."""

    def __init__(self, path: Path) -> None:
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
        except (OSError, RuntimeError) as error:
            raise DataError(f"{path}: not a SentencePiece model ({reason_of(error)})") from None

    @property
    def pieces(self) -> list[str]:
        """The piece of each number; the unknown piece is empty."""
        sp = self._processor
        return ["" if sp.is_unknown(i) else sp.id_to_piece(i) for i in range(sp.get_piece_size())]

    def encode(self, texts: list[str]) -> list[list[int]]:
        """The numbers of each text."""
        numbers: list[list[int]] = self._processor.encode(texts, num_threads=1)
        return numbers

    def normalize(self, text: str) -> str:
        """The text as the model sees it: NFKC, single spaces."""
        normal: str = self._processor.normalize(text)
        return normal.replace("▁", " ").strip()


def reason_of(error: Exception) -> str:
    """The last line of a message of SentencePiece: the reason, after the place in its own source."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


@dataclass(frozen=True)
class Vocabulary:
    """Every symbol of one side of the model: specials, tags, then pieces, the most frequent first."""

    symbols: tuple[str, ...]
    tags: dict[str, int]
    counts: tuple[int, ...]
    """How often each piece occurs in the training text; 0 for specials and tags."""

    @classmethod
    def join(cls, counts: Iterable[Mapping[str, int]], languages: Sequence[str]) -> "Vocabulary":
        """The union by piece string of these models' pieces: one that two languages share is one symbol.

        A piece that no training sentence is segmented into stays in: without it, a known character of a new sentence
        would be unknown.
        """
        total: dict[str, int] = {}
        for table in counts:
            for piece, count in table.items():
                total[piece] = total.get(piece, 0) + count
        reserved = (*SPECIALS, *(tag(lang) for lang in languages))
        pieces = sorted(total.keys() - {""}, key=lambda piece: (-total[piece], piece))
        tags = {lang: len(SPECIALS) + i for i, lang in enumerate(languages)}
        # A text may contain "<s>" or "<2aze>" often enough to become a piece. No piece contains a space: with a space
        # at its end such a piece is a symbol of its own, distinct from the reserved one.
        symbols = (piece + " " if piece in reserved else piece for piece in pieces)
        return cls((*reserved, *symbols), tags, (*[0] * len(reserved), *(total[piece] for piece in pieces)))

    def __len__(self) -> int:
        return len(self.symbols)

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of each piece; reserved symbols are not among them."""
        first = len(SPECIALS) + len(self.tags)
        return {symbol.rstrip(" "): first + i for i, symbol in enumerate(self.symbols[first:])}

    def table(self, segmenter: Segmenter) -> NDArray[np.uint32]:
        """From the numbers of a SentencePiece model to ids of this vocabulary."""
        return np.array([self.ids.get(piece, UNK) for piece in segmenter.pieces], dtype=np.uint32)

    def tag_id(self, language: str) -> int:
        """The id of a language's tag."""
        if language not in self.tags:
            raise DataError(f"no tag for {language!r} in the vocabulary; known are {', '.join(self.tags)}")
        return self.tags[language]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of a sequence of ids; reserved symbols have none, unknown pieces show as ⁇."""
        first = len(SPECIALS) + len(self.tags)
        pieces = ["⁇" if i == UNK else self.symbols[i] if i >= first else "" for i in ids]
        return "".join(pieces).replace(" ", "").replace("▁", " ").strip()

    def file(self) -> VocabularyFile:
        """The vocabulary as it is stored."""
        return VocabularyFile(tags=self.tags, symbols=list(zip(self.symbols, self.counts, strict=True)))

    @classmethod
    def of(cls, file: VocabularyFile) -> "Vocabulary":
        """The vocabulary that a file contains."""
        symbols, counts = zip(*file.symbols, strict=True)
        return cls(symbols, file.tags, counts)
