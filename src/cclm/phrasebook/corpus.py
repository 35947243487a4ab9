"""The phrasebook: all languages together, checked against the English inventory, and the corpus generated from them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

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

DIRECTORY = Path(__file__).parent / "languages"


@dataclass(frozen=True)
class Phrasebook:
    """The templates, and what writes them in each language."""

    templates: Mapping[str, Template]
    renderers: Mapping[str, Renderer]

    @classmethod
    def load(cls, directory: Path = DIRECTORY, only: str | None = None) -> "Phrasebook":
        """Gives the phrasebook of a folder, or of one language in it beside English."""
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
        return cls(templates, {code: Renderer(each, templates) for code, each in languages.items()})

    @property
    def languages(self) -> list[str]:
        """The languages beside English, sorted."""
        return [code for code in self.renderers if code != PIVOT]

    @property
    def names(self) -> dict[str, str]:
        """The English name of each language."""
        return {code: renderer.language.name or code for code, renderer in self.renderers.items()}

    def sentence(self, language: str, template: str, filling: Filling) -> str:
        """Gives what a filled template says in a language."""
        return self.renderers[language].sentence(template, filling)

    def count(self) -> int:
        """Gives the number of different English sentences."""
        return sum(template.count() for template in self.templates.values())


def _check_words(language: Language, pivot: Language) -> None:
    for name, word in language.words.items():
        if name not in pivot.words:
            raise language.error(word.line, f"unknown word {name!r}: {PIVOT}.txt has none so named")
    last = max((word.line for word in language.words.values()), default=0)
    if missing := [name for name in pivot.words if name not in language.words]:
        raise language.error(last, f"{len(missing)} words missing: {', '.join(missing)}")


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
OTHER_SIZE = (1_000, 200, 400)  # a language that someone added

Combination = tuple[str, str]
Pair = tuple[str, str]


@dataclass(frozen=True)
class Split:
    """Pairs (English, other), and for each whether it holds a combination kept out of all training."""

    pairs: tuple[Pair, ...]
    held_out: tuple[bool, ...]


@dataclass(frozen=True)
class Corpus:
    """The splits of each language."""

    seed: int
    splits: Mapping[str, Mapping[str, Split]]


@dataclass(frozen=True)
class Row:
    """The numbers of one language: sizes, how much of test is held out, how much is near training."""

    language: str
    name: str
    train: int
    dev: int
    test: int
    test_held_out: int
    test_near_share: float


def held_out_combinations(book: Phrasebook, seed: int) -> frozenset[Combination]:
    """Gives 15 % of the template x word combinations; no word's first template, so that each word is seen."""
    every = combinations(book.templates)
    first = {word: name for name, word in reversed(every)}
    free = [pair for pair in every if first[pair[1]] != pair[0]]
    ranked = sorted(free, key=lambda pair: (key(seed, "held out", *pair), pair))
    return frozenset(ranked[: round(HELD_OUT_SHARE * len(every))])


def generate(book: Phrasebook, *, seed: int = 1, sizes: Mapping[str, tuple[int, int, int]] | None = None) -> Corpus:
    """Gives the corpus of a seed; no English sentence occurs twice."""
    wanted = _sizes(book, sizes)
    held_out = held_out_combinations(book, seed)
    places = [
        (lang, split)
        for lang, counts in sorted(wanted.items())
        for split, count in zip(SPLITS, counts, strict=True)
        for _ in range(count)
    ]
    found: dict[tuple[str, str], list[tuple[Pair, bool]]] = {(lang, split): [] for lang in wanted for split in SPLITS}
    meanings = _Meanings(book, seed, held_out, limit=1000 + 20 * len(places))
    # Places are filled in random order, so that every set gets its share of the common sentences.
    for place in shuffled_many(np.arange(len(places)), len(places), key(seed, "seats")).tolist():
        lang, split = places[place]
        name, filling, english = meanings.next(split)
        kept_out = split != "train" and any(word and (name, word.key) in held_out for word in filling)
        found[lang, split].append(((english, book.sentence(lang, name, filling)), kept_out))
    return Corpus(seed, {lang: {split: _split(found[lang, split]) for split in SPLITS} for lang in wanted})


def _sizes(book: Phrasebook, sizes: Mapping[str, tuple[int, int, int]] | None) -> dict[str, tuple[int, int, int]]:
    if sizes is None:
        return {lang: SIZES.get(lang, OTHER_SIZE) for lang in book.languages}
    for lang in sizes:
        if lang not in book.languages:
            raise ValueError(f"no phrasebook in {lang!r}; there are {', '.join(book.languages)}")
    return dict(sizes)


class _Meanings:
    """Draws meanings one after the other, none whose English was given before."""

    def __init__(self, book: Phrasebook, seed: int, held_out: frozenset[Combination], *, limit: int) -> None:
        self.book = book
        every = list(book.templates.values())
        self.training = [template.without(held_out) for template in every], zipf(len(every), TEMPLATE_SHIFT)
        self.testing = [template.evenly() for template in every], zipf(len(every), EVEN)
        self.template_key, self.word_key = key(seed, "templates"), key(seed, "words")
        self.indices = iter(range(limit))
        self.seen: set[tuple[str, Filling]] = set()
        self.english: set[str] = set()

    def next(self, split: str) -> tuple[str, Filling, str]:
        """Gives template, filling and English; for training, without what is held out."""
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
        raise ValueError(f"more sentences wanted than the {len(self.english):,} different ones that were found")


def _split(found: list[tuple[Pair, bool]]) -> Split:
    return Split(tuple(pair for pair, _ in found), tuple(kept_out for _, kept_out in found))


def summary(book: Phrasebook, corpus: Corpus) -> list[Row]:
    """Gives the numbers of each language, for a table."""
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
    """Gives the share of test sentences that one word changed, added or left out makes a training one."""
    around = {gap for sentence in train for gap in _gaps(sentence)}
    near = sum(any(gap in around for gap in _gaps(sentence)) for sentence in test)
    return near / len(test) if test else 0.0


def _gaps(sentence: str) -> Iterator[str]:
    # A gap where a word stands meets one where the other sentence has another word, or none.
    start = 0
    while start <= len(sentence):
        end = sentence.find(" ", start)
        end = len(sentence) if end < 0 else end
        yield sentence[:start] + "*" + sentence[end:]
        yield sentence[:start] + "* " + sentence[start:]
        start = end + 1
    yield sentence + " *"


def write(book: Phrasebook, corpus: Corpus, directory: Path) -> list[Row]:
    """Writes `{lang}.{split}.tsv`, the held-out test pairs and a README; gives the numbers in it."""
    directory.mkdir(parents=True, exist_ok=True)
    for lang, splits in corpus.splits.items():
        for name, split in splits.items():
            _write_pairs(directory / f"{lang}.{name}.tsv", split.pairs)
        test = splits["test"]
        kept_out = [pair for pair, held in zip(test.pairs, test.held_out, strict=True) if held]
        _write_pairs(directory / f"{lang}.test-held-out.tsv", kept_out)
    rows = summary(book, corpus)
    _write(directory / "README.md", _readme(corpus, rows))
    return rows


def _write_pairs(path: Path, pairs: Iterable[Pair]) -> None:
    _write(path, "".join(f"{english}\t{other}\n" for english, other in pairs))


def _write(path: Path, text: str) -> None:
    path.write_bytes(text.encode())  # bytes: no other line ends on Windows


def _readme(corpus: Corpus, rows: list[Row]) -> str:
    lines = [
        "# The cclm phrasebook",
        "",
        f"Sentence pairs made from templates with seed {corpus.seed}: `english<TAB>other`, one pair per line.",
        "No English sentence stands in two files, but that `LANG.test-held-out.tsv` is the part of",
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
