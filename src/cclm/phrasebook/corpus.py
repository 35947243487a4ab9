"""The phrasebook with all its languages, and the parallel corpus generated from it."""

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cclm.atomic import user_output
from cclm.phrasebook.language import PIVOT, Language, read_language
from cclm.phrasebook.templates import (
    EVEN,
    TEMPLATE_SHIFT,
    Filling,
    Renderer,
    Template,
    combinations,
    pick,
    read_templates,
    zipf,
)
from cclm.rng import key, shuffled_many, uniform

CORPUS_VERSION = "0.1.0"
"""The version of cclm that last changed what `generate` makes of the same language files.

It is part of the fingerprint of prepared data, as are the checksums of those files: while it stays, runs of earlier
versions resume. Change it together with the checksum in tests/phrasebook/test_corpus.py.
"""
DIRECTORY = Path(__file__).parent / "languages"


@dataclass(frozen=True)
class Phrasebook:
    """The templates, and one renderer per language."""

    templates: Mapping[str, Template]
    renderers: Mapping[str, Renderer]

    @classmethod
    def load(cls, directory: Path = DIRECTORY, only: str | None = None) -> "Phrasebook":
        """Loads all language files of a folder, or only one of them and English, and checks them against English."""
        paths = sorted(directory.glob("*.txt"))
        if only is not None:
            paths = [path for path in paths if path.stem in (only, PIVOT)]
        languages = {path.stem: read_language(path) for path in paths}
        for needed in (PIVOT, only or PIVOT):
            if needed not in languages:
                raise ValueError(f"{directory} has no {needed}.txt")
        pivot = languages[PIVOT]
        templates = read_templates(pivot)
        for language in languages.values():
            _check_words(language, pivot)
        return cls(templates, {code: Renderer(language, templates) for code, language in languages.items()})

    @property
    def languages(self) -> list[str]:
        """The codes of all languages except English, sorted."""
        return [code for code in self.renderers if code != PIVOT]

    @property
    def names(self) -> dict[str, str]:
        """The English name of each language."""
        return {code: renderer.language.name or code for code, renderer in self.renderers.items()}

    def sentence(self, language: str, template: str, filling: Filling) -> str:
        """The sentence for a filled template in a language."""
        return self.renderers[language].sentence(template, filling)

    def count(self) -> int:
        """The number of different English sentences."""
        return sum(template.count() for template in self.templates.values())


def _check_words(language: Language, pivot: Language) -> None:
    for name, word in language.words.items():
        if name not in pivot.words:
            raise language.error(word.line, f"unknown word {name!r}: it is not in {PIVOT}.txt")
    last = max((word.line for word in language.words.values()), default=0)
    if missing := [name for name in pivot.words if name not in language.words]:
        raise language.error(last, f"{len(missing)} words missing: {', '.join(missing)}")


README, TITLE = "README.md", "# The cclm phrasebook"
"""The file that tells a corpus of ours from a folder of the user's, and its first line."""
SPLITS = ("train", "dev", "test")
HELD_OUT_SHARE = 0.15
SIZES: Mapping[str, tuple[int, int, int]] = {  # train, dev, test
    "tur": (10_000, 400, 400),
    "rus": (12_000, 400, 400),
    "por": (10_000, 400, 400),
    "ces": (6_000, 400, 400),
    "aze": (300, 150, 400),
    "bel": (230, 100, 400),
    "glg": (500, 200, 400),
    "slk": (3_000, 250, 400),
}
OTHER_SIZE = (1_000, 200, 400)  # for languages without an entry in SIZES

Combination = tuple[str, str]
Pair = tuple[str, str]


@dataclass(frozen=True)
class Split:
    """Pairs (English, other), and for each pair whether it has a combination that is held out of training."""

    pairs: tuple[Pair, ...]
    held_out: tuple[bool, ...]


@dataclass(frozen=True)
class Corpus:
    """The splits of each language."""

    seed: int
    splits: Mapping[str, Mapping[str, Split]]


@dataclass(frozen=True)
class Row:
    """Statistics of one language: sizes, held-out test pairs, and test sentences one word away from training."""

    language: str
    name: str
    train: int
    dev: int
    test: int
    test_held_out: int
    test_near_share: float


def held_out_combinations(book: Phrasebook, seed: int) -> frozenset[Combination]:
    """A random 15 % of the (template, word) combinations. A word's first template is never held out, so that each word
    occurs in training."""
    pairs = combinations(book.templates)
    first = {word: name for name, word in reversed(pairs)}
    candidates = [pair for pair in pairs if first[pair[1]] != pair[0]]
    ranked = sorted(candidates, key=lambda pair: (key(seed, "held out", *pair), pair))
    return frozenset(ranked[: round(HELD_OUT_SHARE * len(pairs))])


def generate(book: Phrasebook, *, seed: int = 1, sizes: Mapping[str, tuple[int, int, int]] | None = None) -> Corpus:
    """Generates a corpus in which no English sentence occurs twice. `sizes` are (train, dev, test) per language."""
    sizes = _sizes(book, sizes)
    held_out = held_out_combinations(book, seed)
    slots = [
        (lang, split)
        for lang, counts in sorted(sizes.items())
        for split, count in zip(SPLITS, counts, strict=True)
        for _ in range(count)
    ]
    pairs: dict[tuple[str, str], list[tuple[Pair, bool]]] = {(lang, split): [] for lang in sizes for split in SPLITS}
    meanings = _Meanings(book, seed, held_out, limit=1000 + 20 * len(slots))
    # Slots are filled in random order: earlier sentences are more common, and no set should get all of them.
    for slot in shuffled_many(np.arange(len(slots)), len(slots), key(seed, "seats")).tolist():
        lang, split = slots[slot]
        name, filling, english = meanings.next(split)
        is_held_out = split != "train" and any(word and (name, word.key) in held_out for word in filling)
        pairs[lang, split].append(((english, book.sentence(lang, name, filling)), is_held_out))
    return Corpus(seed, {lang: {split: _split(pairs[lang, split]) for split in SPLITS} for lang in sizes})


def _sizes(book: Phrasebook, sizes: Mapping[str, tuple[int, int, int]] | None) -> dict[str, tuple[int, int, int]]:
    if sizes is None:
        return {lang: SIZES.get(lang, OTHER_SIZE) for lang in book.languages}
    for lang in sizes:
        if lang not in book.languages:
            raise ValueError(f"the phrasebook has no {lang!r}; it has {', '.join(book.languages)}")
    return dict(sizes)


class _Meanings:
    """Draws meanings (template and words) whose English sentence has not been drawn before."""

    def __init__(self, book: Phrasebook, seed: int, held_out: frozenset[Combination], *, limit: int) -> None:
        self.book = book
        templates = list(book.templates.values())
        self.training = [template.without(held_out) for template in templates], zipf(len(templates), TEMPLATE_SHIFT)
        self.testing = [template.evenly() for template in templates], zipf(len(templates), EVEN)
        self.template_key, self.word_key = key(seed, "templates"), key(seed, "words")
        self.indices = iter(range(limit))
        self.seen: set[tuple[str, Filling]] = set()
        self.english: set[str] = set()

    def next(self, split: str) -> tuple[str, Filling, str]:
        """Draws a template name, its filling and the English sentence. Training never gets held-out combinations."""
        templates, weights = self.training if split == "train" else self.testing
        for index in self.indices:
            template = templates[pick(weights, uniform(self.template_key, index))]
            filling = template.draw(self.word_key, index)
            if filling is None or (template.name, filling) in self.seen:
                continue
            self.seen.add((template.name, filling))
            english = self.book.sentence(PIVOT, template.name, filling)
            if english not in self.english:
                self.english.add(english)
                return template.name, filling, english
        raise ValueError(f"the corpus needs more than the {len(self.english):,} different sentences that were found")


def _split(pairs: list[tuple[Pair, bool]]) -> Split:
    return Split(tuple(pair for pair, _ in pairs), tuple(is_held_out for _, is_held_out in pairs))


def summary(book: Phrasebook, corpus: Corpus) -> list[Row]:
    """The statistics of each language."""
    rows = []
    for lang, splits in corpus.splits.items():
        train = [english for english, _ in splits["train"].pairs]
        test = [english for english, _ in splits["test"].pairs]
        rows.append(
            Row(
                language=lang,
                name=book.names[lang],
                train=len(train),
                dev=len(splits["dev"].pairs),
                test=len(test),
                test_held_out=sum(splits["test"].held_out),
                test_near_share=near_share(test, train),
            )
        )
    return rows


def near_share(test: list[str], train: list[str]) -> float:
    """The fraction of test sentences that become a training sentence if one word is changed, added or removed."""
    around = {gap for sentence in train for gap in _gaps(sentence)}
    near = sum(any(gap in around for gap in _gaps(sentence)) for sentence in test)
    return near / len(test) if test else 0.0


def _gaps(sentence: str) -> Iterator[str]:
    # The sentence with one word replaced by a gap, or with a gap inserted. Two sentences share one of these if they
    # differ in at most one word.
    start = 0
    while start <= len(sentence):
        end = sentence.find(" ", start)
        end = len(sentence) if end < 0 else end
        yield sentence[:start] + "*" + sentence[end:]
        yield sentence[:start] + "* " + sentence[start:]
        start = end + 1
    yield sentence + " *"


def write(book: Phrasebook, corpus: Corpus, directory: Path) -> list[Row]:
    """Writes `{lang}.{split}.tsv`, the held-out test pairs and a README; returns the statistics of each language.

    An earlier corpus in the folder is replaced. Files of these names beside another README are the user's: then
    FileExistsError is raised before anything is written.
    """
    rows = summary(book, corpus)
    files = {README: _readme(corpus, rows)}  # first: whatever is interrupted later can be repeated
    for lang, splits in corpus.splits.items():
        files |= {f"{lang}.{name}.tsv": _lines(split.pairs) for name, split in splits.items()}
        test = splits["test"]
        held_out = [pair for pair, is_held_out in zip(test.pairs, test.held_out, strict=True) if is_held_out]
        files[f"{lang}.test-held-out.tsv"] = _lines(held_out)
    _refuse_others(directory, files)
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        with user_output(directory / name) as file:
            file.write(text.encode())  # as bytes, so that line endings are the same on every system
    return rows


def _refuse_others(directory: Path, names: Iterable[str]) -> None:
    readme = directory / README
    if readme.is_file() and readme.read_bytes().startswith(f"{TITLE}\n".encode()):
        return
    for path in (directory / name for name in names):
        if os.path.lexists(path):
            reason = "exists and was not made by cclm; nothing was changed: move it, or choose another folder"
            raise FileExistsError(errno.EEXIST, reason, str(path))


def _lines(pairs: Iterable[Pair]) -> str:
    return "".join(f"{english}\t{other}\n" for english, other in pairs)


def _readme(corpus: Corpus, rows: list[Row]) -> str:
    lines = [
        TITLE,
        "",
        f"Sentence pairs generated from templates with seed {corpus.seed}: `english<TAB>other`, one pair per line.",
        "No English sentence occurs in two files, except that `LANG.test-held-out.tsv` is the part of",
        "`LANG.test.tsv` with a combination of template and word that no training set has.",
        "",
        "| language | train | dev | test | held out | one word from training |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row.name} ({row.language}) | {row.train} | {row.dev} | {row.test} | {row.test_held_out} |"
        f" {row.test_near_share:.0%} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"
