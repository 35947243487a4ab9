"""The tokenizer of a pretrained model, and the codes by which the model knows languages."""

import difflib
import logging
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from cclm.data.pretrained import PretrainedFolder
from cclm.errors import ConfigError, DataError
from cclm.formats.prepared import Layout
from cclm.recipe.language_codes import canonical

FORMS = {
    "nllb": (r"[a-z]{3}_[A-Z][a-z]{3}", "{}_Zyyy"),
    "m2m_100": (r"__[a-z]{2,8}__", "__{}__"),
    "mbart": (r"[a-z]{2,3}_[A-Z]{2}", "{}_ZZ"),
    "marian": (r">>[A-Za-z_-]+<<", ">>{}<<"),
}
"""What a language code looks like as a symbol, and how a new one is named. Zyyy and ZZ: script and country unknown."""
# Languages that NLLB knows by another code: the member of a macrolanguage that most text is in.
_MEMBERS = {
    "ara": "arb", "aym": "ayr", "aze": "azj", "din": "dik", "fas": "pes", "ful": "fuv", "kau": "knc", "kur": "kmr",
    "lav": "lvs", "mlg": "plt", "mon": "khk", "msa": "zsm", "nep": "npi", "nor": "nob", "ori": "ory", "orm": "gaz",
    "pus": "pbt", "que": "quy", "sqi": "als", "swa": "swh", "uzb": "uzn", "yid": "ydd",
}  # fmt: skip
_SCRIPTS = ("Latn", "Hans")
"""Preferred where a model knows a language in several scripts."""


@dataclass(frozen=True)
class Code:
    """The symbol by which a model knows a language."""

    symbol: str
    id: int
    is_new: bool = False


class ModelTokenizer:
    """The tokenizer in a folder. Ids are the model's; special symbols in the text are unknown subwords.

    `target` chooses the subwords of the target side, which differ in Marian.
    """

    def __init__(self, folder: Path, *, target: bool = False) -> None:
        self._folder, self._target = folder, target
        self._size = PretrainedFolder.read(folder).symbols
        self._tokenizer = _load(folder)

    @cached_property
    def kind(self) -> str:
        """The form of its language codes, a key of FORMS."""
        name = type(self._tokenizer).__name__
        kinds = {"M2M100Tokenizer": "m2m_100", "MarianTokenizer": "marian", "MBart50Tokenizer": "mbart"}
        kind = kinds.get(name.removesuffix("Fast"), "nllb" if name.startswith("Nllb") else None)
        if kind is None:
            raise ConfigError(f"model.pretrained: the tokenizer {name} of {self._folder} is not known")
        return kind

    @cached_property
    def codes(self) -> dict[str, int]:
        """All language codes of the model, by symbol."""
        if self.kind == "m2m_100":  # its codes are not in its vocabulary
            return dict(self._tokenizer.lang_token_to_id)
        form = re.compile(FORMS[self.kind][0])
        found = {symbol: number for symbol, number in self._tokenizer.get_vocab().items() if form.fullmatch(symbol)}
        return dict(sorted(found.items(), key=lambda item: item[1]))

    @cached_property
    def symbols(self) -> list[str]:
        """The symbol of each id of the model; rows of the embedding without a symbol have a made-up one."""
        named = {number: symbol for symbol, number in {**self._tokenizer.get_vocab(), **self.codes}.items()}
        return [named.get(number, f"madeupword{number}") for number in range(self._size)]

    @cached_property
    def pieces(self) -> list[str]:
        """The subword of each id; an empty string for special symbols and language codes, which no text has."""
        return ["" if number in self._reserved else symbol for number, symbol in enumerate(self.symbols)]

    @property
    def special(self) -> dict[str, int]:
        """Special symbols and codes, which are not text, with their ids."""
        return {self.symbols[number]: number for number in sorted(self._reserved)}

    @cached_property
    def _reserved(self) -> frozenset[int]:
        return frozenset({*self._tokenizer.all_special_ids, *self.codes.values()})

    def encode(self, texts: list[str]) -> list[list[int]]:
        """The ids of each text, without language codes and </s>."""
        if not texts:
            return []
        # Special symbols that are written in a text would otherwise be special there, too: `</s>` would end a sentence.
        options = {"add_special_tokens": False, "split_special_tokens": True}
        given = {"text_target": texts} if self._target else {"text": texts}
        rows: list[list[int]] = self._tokenizer(**given, **options)["input_ids"]
        unknown = int(self._tokenizer.unk_token_id)
        return [[unknown if number in self._reserved else number for number in row] for row in rows]

    def text(self, symbols: Sequence[str]) -> str:
        """The text of a translation, as transformers decodes it without special symbols."""
        numbers = [self._ids[symbol] for symbol in symbols if symbol in self._ids]
        decoded: str = self._tokenizer.decode(
            [number for number in numbers if number not in self._reserved], clean_up_tokenization_spaces=False
        )
        return decoded.strip()

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {symbol: number for number, symbol in enumerate(self.symbols)}

    def layout(self, config: Mapping[str, Any], new: Mapping[str, str]) -> Layout:
        """Where the model wants special symbols and codes."""
        tokenizer = self._tokenizer
        pad, end = int(tokenizer.pad_token_id), int(tokenizer.eos_token_id)
        is_marian = self.kind == "marian"
        start = config.get("decoder_start_token_id")
        place: Any = "both" if not is_marian else "source" if self.codes or new else "none"
        return Layout(
            pad=pad,
            start=int(start) if start is not None else pad if is_marian else end,
            end=end,
            unknown=int(tokenizer.unk_token_id),
            codes=place,
            **({"new": dict(new)} if new else {}),
        )


@dataclass(frozen=True)
class TokenizerSide:
    """One side of a tokenizer, to be loaded by a worker process."""

    folder: Path
    target: bool

    def load(self) -> ModelTokenizer:
        """The tokenizer. One of a real model takes a second to load and is kept."""
        return _loaded(self)


@lru_cache(maxsize=2)
def _loaded(side: TokenizerSide) -> ModelTokenizer:
    return ModelTokenizer(side.folder, target=side.target)


def codes_of(tokenizer: ModelTokenizer, languages: Sequence[str], given: Mapping[str, str]) -> dict[str, Code]:
    """The code of each language; a language that the model does not know gets a new one, after all of the model's."""
    if not tokenizer.codes and tokenizer.kind != "marian":
        raise ConfigError(
            "model.pretrained: its tokenizer knows no language codes; the files of the tokenizer are incomplete"
            " (transformers 5 does not add NLLB's codes to a bare SentencePiece model: tokenizer.json has them)"
        )
    found: dict[str, Code] = {}
    for lang in languages:
        symbol = _given(given[lang], tokenizer, lang) if lang in given else _known(lang, tokenizer.codes)
        symbol = symbol or FORMS[tokenizer.kind][1].format(lang.lower().replace(".", "-"))
        if symbol in tokenizer.codes:
            found[lang] = Code(symbol, tokenizer.codes[symbol])
        else:
            found[lang] = Code(
                symbol, len(tokenizer.symbols) + sum(code.is_new for code in found.values()), is_new=True
            )
    same = [lang for lang in found if [code.symbol for code in found.values()].count(found[lang].symbol) > 1]
    if same:
        raise ConfigError(f"{' and '.join(same)} have one code in the model, {found[same[0]].symbol}; set model.codes")
    return found


def _given(code: str, tokenizer: ModelTokenizer, lang: str) -> str:
    """The symbol of a code that the user has set: as a symbol, or without the underscores or brackets around it."""
    form, name = FORMS[tokenizer.kind]
    for symbol in (code, name.format(code)):
        if symbol in tokenizer.codes:
            return symbol
    for symbol in (code, name.format(code)):
        if re.fullmatch(form, symbol):
            return symbol
    near = difflib.get_close_matches(code, tokenizer.codes, n=3) or list(tokenizer.codes)[:3]
    raise ConfigError(f"model.codes.{lang}: {code!r} is not a code of this model; similar codes: {', '.join(near)}")


def _known(lang: str, codes: Mapping[str, int]) -> str | None:
    """The code of a language, under any spelling; of several scripts, the one in its name or the usual one."""
    for name in (lang, canonical(lang), _MEMBERS.get(canonical(lang))):
        fitting = [symbol for symbol in codes if name and canonical(_bare(symbol)) == canonical(name)]
        if len(fitting) > 1:
            script = [symbol for symbol in fitting if _bare(symbol).lower() == lang.lower().replace("-", "_")]
            usual = [symbol for want in _SCRIPTS for symbol in fitting if want in symbol]
            fitting = (script or usual or fitting)[:1]
        if fitting:
            return fitting[0]
    return None


def _bare(symbol: str) -> str:
    return symbol.strip("_<>")


def most_similar(lang: str, counts: Mapping[str, Mapping[str, int]], candidates: Sequence[str], k: int) -> str | None:
    """The candidate that shares most of its k most frequent subwords with a language; None without candidates.

    As in the language graph, k is at most the number of subwords of the language that has fewest.
    """
    k = min([k, *map(len, counts.values())])
    top = {name: set(sorted(counts[name], key=lambda piece: (-counts[name][piece], piece))[:k]) for name in counts}
    return max(candidates, key=lambda name: len(top[lang] & top[name]), default=None)


def _load(folder: Path) -> Any:
    try:
        with quiet():
            from transformers import AutoTokenizer

            return AutoTokenizer.from_pretrained(folder)
    except ImportError as missing:
        raise ConfigError(f"model.pretrained needs {missing.name}: pip install 'ccl-m[hf]'") from None
    except Exception as error:  # the tokenizers library raises no other class
        raise DataError(f"{folder}: its tokenizer cannot be loaded: {str(error).splitlines()[0][:200]}") from None


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps transformers from printing: about sacremoses, which Marian's tokenizer does not need here."""
    from transformers.utils import logging as chatter

    verbosity = chatter.get_verbosity()
    chatter.set_verbosity(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        chatter.set_verbosity(verbosity)
