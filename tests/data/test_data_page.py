"""The recipes and commands of docs/data.md, on a few lines of each download that it names."""

import gzip
import json
import re
import subprocess
import zipfile
from pathlib import Path

import pytest
from command import assert_done, cclm

pytestmark = pytest.mark.slow
PAGE = Path(__file__).parent.parent.parent / "docs" / "data.md"
CODES = {"tur": "tr", "rus": "ru", "aze": "az", "bel": "be"}
SPLITS = {"train": 200, "dev": 20, "test": 20}
HEAD = "version: 1\nname: mine\nwork: work\n"
Pairs = list[tuple[str, str]]


def block(kind: str, having: str) -> str:
    """The one block of the page of this kind that has these words."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    (found,) = [text for of, text in blocks if of == kind and having in text]
    return str(found)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Pairs]:
    """(English, other) pairs by language and split."""
    folder = tmp_path_factory.mktemp("phrasebook")
    assert_done(cclm("phrasebook", "--out", "book", folder=folder))
    found = {}
    for lang in CODES:
        for split, count in SPLITS.items():
            lines = (folder / "book" / f"{lang}.{split}.tsv").read_text(encoding="utf-8").splitlines()[:count]
            found[lang, split] = [(pair[0], pair[1]) for pair in (line.split("\t") for line in lines)]
    return found


def one_side(pairs: Pairs, side: int) -> str:
    return "".join(f"{pair[side]}\n" for pair in pairs)


def write_archive(path: Path, corpus: str, pairs: Pairs) -> None:
    """An archive of OPUS: the two sides, whose names end with their languages, and files that all archives have."""
    with zipfile.ZipFile(path, "w") as archive:
        first, second = corpus.partition(".")[2].split("-")
        for code in (first, second):
            archive.writestr(f"{corpus}.{code}", one_side(pairs, 0 if code == "en" else 1))
        archive.writestr("README", "")
        archive.writestr("LICENSE", "")


def shell(folder: Path, commands: str) -> None:
    subprocess.run(["bash", "-e", "-c", commands], cwd=folder, check=True)


def prepared(folder: Path, *changes: str) -> dict[str, dict[str, dict[str, object]]]:
    """The counts of `cclm prepare`, by language and split."""
    ended = cclm("prepare", "mine.yaml", "vocabulary.pieces=80", *changes, "--json", folder=folder)
    assert_done(ended)
    counts: dict[str, dict[str, dict[str, object]]] = json.loads(ended.stdout)["counts"]
    return counts


def test_the_first_recipe_and_its_commands(tmp_path: Path, text: dict[tuple[str, str], Pairs]) -> None:
    (tmp_path / "mine.yaml").write_text(block("yaml", "name: mine"))
    (tmp_path / "corpora").mkdir()
    for (lang, split), pairs in text.items():
        lines = "".join(f"{english}\t{other}\n" for english, other in pairs)
        (tmp_path / "corpora" / f"{lang}.{split}.tsv").write_text(lines, encoding="utf-8")
    commands = re.findall(r"^cclm (\w+) mine.yaml", block("", "cclm doctor mine.yaml"), flags=re.MULTILINE)
    assert commands == ["doctor", "prepare", "graph"]
    for command in commands:
        assert_done(cclm(command, "mine.yaml", "vocabulary.pieces=80", folder=tmp_path))
    work = tmp_path / "work" / "mine"
    assert all((work / name).exists() for name in ("prepared/manifest.json", "graph.json", "graph.svg"))


def test_archives_of_opus_become_a_recipe(tmp_path: Path, text: dict[tuple[str, str], Pairs]) -> None:
    """As OPUS and opus_get name them; the text has one line for each filter that needs no language identification."""
    for lang, code in CODES.items():
        pairs = text[lang, "train"]
        if lang == "tur":
            same, long = ("It is the same here.",) * 2, ("Here.", "Bu satır buraya ait değil, çok uzun. " * 5)
            pairs = [*pairs, pairs[0], same, long]
        both = "-".join(sorted(("en", code)))
        write_archive(tmp_path / f"{both}.txt.zip", f"OpenSubtitles.{both}", pairs[:100])
        write_archive(tmp_path / f"WikiMatrix_latest_moses_{both}.txt.zip", f"WikiMatrix.{both}", pairs[100:])
    shell(tmp_path, block("", "for lang in"))
    (tmp_path / "mine.yaml").write_text(HEAD + block("yaml", "path: opus"))
    small = "data.cut={dev: 20, test: 20}"
    assert_done(cclm("doctor", "mine.yaml", small, folder=tmp_path))
    counts = prepared(tmp_path, small)
    assert counts.keys() == CODES.keys()
    assert {tuple(counts[lang][split]["pairs"] for split in SPLITS) for lang in ("rus", "aze", "bel")} == {
        (160, 20, 20)
    }
    dropped = counts["tur"]["train"]["dropped"]
    assert isinstance(dropped, dict)
    assert (dropped["copy of the source"], dropped["duplicate"], dropped["length ratio"]) == (1, 1, 1)


def test_folders_of_tatoeba_become_a_recipe(tmp_path: Path, text: dict[tuple[str, str], Pairs]) -> None:
    """The codes of a pair are sorted, and the first one is that of the source."""
    for lang in ("tur", "aze"):
        both = sorted(("eng", lang))
        folder = tmp_path / "-".join(both)
        folder.mkdir()
        for code, name in zip(both, ("src", "trg"), strict=True):
            side = 0 if code == "eng" else 1
            lines = one_side(text[lang, "train"], side).encode()
            (folder / f"train.{name}.gz").write_bytes(gzip.compress(lines))
            for split in ("dev", "test"):
                (folder / f"{split}.{name}").write_text(one_side(text[lang, split], side), encoding="utf-8")
    shell(tmp_path, block("", "for pair in"))
    (tmp_path / "mine.yaml").write_text(HEAD + block("yaml", "path: tatoeba"))
    assert_done(cclm("doctor", "mine.yaml", folder=tmp_path))
    counts = prepared(tmp_path)
    assert {lang: {split: counts[lang][split]["pairs"] for split in SPLITS} for lang in counts} == {
        "tur": SPLITS,
        "aze": SPLITS,
    }
