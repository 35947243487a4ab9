"""Mistakes in a language file are reported with file, line and what is allowed."""

from pathlib import Path

import pytest

from cclm.phrasebook import Phrasebook

ENGLISH = """language English
== noun: sg pl
dog [animal] dog dogs
cat [animal] cat cats
== adjective: word
big [size > animal] big
== helper: word
the the
== templates
see | a:animal adj?:adjective@a | {the} {adj} {a} sleeps.
"""
RUSSIAN = """language Russian
== noun: @g nom
dog f собака
cat m кот
== adjective: m f
big большой большая
== templates
see | {adj.a@g} {a.nom} спит.
== rewrites
спит => спит
"""


def load(folder: Path, *, english: str = ENGLISH, russian: str = RUSSIAN) -> Phrasebook:
    (folder / "eng.txt").write_text(english, encoding="utf-8")
    (folder / "rus.txt").write_text(russian, encoding="utf-8")
    return Phrasebook.load(folder)


def test_a_sound_pair_of_files_is_read(tmp_path: Path) -> None:
    book = load(tmp_path)
    dog, big = book.renderers["eng"].language.words["noun dog"], None
    assert book.sentence("eng", "see", (dog, big)) == "The dog sleeps."
    assert book.sentence("rus", "see", (dog, big)) == "Собака спит."
    assert book.count() == 4  # dog or cat, big or not


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("dog f собака", "dog f", r"rus.txt:3: 'noun dog' needs 2 forms \(@g nom\); got 1"),
        ("cat m кот", "dog m кот", "rus.txt:4: 'noun dog' is already defined in line 3"),
        ("cat m кот\n", "", "rus.txt:5: 1 words missing: noun cat"),
        ("cat m кот", "cow m кот", "rus.txt:4: unknown word 'noun cow'"),
        (
            "cat m кот",
            "cat n кот",
            "rus.txt:6: 'adjective big' has no form 'n', which template line 8 needs",
        ),
        ("cat m кот", "cat m -", "rus.txt:4: 'noun cat' has no form 'nom'"),
        ("see |", "seen |", "rus.txt:8: unknown template 'seen'"),
        ("see | {adj.a@g} {a.nom} спит.\n", "", "rus.txt:0: templates missing: see"),
        ("{a.nom}", "{b.nom}", "rus.txt:8: unknown slot 'b' in {b.nom}; the slots are a, adj"),
        ("{a.nom}", "{a.gen}", "rus.txt:3: 'noun dog' has no form 'gen', which template line 8 needs"),
        ("a@g", "a@x", "rus.txt:3: 'noun dog' has no feature '@x'"),
        ("a@g", "b@g", "rus.txt:8: 'b@g': 'b' is not a slot"),
        ("{a.nom}", "{a.adj@g}", "rus.txt:8: 'adj@g' agrees with an optional slot"),
        ("{a.nom}", "{a.nom", "rus.txt:8: unbalanced brace"),
        ("спит.\n==", "спит.\nsee | x\n==", "rus.txt:9: template 'see' is already defined in line 8"),
        ("see | ", "see ", r"rus.txt:8: a template must be 'name \| text'"),
        ("== noun: @g nom", "== noun", "rus.txt:2: section 'noun' names no forms"),
        ("== noun: @g nom", "== noun: nom nom", "rus.txt:2: section 'noun' names a form twice"),
        ("== noun: @g nom", "==", "rus.txt:2: a section must be"),
        ("language Russian", "Russian", "rus.txt:1: 'Russian' comes before the first section"),
        ("dog f", "dog [animal] f", "rus.txt:3: only eng.txt may have tags"),
        ("спит => спит", "спит -> спит", "rus.txt:10: a rewrite must be"),
        ("спит => спит", "( => спит", "rus.txt:10: .* is not a regular expression"),
        ("спит => спит", r"спит => \1", "rus.txt:10: .* is not a regular expression"),
    ],
)
def test_a_mistake_is_reported_with_file_and_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in RUSSIAN
    with pytest.raises(ValueError, match=message):
        load(tmp_path, russian=RUSSIAN.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("a:animal", "a:plant", "eng.txt:10: no word has the tags 'plant' of slot 'a'"),
        ("a:animal", "animal", "eng.txt:10: a slot must be"),
        ("adj?:adjective@a", "adj?:adjective@b", "eng.txt:10: slot 'adj' refers to 'b'"),
        ("adj?:", "a:animal adj?:", "eng.txt:10: slot 'a' is defined twice"),
    ],
)
def test_a_mistake_in_a_slot_is_reported_with_file_and_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in ENGLISH
    with pytest.raises(ValueError, match=message):
        load(tmp_path, english=ENGLISH.replace(old, new, 1))


def test_a_folder_without_english_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no eng\.txt"):
        Phrasebook.load(tmp_path)


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(ValueError, match=r"has no xyz\.txt"):
        Phrasebook.load(only="xyz")
