"""Small parallel corpora made by the tests."""

from pathlib import Path
from typing import Any

from cclm.data.prepare import Plan
from cclm.recipe.schema import DataSection, VocabularySection

HRLS, LRLS = ["tur", "por"], ["aze", "glg"]
STEMS = {
    "tur": ["ev", "kitap", "su", "yol", "gün", "deniz", "köy", "taş", "ağaç", "kuş"],
    "aze": ["ev", "kitab", "su", "yol", "gün", "dəniz", "kənd", "daş", "ağac", "quş"],
    "por": ["casa", "livro", "água", "caminho", "dia", "mar", "vila", "pedra", "árvore", "ave"],
    "glg": ["casa", "libro", "auga", "camiño", "día", "mar", "vila", "pedra", "árbore", "ave"],
}
ENGLISH = ["house", "book", "water", "road", "day", "sea", "village", "stone", "tree", "bird"]


def sentences(lang: str, start: int, count: int) -> list[tuple[str, str]]:
    """(English, other) pairs, numbered so that no two are alike."""
    pairs = []
    for i in range(start, start + count):
        picks = [(i // 10**k + k * k) % 10 for k in range(3 + i % 4)]
        english = " ".join(ENGLISH[p] for p in picks) + f" {i}."
        other = " ".join(STEMS[lang][p] for p in picks) + f" {i}."
        pairs.append((english, other))
    return pairs


def write_tsv(folder: Path, train: int = 300, dev: int = 20, test: int = 20) -> None:
    """lang.split.tsv files whose English is disjoint."""
    folder.mkdir(parents=True, exist_ok=True)
    start = 0
    for lang in (*HRLS, *LRLS):
        for split, count in (("train", train), ("dev", dev), ("test", test)):
            lines = [f"{english}\t{other}\n" for english, other in sentences(lang, start, count)]
            (folder / f"{lang}.{split}.tsv").write_text("".join(lines), encoding="utf-8")
            start += count


def data(folder: Path, **changes: Any) -> DataSection:
    """The data section of a recipe over such files."""
    settings: dict[str, Any] = {"format": "tsv", "path": str(folder), "high_resource": HRLS, "low_resource": LRLS}
    return DataSection.model_validate(settings | changes)


def plan(folder: Path, pieces: int = 120, joint: bool = False, sample: int = 200_000, **changes: Any) -> Plan:
    """What is to be prepared from such files."""
    return Plan(data(folder, **changes), VocabularySection(pieces=pieces, joint=joint, sample=sample))
