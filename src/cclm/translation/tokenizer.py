"""Stock Hugging Face tokenizers that segment as SentencePiece does, over the one table of an exported model."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sentencepiece

from cclm.data.cleaning import REMOVED, SEPARATORS
from cclm.data.vocabulary import BOS, EOS, PAD, UNK

_NORMALIZER_SPEC, _CHARSMAP = 3, 2
"""Field numbers in sentencepiece_model.proto: ModelProto.normalizer_spec, NormalizerSpec.precompiled_charsmap."""


_GUARDED = {"\ufe0e": "\ufdd0", "\ufe0f": "\ufdd1", "\u200d": "\ufdd2"}
"""Variation selectors and the joiner of emoji, and code points that are no characters to stand for them meanwhile."""


@dataclass(frozen=True)
class Table:
    """The symbols of both sides in one table, as M2M100 has it; `symbol` names each row.

    Target symbols come first, with <s> and <pad> exchanged: M2M100 counts positions from its padding id, and ours begin
    with 2. Source symbols follow, unless both sides share a vocabulary.
    """

    target: tuple[str, ...]
    source: tuple[str, ...]
    joint: bool
    reserved: int
    """The number of special symbols and tags at the beginning of either side."""

    def __len__(self) -> int:
        return len(self.target) + (0 if self.joint else len(self.source))

    def target_id(self, number: int) -> int:
        """The row of a target symbol."""
        return {PAD: BOS, BOS: PAD}.get(number, number)

    def source_id(self, number: int) -> int:
        """The row of a source symbol."""
        return self.target_id(number) if self.joint else len(self.target) + number

    @property
    def source_rows(self) -> range:
        """The rows that are never generated: those of a source vocabulary."""
        return range(len(self.target), len(self))

    @property
    def source_pieces(self) -> range:
        """The rows of source symbols that are text."""
        return range(self.source_id(self.reserved), len(self))

    def names(self) -> list[str]:
        """The symbol of each row."""
        target = [self.target[self.target_id(row)] for row in range(len(self.target))]
        return target if self.joint else [*target, *self.source]


@dataclass(frozen=True)
class PairTokens:
    """The rows that a pair of languages puts around its text."""

    tag: int | None
    """Before every source."""
    start: int
    """The first row of every target."""


def tokenizer_of(model: Path, table: Table, pair: PairTokens) -> Any:
    """A `transformers.PreTrainedTokenizerFast` for sources of a pair, and for the targets that are generated.

    Its Unigram model has one entry per row of the table. Pieces of the source language are spelt as they are. All other
    entries end with a space, which segmented text never contains: they are out of reach, and only decoded.
    """
    import tokenizers
    from transformers import PreTrainedTokenizerFast

    subwords = sentencepiece.SentencePieceProcessor(model_file=str(model))
    entries = _entries(subwords, table)
    backend = tokenizers.Tokenizer(tokenizers.models.Unigram(entries, unk_id=table.source_id(UNK)))
    backend.normalizer = _normalizer(subwords)
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    backend.decoder = _decoder()
    names = [name for name, _ in entries]
    before = [] if pair.tag is None else [pair.tag]
    around = [*before, table.source_id(EOS)]
    backend.post_processor = tokenizers.processors.TemplateProcessing(
        single=[*(f"{row}" for row in before), "$A", f"{around[-1]}"],
        special_tokens=[{"id": f"{row}", "ids": [row], "tokens": [names[row]]} for row in around],
    )
    backend.add_special_tokens([names[row] for row in (*range(table.reserved), *around, table.source_id(UNK))])
    special = {f"{name}_token": names[table.target_id(number)] for name, number in (("eos", EOS), ("pad", PAD))}
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=backend,
        bos_token=names[pair.start],
        unk_token=names[table.source_id(UNK)],
        **special,
        split_special_tokens=True,  # "</s>" in a text is text
        clean_up_tokenization_spaces=False,
        model_max_length=1024,
    )


def _entries(subwords: Any, table: Table) -> list[tuple[str, float]]:
    """Spelling and score of each row. Scores out of reach are 0: the lowest score decides what an unknown one costs."""
    symbols = table.names()
    rows = {symbols[row].rstrip(" "): row for row in table.source_pieces}
    names: list[str | None] = [None] * len(table)
    scores = [0.0] * len(table)
    for number in range(subwords.get_piece_size()):
        row = None if subwords.is_unknown(number) else rows.get(subwords.id_to_piece(number))
        if row is not None:
            names[row], scores[row] = subwords.id_to_piece(number), subwords.get_score(number)
    taken = {name for name in names if name is not None}
    for row, symbol in enumerate(symbols):
        if names[row] is None:
            spelt = f"{symbol.rstrip(' ')} "
            while spelt in taken:
                spelt += " "
            names[row] = spelt
            taken.add(spelt)
    return [(name or "", score) for name, score in zip(names, scores, strict=True)]


def _normalizer(subwords: Any) -> Any:
    """`cclm.data.cleaning.clean` and SentencePiece's normaliser, as far as stock normalisers can.

    `Precompiled` handles a base character with its marks as one: after a base that has a mapping of its own, such as a
    ligature, it drops the marks, and of several marks it sees one. NFC first leaves hardly any such text, and what
    emoji consist of is replaced meanwhile. White space at the end includes ▁ itself, as in SentencePiece.
    """
    from tokenizers import Regex, normalizers

    charsmap = _field(_field(subwords.serialized_model_proto(), _NORMALIZER_SPEC), _CHARSMAP)
    steps: list[Any] = [
        normalizers.Replace(Regex(f"[{REMOVED}]"), ""),
        normalizers.Replace(Regex(f"[{SEPARATORS}]"), " "),
        normalizers.NFC(),
        *(normalizers.Replace(character, other) for character, other in _GUARDED.items()),
        *([normalizers.Precompiled(charsmap)] if charsmap else []),
        *(normalizers.Replace(other, character) for character, other in _GUARDED.items()),
        normalizers.Replace(Regex(" +"), " "),
        normalizers.Replace(Regex("^ "), ""),
        normalizers.Replace(Regex("[ ▁]+$"), ""),
    ]
    return normalizers.Sequence(steps)


def _decoder() -> Any:
    """As in `Vocabulary.decode`: the spaces of spellings go, ▁ becomes a space."""
    from tokenizers import Regex, decoders

    at_the_ends = decoders.Replace(Regex("^ +| +$"), "")
    return decoders.Sequence([decoders.Replace(" ", ""), decoders.Replace("▁", " "), decoders.Fuse(), at_the_ends])


def _field(message: bytes, number: int) -> bytes:
    """A field of bytes in a protobuf message; empty if it is not there."""
    found, position = b"", 0
    while position < len(message):
        key, position = _varint(message, position)
        match key & 7:
            case 0:
                _, position = _varint(message, position)
            case 1:
                position += 8
            case 5:
                position += 4
            case 2:
                length, position = _varint(message, position)
                if key >> 3 == number:
                    found = message[position : position + length]
                position += length
    return found


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """A number, and the position after it."""
    value = shift = 0
    while True:
        byte = message[position]
        value |= (byte & 127) << shift
        shift, position = shift + 7, position + 1
        if byte < 128:
            return value, position


def segmented(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """The rows of each text, with tag and </s>."""
    rows: list[list[int]] = tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]
    return rows
