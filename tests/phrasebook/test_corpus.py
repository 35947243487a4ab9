"""The generated corpus: distinct sentences, disjoint splits, held-out combinations, reproducible."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cclm.phrasebook import CORPUS_VERSION, Corpus, Phrasebook, generate, summary, write
from cclm.phrasebook.corpus import held_out_combinations, near_share
from cclm.phrasebook.templates import combinations
from cclm.rng import key

SIZES = {"tur": (1500, 100, 200), "rus": (1500, 100, 200)}


@pytest.fixture(scope="module")
def corpus(book: Phrasebook) -> Corpus:
    return generate(book, seed=1, sizes=SIZES)


def test_the_text_is_that_of_the_recorded_version(corpus: Corpus) -> None:
    """Other text for the same language files needs another CORPUS_VERSION, or data and runs would be mixed up."""
    pairs = [
        (lang, split, *pair)
        for lang, splits in corpus.splits.items()
        for split in splits
        for pair in splits[split].pairs
    ]
    assert (CORPUS_VERSION, hashlib.sha256(repr(pairs).encode()).hexdigest()[:16]) == ("0.1.0", "88dd46fc9186cf94")


def english(corpus: Corpus, lang: str, split: str) -> list[str]:
    return [pair[0] for pair in corpus.splits[lang][split].pairs]


def sets(corpus: Corpus) -> Iterator[tuple[str, str, list[str]]]:
    for lang, splits in corpus.splits.items():
        for split in splits:
            yield lang, split, english(corpus, lang, split)


@pytest.mark.slow
def test_the_inventory_is_as_large_as_promised(book: Phrasebook) -> None:
    assert len(book.templates) >= 60
    assert len(book.renderers["eng"].language.words) >= 350
    assert book.count() > 2_000_000


@pytest.mark.slow
def test_the_count_is_that_of_sentences_that_differ(book: Phrasebook) -> None:
    fillings = {}
    for name, template in book.templates.items():
        for index in range(200):
            filling = template.draw(key(3, name, index))
            if filling is not None:
                fillings[name, filling] = book.sentence("eng", name, filling)
    assert len(fillings) > 8000
    assert len(set(fillings.values())) == len(fillings)


def test_counting_equals_enumerating(book: Phrasebook) -> None:
    template = book.templates["compare"]
    total = sum(
        len(template.choices(2, (a, adj))) for a in template.choices(0, ()) for adj in template.choices(1, (a,))
    )
    assert template.count() == total


def test_every_draw_finds_words_that_suit(book: Phrasebook) -> None:
    for name, template in book.templates.items():
        failed = sum(template.draw(key(5, name, index)) is None for index in range(300))
        assert failed < 60, name


def test_sizes_are_as_requested(corpus: Corpus) -> None:
    for lang, split, sentences in sets(corpus):
        assert len(sentences) == SIZES[lang][("train", "dev", "test").index(split)]


def test_training_english_is_disjoint_between_languages(corpus: Corpus) -> None:
    assert not set(english(corpus, "tur", "train")) & set(english(corpus, "rus", "train"))


def test_no_english_sentence_occurs_twice(corpus: Corpus) -> None:
    every = [sentence for _, _, sentences in sets(corpus) for sentence in sentences]
    assert len(set(every)) == len(every)


def test_fifteen_percent_of_combinations_are_held_out(book: Phrasebook) -> None:
    share = len(held_out_combinations(book, 1)) / len(combinations(book.templates))
    assert share == pytest.approx(0.15, abs=0.001)


def test_every_word_keeps_a_template_for_training(book: Phrasebook) -> None:
    kept = set(combinations(book.templates)) - held_out_combinations(book, 1)
    assert {word for _, word in kept} == {word for _, word in combinations(book.templates)}


def test_held_out_combinations_are_in_test_and_never_in_training(corpus: Corpus) -> None:
    for splits in corpus.splits.values():
        assert not any(splits["train"].held_out)
        assert 0.2 < sum(splits["test"].held_out) / len(splits["test"].held_out) < 0.7


@pytest.mark.slow
def test_two_runs_are_equal_and_another_seed_differs(book: Phrasebook, corpus: Corpus) -> None:
    assert generate(Phrasebook.load(), seed=1, sizes=SIZES) == corpus
    assert generate(book, seed=2, sizes=SIZES).splits != corpus.splits


@pytest.mark.slow
def test_the_hash_seed_of_python_changes_nothing(tmp_path: Path, book: Phrasebook, corpus: Corpus) -> None:
    write(book, corpus, tmp_path / "here")
    program = (
        "import sys; from pathlib import Path; from cclm.phrasebook import *; book = Phrasebook.load();"
        f"write(book, generate(book, seed=1, sizes={SIZES!r}), Path(sys.argv[1]))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "there")], check=True, env=environment)
    for path in (tmp_path / "here").iterdir():
        assert (tmp_path / "there" / path.name).read_bytes() == path.read_bytes()


def test_files_hold_the_pairs(tmp_path: Path, book: Phrasebook, corpus: Corpus) -> None:
    rows = write(book, corpus, tmp_path)
    lines = (tmp_path / "tur.train.tsv").read_text(encoding="utf-8").splitlines()
    assert [tuple(line.split("\t")) for line in lines] == list(corpus.splits["tur"]["train"].pairs)
    held_out = (tmp_path / "tur.test-held-out.tsv").read_text(encoding="utf-8").splitlines()
    assert len(held_out) == next(row.test_held_out for row in rows if row.language == "tur")
    assert "| Turkish (tur) | 1500 | 100 | 200 |" in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_near_is_one_word_changed_added_or_left_out() -> None:
    train = ["a b c", "x y"]
    assert near_share(["a b d", "a b c d", "a c", "d a b c"], train) == 1.0
    assert near_share(["a d d", "a", "c b a"], train) == 0.0


def test_the_summary_has_a_row_a_language(book: Phrasebook, corpus: Corpus) -> None:
    assert [(row.language, row.train) for row in summary(book, corpus)] == [("tur", 1500), ("rus", 1500)]


def test_an_unknown_language_has_no_size(book: Phrasebook) -> None:
    with pytest.raises(ValueError, match="the phrasebook has no 'xyz'; it has"):
        generate(book, sizes={"xyz": (1, 1, 1)})


def test_requesting_too_many_sentences_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "eng.txt").write_text(
        "== noun: sg\ndog [animal] dog\n== templates\nx | a:animal | the {a}.\n", encoding="utf-8"
    )
    (tmp_path / "rus.txt").write_text("== noun: sg\ndog собака\n== templates\nx | {a}.\n", encoding="utf-8")
    with pytest.raises(ValueError, match="needs more than the 1 different sentences"):
        generate(Phrasebook.load(tmp_path), sizes={"rus": (2, 0, 0)})
