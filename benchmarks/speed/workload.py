"""The work that every system is given: two sizes of model, the same random sentence pairs, and what they cost.

30,000 pairs of ids: Zipfian, of log-normal length (mean 25, at most 98), a target about as long as its source. Eight
languages, four large and four small. Nothing here needs more than NumPy: the peers' environments read it too.
"""

# L layers, D width, F feed-forward, S and T tokens of a source and a target, V symbols

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
PIVOT = "eng"
LONGEST = 98


@dataclass(frozen=True)
class Size:
    """A model and how much of the text a step takes."""

    layers: int
    width: int
    feed_forward: int
    heads: int
    source_symbols: int
    target_symbols: int
    joint: bool
    step_tokens: int
    """Real target tokens of an update, about: every system gets the budget, in its own terms, that leads to this."""

    def flops(self, source: float, target: float) -> float:
        """Multiplications and additions of one training step a sentence pair, </s> included: 3 x forward."""
        D, F = self.width, self.feed_forward
        encoder = source * (8 * D * D + 4 * D * F + 4 * source * D)
        decoder = target * (12 * D * D + 4 * D * F + 4 * target * D + 4 * source * D) + source * 4 * D * D
        return 3 * (self.layers * (encoder + decoder) + target * 2 * D * self.target_symbols)


SIZES = {
    "SMALL": Size(3, 256, 1024, 4, 8_000, 8_000, True, 4096),
    "PAPER": Size(6, 512, 1024, 4, 64_000, 8_000, False, 2048),
    "TINY": Size(1, 32, 64, 2, 500, 500, True, 1024),  # to see that everything runs
    "GROWTH": Size(1, 64, 128, 2, 4_000, 4_000, True, 4096),  # so small that what surrounds the model shows
}
HRLS, LRLS = ("tur", "rus", "por", "ces"), ("aze", "bel", "glg", "slk")
TRAIN = dict.fromkeys(HRLS, 6_000) | dict.fromkeys(LRLS, 1_500)
DEV = 512


@dataclass(frozen=True)
class Vocabularies:
    """How many symbols each side has, and which ids a language uses. A joint vocabulary is used by all alike."""

    languages: tuple[str, ...]
    other: int
    pivot: int
    joint: bool

    @property
    def first(self) -> int:
        """The first id that is no special and no tag."""
        return len(SPECIALS) + len(self.languages) + 1

    def block(self, language: str) -> tuple[int, int]:
        """The first id of a language, and how many it has."""
        if self.joint or language == PIVOT:
            return self.first, self.pivot - self.first
        each = (self.other - self.first) // len(self.languages)
        return self.first + self.languages.index(language) * each, each

    def symbols(self, count: int) -> list[str]:
        """The reserved symbols, then made-up words: id 17 is w17."""
        tags = [f"<2{lang}>" for lang in (*self.languages, PIVOT)]
        return [*SPECIALS, *tags, *(f"w{i}" for i in range(self.first, count))]


def write_prepared(
    folder: Path,
    sizes: Mapping[str, int],
    vocabularies: Vocabularies,
    *,
    dev: int = DEV,
    mean_length: float = 25,
    longest: int = LONGEST,
) -> None:
    """Random pairs in the form that `cclm prepare` leaves, but without text and so without SentencePiece models."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(1)
    for lang, pairs in sizes.items():
        (folder / lang).mkdir(exist_ok=True)
        for split, count in (("train", pairs), ("dev", dev)):
            lengths = draw_lengths(generator, count, mean_length, longest)
            tokens = np.lib.format.open_memmap(
                folder / lang / f"{split}.tokens.npy",
                mode="w+",
                dtype=np.uint16 if vocabularies.other <= 1 << 16 else np.uint32,
                shape=(int(lengths.sum()),),
            )
            for start, part in _draw_ids(generator, lengths, vocabularies.block(lang), vocabularies.block(PIVOT)):
                tokens[start : start + len(part)] = part
            tokens.flush()
            np.save(folder / lang / f"{split}.offsets.npy", np.concatenate([[0], np.cumsum(lengths)]))
    _write_vocabularies(folder, vocabularies)
    _write_manifest(folder, {lang: {"train": pairs, "dev": dev} for lang, pairs in sizes.items()}, vocabularies)


def draw_lengths(generator: np.random.Generator, pairs: int, mean: float, longest: int) -> Ids:
    """Lengths of source, target, source, target ...: log-normal, and a target is off its source by a sixth or so."""
    spread, noise = 0.6, 0.15
    sources = generator.lognormal(np.log(mean) - spread**2 / 2, spread, pairs)
    targets = sources * generator.lognormal(-(noise**2) / 2, noise, pairs)
    both = np.stack([sources, targets], axis=1).reshape(-1)
    return np.clip(np.rint(both), 1, longest).astype(np.int64)


def _draw_ids(
    generator: np.random.Generator, lengths: Ids, other: tuple[int, int], pivot: tuple[int, int]
) -> Iterator[tuple[int, Ids]]:
    """Ids of some sentences after the other, and where they begin."""
    start = 0
    for at in range(0, len(lengths), 100_000):  # an even number: the sides alternate
        part = lengths[at : at + 100_000]
        is_other = np.repeat(np.arange(len(part)) % 2 == 0, part)
        drawn = np.where(is_other, *(_zipf(generator, len(is_other), *block) for block in (other, pivot)))
        yield start, drawn
        start += len(drawn)


def _zipf(generator: np.random.Generator, count: int, first: int, symbols: int) -> Ids:
    share = np.cumsum(1 / np.arange(1, symbols + 1))
    return first + np.searchsorted(share / share[-1], generator.random(count))


def _write_vocabularies(folder: Path, vocabularies: Vocabularies) -> None:
    names = {"vocabulary": vocabularies.pivot} if vocabularies.joint else {}
    names = names or {"other": vocabularies.other, "pivot": vocabularies.pivot}
    tags = {lang: len(SPECIALS) + i for i, lang in enumerate((*vocabularies.languages, PIVOT))}
    for name, count in names.items():
        rows = [[symbol, 0] for symbol in vocabularies.symbols(count)]
        (folder / f"{name}.json").write_text(json.dumps({"version": 1, "tags": tags, "symbols": rows}))


def _write_manifest(folder: Path, sizes: dict[str, dict[str, int]], vocabularies: Vocabularies) -> None:
    from cclm.formats.base import FileFacts  # here: the environments of the peers have no cclm
    from cclm.formats.prepared import MadeFrom, Manifest, Settings

    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json")
    files = {path.relative_to(folder).as_posix(): FileFacts.of(path) for path in paths}
    settings = Settings(data={}, vocabulary={"joint": vocabularies.joint})
    made_from = MadeFrom(settings=settings, inputs={}, path=None, cclm=None, sentencepiece="")
    manifest = Manifest(
        fingerprint=Manifest.fingerprint_of(made_from, files),
        settings=settings,
        sizes=sizes,
        made_from=made_from,
        files=files,
    )
    manifest.write(folder / "manifest.json")


def vocabularies_of(size: Size) -> Vocabularies:
    """Those of the eight languages."""
    return Vocabularies((*HRLS, *LRLS), size.source_symbols, size.target_symbols, size.joint)


def prepared_folder(folder: Path, name: str) -> Path:
    """The prepared pairs of a size, written if they are not there."""
    prepared = folder / name / "prepared"
    if not (prepared / "manifest.json").exists():
        write_prepared(prepared, TRAIN, vocabularies_of(SIZES[name]))
    return prepared


def pairs_of(prepared: Path, split: str) -> list[tuple[Ids, Ids]]:
    """All pairs of a split as ids, source and target, the languages mixed: as those read them who know but one."""
    pairs = []
    for lang in (*HRLS, *LRLS):
        tokens = np.load(prepared / lang / f"{split}.tokens.npy").astype(np.int64)
        sentences = np.split(tokens, np.load(prepared / lang / f"{split}.offsets.npy")[1:-1])
        pairs += list(zip(sentences[::2], sentences[1::2], strict=True))
    order = np.random.default_rng(2).permutation(len(pairs))
    return [pairs[i] for i in order]


def text_folder(prepared: Path, name: str) -> Path:
    """The same pairs as text, `{train,dev}.{src,trg}`, and the words of both sides: {src,trg}.words, specials apart."""
    folder, size = prepared.with_name("text"), SIZES[name]
    if (folder / "complete").exists():
        return folder
    folder.mkdir(exist_ok=True)
    for split in ("train", "dev"):
        for side, sentences in zip(("src", "trg"), zip(*pairs_of(prepared, split), strict=True), strict=True):
            lines = (" ".join(f"w{i}" for i in sentence) for sentence in sentences)
            (folder / f"{split}.{side}").write_text("\n".join(lines) + "\n")
    for side, count in (("src", size.source_symbols), ("trg", size.target_symbols)):
        words = vocabularies_of(size).symbols(count)[len(SPECIALS) :]
        (folder / f"{side}.words").write_text("\n".join(words) + "\n")
    (folder / "complete").touch()
    return folder


def flops_a_target_token(size: Size, prepared: Path) -> float:
    """Of the real tokens of the training pairs, </s> included: what a step of the least possible work costs."""
    pairs = pairs_of(prepared, "train")
    total = sum(size.flops(len(source) + 1, len(target) + 1) for source, target in pairs)
    return total / sum(len(target) + 1 for _, target in pairs)
