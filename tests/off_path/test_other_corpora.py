"""Corpora that the paper does not have: other scripts, one language, very many, both directions, unreadable files."""

import hashlib
import json
import os
import re
import shutil
import string
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from command import Ended
from command import cclm as in_new_python
from off_path.cli import RECIPE, cclm, copy_of, done, sentences, write_pairs, write_text

pytestmark = pytest.mark.slow
LANGUAGES = "high_resource: [tur], low_resource: [aze]"


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with text and a recipe."""
    folder = tmp_path_factory.mktemp("text")
    write_text(folder)
    return folder


@pytest.fixture
def folder(text: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return copy_of(text, tmp_path)


def write_recipe(folder: Path, *changes: tuple[str, str]) -> None:
    """The recipe with words exchanged."""
    recipe = RECIPE
    for before, now in changes:
        assert before in recipe
        recipe = recipe.replace(before, now)
    (folder / "recipe.yaml").write_text(recipe)


# From doctor to report


def test_other_scripts_go_from_doctor_to_report(tmp_path: Path) -> None:
    """Hangul, Arabic, Thai and Devanagari, with a table in place of bitext models."""
    write_text(tmp_path, ("kor", "ara", "tha", "hin"))
    write_recipe(tmp_path, (LANGUAGES, "high_resource: [kor, ara], low_resource: [tha, hin]"))
    losses = dict.fromkeys(("kor", "ara", "tha", "hin"), 5.0)
    (tmp_path / "table.json").write_text(json.dumps({"version": 1, "losses": losses}))
    done(tmp_path, "doctor", "recipe.yaml")
    done(tmp_path, "run", "recipe.yaml", "benchmark.file=table.json")
    assert set(json.loads((tmp_path / "work/runs/small/scores.json").read_text())["languages"]) == set(losses)


def test_a_single_language_goes_from_doctor_to_report(tmp_path: Path) -> None:
    """One language is high-resource, nobody is admitted, and every language may be drawn from the start."""
    write_text(tmp_path, ("tur",))
    write_recipe(tmp_path, (LANGUAGES, "high_resource: [tur], low_resource: []"), ("{threshold: 0.3}", "{name: all}"))
    done(tmp_path, "doctor", "recipe.yaml")
    assert "graph      nothing to do\n" in done(tmp_path, "run", "recipe.yaml", "--dry-run").stdout
    done(tmp_path, "run", "recipe.yaml")
    assert (tmp_path / "work/runs/small/report.html").is_file()


def test_two_hundred_languages_go_from_doctor_to_report(tmp_path: Path) -> None:
    """Invented codes and few sentences each; L* is given, as two hundred bitext models take too long for a test."""
    codes = ["q" + "".join(letters) for letters in product(string.ascii_lowercase, repeat=2)][:200]
    for number, code in enumerate(codes):
        for split, count in (("train", 6), ("dev", 2), ("test", 1)):
            begin = 1000 * number + {"train": 0, "dev": 100, "test": 200}[split]
            write_pairs(tmp_path / "text" / f"{code}.{split}.tsv", sentences("tur", begin, count))
    write_recipe(
        tmp_path,
        (LANGUAGES, f"high_resource: [{', '.join(codes[:100])}], low_resource: [{', '.join(codes[100:])}]"),
        ("max_steps: 10, validate_every: 5", "max_steps: 2, validate_every: 2"),
        ("{pieces: 120}", "{pieces: 60}"),
    )
    (tmp_path / "table.json").write_text(json.dumps({"version": 1, "losses": dict.fromkeys(codes, 5.0)}))
    done(tmp_path, "doctor", "recipe.yaml")
    done(tmp_path, "run", "recipe.yaml", "benchmark.file=table.json")
    assert len(json.loads((tmp_path / "work/runs/small/scores.json").read_text())["languages"]) == 200


# Subwords


def write_korean(folder: Path) -> None:
    """Sentences with more distinct syllables than the pieces that are asked for."""
    syllables = [chr(0xAC00 + 28 * i) for i in range(300)]
    words = ["".join(syllables[(i + k) % 300] for k in range(2)) for i in range(300)]
    for split, begin, count in (("train", 0, 300), ("dev", 0, 10), ("test", 0, 10)):
        pairs = [
            (f"{split} sentence {i}.", " ".join(words[(i + 7 * k) % 300] for k in range(4)))
            for i in range(begin, begin + count)
        ]
        write_pairs(folder / "text" / f"kor.{split}.tsv", pairs)
    write_recipe(folder, (LANGUAGES, "high_resource: [kor], low_resource: []"), ("{threshold: 0.3}", "{name: all}"))


def test_fewer_pieces_than_characters_take_the_characters_and_say_so(tmp_path: Path) -> None:
    """Each character is a piece at least; that there are more pieces than asked for is said, with the language."""
    write_korean(tmp_path)
    told = done(tmp_path, "prepare", "recipe.yaml", "vocabulary.pieces=100")
    assert re.search(r"kor\b.*\b3\d\d\b", (told.stdout + told.stderr).replace("\n", " "))


def test_doctor_says_that_there_are_fewer_pieces_than_characters(tmp_path: Path) -> None:
    """A warning that names the language and the setting: preparing succeeds, with more pieces."""
    write_korean(tmp_path)
    told = done(tmp_path, "doctor", "recipe.yaml", "vocabulary.pieces=100", "--json")
    messages = [problem["message"] for problem in json.loads(told.stdout)["problems"]]
    assert [message for message in messages if "kor" in message and "vocabulary.pieces" in message]


def test_one_sentence_ten_thousand_times_does_not_hang_prepare(folder: Path) -> None:
    """It takes about a second where each distinct sentence counts a few times only; a limit stands in for waiting."""
    same = "the same sentence again and again, and once more.\thər dəfə eyni cümlə, yenə və yenə.\n"
    train = folder / "text" / "aze.train.tsv"
    # Before the rest: at its end, they do not take long.
    train.write_text(same * 10_000 + train.read_text(encoding="utf-8"), encoding="utf-8")
    done(folder, "prepare", "recipe.yaml", "--workers", "1", limit=20)


MODELS = {"aze": "f3a16598364f4c90", "eng": "2c7a3faa085e6e61", "tur": "83e8b08d55412aed"}
"""Digests of the subword models of text without repeats, made by the sentencepiece in constraints.txt."""


def test_text_without_repeats_gives_the_subword_models_of_0_1_0_to_the_byte(folder: Path) -> None:
    """Runs on the old vocabularies stay comparable. With another sentencepiece there is nothing to compare with."""
    done(folder, "prepare", "recipe.yaml")
    paths = [path for path in folder.rglob("*.model") if "work" in path.parts]
    assert {path.stem: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in paths} == MODELS


# Files


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _dangling(path: Path) -> None:
    path.symlink_to("elsewhere.tsv")


@pytest.mark.parametrize("make", [_loop, _dangling, os.mkdir], ids=["loop", "dangling", "directory"])
@pytest.mark.parametrize("command", ["doctor", "prepare"])
def test_a_test_set_that_cannot_be_read_is_an_error(folder: Path, make: Callable[[Path], None], command: str) -> None:
    """A path that exists is meant: the message names it."""
    (folder / "text" / "aze.test.tsv").unlink()
    make(folder / "text" / "aze.test.tsv")
    result = cclm(folder, command, "recipe.yaml")
    assert result.returncode == 1
    assert "aze.test.tsv" in (result.stdout + result.stderr).replace("\n", "")


def without_permission(folder: Path, *command: str) -> Ended:
    """A command that may read only what its user may read, even where that is root."""
    drop = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    if os.geteuid() == 0 and not shutil.which(drop[0]):
        pytest.skip("root may read everything, and setpriv is not there to change that")
    return in_new_python(*command, folder=folder, before=drop if os.geteuid() == 0 else ())


@pytest.mark.parametrize("command", ["doctor", "prepare"])
@pytest.mark.parametrize("split", ["test", "dev"])
def test_a_file_without_permission_is_an_error(folder: Path, command: str, split: str) -> None:
    """It is there, so it is no missing test set; nothing is prepared without it."""
    (folder / "text" / f"aze.{split}.tsv").chmod(0)
    ended = without_permission(folder, command, "recipe.yaml")
    assert ended.code == 1
    assert f"text/aze.{split}.tsv: Permission denied" in ended.stdout + ended.stderr
    assert not (folder / "work" / "prepared").exists()


def test_a_folder_without_permission_is_an_error(folder: Path) -> None:
    """It is named, and the language is not taken for one without text."""
    for lang in ("tur", "aze"):
        for split, begin in (("train", 0), ("dev", 200), ("test", 300)):
            pairs = sentences(lang, begin, 50)
            for place, side in enumerate(("eng", lang)):
                path = folder / "moses" / f"{lang}-eng" / f"{split}.{side}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("".join(f"{pair[place]}\n" for pair in pairs), encoding="utf-8")
    (folder / "moses" / "aze-eng").chmod(0)
    try:
        ended = without_permission(folder, "prepare", "recipe.yaml", "data.format=moses", "data.path=moses")
    finally:
        (folder / "moses" / "aze-eng").chmod(0o755)  # for whoever removes it
    assert (ended.code, ended.stderr) == (1, "cclm: data.path moses: moses/aze-eng: Permission denied\n")


@pytest.mark.parametrize("command", ["doctor", "prepare"])
def test_one_file_is_not_taken_for_the_text_of_several_languages(folder: Path, command: str) -> None:
    """A path without {lang} that is a file and no folder."""
    result = cclm(folder, command, "recipe.yaml", "data.path=text/aze.train.tsv")
    assert result.returncode == 1
    assert "text/aze.train.tsv: one file for 2 languages; put {lang} into the path" in result.stdout + result.stderr


def test_a_folder_of_save_to_disk_is_read(tmp_path: Path) -> None:
    """A DatasetDict on disk, a folder for each language, as `datasets` itself writes it."""
    from datasets import Dataset, DatasetDict

    begin = 0
    for lang in ("tur", "aze"):
        splits = {}
        for split, count in (("train", 150), ("validation", 20), ("test", 20)):
            rows = [{"translation": {"eng": english, lang: other}} for english, other in sentences(lang, begin, count)]
            splits[split], begin = Dataset.from_list(rows), begin + count
        DatasetDict(splits).save_to_disk(tmp_path / "text" / f"{lang}-eng")
    write_recipe(tmp_path, ("format: tsv", "format: huggingface"))
    told = json.loads(done(tmp_path, "doctor", "recipe.yaml", "--json").stdout)
    assert {(row["language"], row["split"]): row["pairs"] for row in told["rows"]} == {
        (lang, split): pairs for lang in ("tur", "aze") for split, pairs in (("train", 150), ("dev", 20), ("test", 20))
    }


def test_pairs_of_unlike_length_can_be_dropped_and_are_counted(folder: Path) -> None:
    """data.length_ratio: training pairs with one side longer than so many times the other are dropped, and counted."""
    with (folder / "text" / "aze.train.tsv").open("a", encoding="utf-8") as file:
        file.write("house\t" + "ev kitab su yol " * 10 + "\n")
    told = done(folder, "prepare", "recipe.yaml", "data.length_ratio=5", "--json").stdout
    assert json.loads(told)["counts"]["aze"]["train"]["dropped"] == {"length ratio": 1}


def test_duplicates_and_copies_can_be_dropped_and_are_counted(folder: Path) -> None:
    """The filters that there are: each a key of the recipe, each with its count."""
    with (folder / "text" / "aze.train.tsv").open("a", encoding="utf-8") as file:
        file.write("one more house.\tbir ev daha.\n" * 3 + "the same.\tthe same.\n")
    told = done(folder, "prepare", "recipe.yaml", "data.duplicates=drop", "data.copies=drop", "--json").stdout
    assert sum(json.loads(told)["counts"]["aze"]["train"]["dropped"].values()) == 3


PORTUGUESE = "O tempo estava muito bonito e nós caminhámos ao longo do rio durante"


def test_lines_in_the_wrong_language_can_be_dropped_and_are_counted(folder: Path) -> None:
    """data.wrong_language: those of the training text; dev sets keep every line."""
    change = ["data.high_resource=[tur, por]", "data.wrong_language=drop", "--json"]
    before = json.loads(done(folder, "prepare", "recipe.yaml", *change).stdout)["counts"]["tur"]
    for split, count in (("train", 5), ("dev", 2)):
        with (folder / "text" / f"tur.{split}.tsv").open("a", encoding="utf-8") as file:
            file.writelines(
                f"The weather was beautiful for {i} hours.\t{PORTUGUESE} {i} horas.\n" for i in range(count)
            )
    after = json.loads(done(folder, "prepare", "recipe.yaml", *change).stdout)["counts"]["tur"]
    assert after["train"]["dropped"]["wrong language"] == before["train"]["dropped"].get("wrong language", 0) + 5
    assert (after["dev"]["pairs"], after["dev"]["dropped"]) == (before["dev"]["pairs"] + 2, {})


# Both directions


@pytest.fixture(scope="module")
def both_ways(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A many-to-many run on test sets that share their English."""
    folder = tmp_path_factory.mktemp("both")
    write_text(folder)
    for lang in ("tur", "aze"):
        write_pairs(folder / "text" / f"{lang}.test.tsv", sentences(lang, 5000, 10))
    done(
        folder, "run", "recipe.yaml", "data.direction=many-to-many", "vocabulary.joint=true", "vocabulary.pieces=150",
        "benchmark.max_steps=5", "training.max_steps=5",
    )  # fmt: skip
    return folder / "work" / "runs" / "small"


def test_the_page_of_a_many_to_many_run_has_a_node_for_each_language_and_measures_it(both_ways: Path) -> None:
    """The graph's languages are those that were measured: none of them is without numbers in the data of the page."""
    page = (both_ways / "report.html").read_text()
    data = json.loads(re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)[1])
    assert {language["name"] for language in data["languages"]} == {"tur-eng", "eng-tur", "aze-eng", "eng-aze"}
    assert [language["name"] for language in data["languages"] if language["dev_loss"] is None] == []
    assert data["pivot"] == "eng"  # the page counts directions
    assert {data["languages"][admission["language"]]["name"] for admission in data["admissions"]} >= {
        "tur-eng",
        "eng-tur",
    }


def test_a_many_to_many_run_translates_between_languages_that_it_has_not_seen_together(both_ways: Path) -> None:
    """Zero-shot, and said to be so on stderr."""
    (both_ways / "lines.txt").write_text("ev kitap su 7.\n")
    told = done(both_ways, "translate", ".", "--source", "tur", "--target", "aze", "--input", "lines.txt")
    assert told.stdout.count("\n") == 1
    assert "zero-shot" in told.stderr


def test_zero_shot_pairs_are_scored_and_marked_as_such(both_ways: Path) -> None:
    """Where test sets share their English, pairs of other languages have references; scores.json has them apart."""
    scores = json.loads((both_ways / "scores.json").read_text())
    assert set(scores["zero_shot"]) == {"tur-aze", "aze-tur"}
    assert not set(scores["zero_shot"]) & set(scores["languages"])
