"""What commands print, read by a stranger: few lines however many languages there are, and messages in recipe terms."""

import json
import os
import re
import string
from itertools import product
from pathlib import Path

import pytest
from off_path.cli import RECIPE, cclm, done, refused, sentences, write_pairs, write_text

pytestmark = pytest.mark.slow
LANGUAGES = "high_resource: [tur], low_resource: [aze]"


def write_many(folder: Path, languages: int) -> None:
    """Languages with invented codes; every training text has a sentence of a dev set."""
    codes = ["q" + "".join(letters) for letters in product(string.ascii_lowercase, repeat=2)][:languages]
    for number, code in enumerate(codes):
        for split, begin, count in (("train", 0, 12), ("dev", 10, 4), ("test", 20, 2)):
            pairs = sentences("tur", 1000 * number + begin, count)
            write_pairs(folder / "text" / f"{code}.{split}.tsv", pairs)
    many = f"high_resource: [{codes[0]}], low_resource: [{', '.join(codes[1:])}]"
    text = RECIPE.replace(LANGUAGES, many).replace("{max_steps: 10}", "{max_steps: 1}").replace("0.3", "0")
    (folder / "recipe.yaml").write_text(text)


def test_warnings_of_one_kind_are_cut_short_and_json_has_all(tmp_path: Path) -> None:
    """Thirty languages with the same problem are ten lines."""
    write_many(tmp_path, 30)
    told = done(tmp_path, "doctor", "recipe.yaml").stdout
    assert told.count("data.leakage=drop") == 9
    assert "21 more like this one; --json has all of them" in told
    problems = json.loads(done(tmp_path, "doctor", "recipe.yaml", "--json").stdout)["problems"]
    assert len([problem for problem in problems if "data.leakage=drop" in problem["message"]]) == 30


def test_many_languages_are_counted_and_named_in_few_lines(tmp_path: Path) -> None:
    """Bitext models say how many are left; useless ones, and languages admitted at once, share a line."""
    write_many(tmp_path, 20)
    told = done(tmp_path, "train", "recipe.yaml").stderr
    assert "(20 of 20)" in told
    assert "s left)" in told
    assert told.count("has learned nothing") == 3
    assert "the same holds for 17 more of the 20 bitext models: qad" in told
    assert "19 languages admitted: qab" in told


IMPATIENT = """import cclm.experiments.display, cclm.progress_bar
cclm.experiments.display.QUIET = 0.0
cclm.progress_bar.SECONDS = 0.001
"""


def test_a_log_file_shows_how_far_a_run_has_come(tmp_path: Path) -> None:
    """Where there is no terminal: preparing, every bitext training and translating, with the time that is left."""
    write_text(tmp_path)
    (tmp_path / "sitecustomize.py").write_text(IMPATIENT)
    environment = {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    steps = ["benchmark.max_steps=120", "training.validate_every=60"]
    told = done(tmp_path, "run", "recipe.yaml", *steps, environment=environment).stderr
    for line in (
        r"learning subwords \d of 3, \d+ s",
        r"encoding \d+ of 380, \d+ s",
        r"    tur: step 50 of 120, loss \d\.\d\d, at most \d+ s left",
        r"    aze: step 100 of 120, loss \d\.\d\d, at most \d+ s left",
        r"translating \d+ of 40, \d+ s",
    ):
        assert re.search(f"^{line}", told, re.MULTILINE), f"{line}\n{told}"


def test_words_are_not_counted_where_there_are_no_spaces(tmp_path: Path) -> None:
    """Thai has one "word" per sentence: no reason to doubt that the files are parallel, and BLEU says little."""
    write_text(tmp_path, ("tur", "tha"))
    for path in (tmp_path / "text").glob("tha.*.tsv"):
        pairs = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
        write_pairs(path, [(english, thai.replace(" ", "")) for english, thai in pairs])
    (tmp_path / "recipe.yaml").write_text(RECIPE.replace("[aze]", "[tha]"))
    told = done(tmp_path, "doctor", "recipe.yaml").stdout
    assert "are the files parallel" not in told
    told = done(tmp_path, "run", "recipe.yaml", "data.direction=one-to-many", "benchmark.max_steps=2").stdout
    assert "use chrF instead of BLEU: tha" in told.replace("\n", " ")
    run = tmp_path / "work" / "runs" / "small"
    assert json.loads((run / "scores.json").read_text())["without_spaces"] == ["tha"]
    assert '"without_spaces":["tha"]' in (run / "report.html").read_text().replace(" ", "")


MISTAKES = [
    ("max_steps=5", "unknown key 'max_steps'; did you mean 'benchmark.max_steps'?"),
    ("batch_tokens=5", "unknown key 'batch_tokens'; did you mean 'training.batch_tokens'?"),
    ("training.max_steps=many", "training.max_steps must be an integer; got 'many'"),
    ("model.dropout=much", "model.dropout must be a number; got 'much'"),
    ("training.bleu=perhaps", "training.bleu must be true or false; got 'perhaps'"),
    ("data.cut={dev:5}", "unknown key 'data.cut.dev:5'; YAML needs a space after the colon: dev: 5"),
    ("name=a/b", "name must have letters, digits, '.', '_' and '-' only"),
]


@pytest.mark.parametrize(("change", "message"), MISTAKES)
def test_a_mistake_in_a_setting_is_told_in_words_of_recipes(tmp_path: Path, change: str, message: str) -> None:
    """And not in those of the library that checks them."""
    write_text(tmp_path)
    assert message in refused(tmp_path, "train", "recipe.yaml", change)


def test_a_recipe_in_place_of_a_study_is_called_one(tmp_path: Path) -> None:
    """One line, and how to come by a study."""
    write_text(tmp_path)
    message = refused(tmp_path, "study", "recipe.yaml")
    assert "recipe.yaml: a recipe, not a study" in message
    assert message.count("\n") == 1


def test_a_mistake_in_an_arm_is_told_with_the_study_and_the_arm(tmp_path: Path) -> None:
    """The recipe itself is without a mistake."""
    write_text(tmp_path)
    (tmp_path / "study.yaml").write_text(
        "{version: 1, name: s, recipe: recipe.yaml, seeds: [1], baseline: a, primary: [[b, a]],"
        " arms: {a: {}, b: {model.heads: 0}}}"
    )
    assert "study.yaml: arm b: recipe.yaml: model.heads" in refused(tmp_path, "study", "study.yaml")


def test_a_changed_setting_is_told_by_its_key(tmp_path: Path) -> None:
    """As it is written in a recipe and on the command line."""
    write_text(tmp_path)
    (tmp_path / "table.json").write_text(json.dumps({"version": 1, "losses": {"tur": 5.0, "aze": 5.0}}))
    done(tmp_path, "train", "recipe.yaml", "benchmark.file=table.json")
    told = cclm(tmp_path, "train", "recipe.yaml", "benchmark.file=table.json", "model.width=32")
    assert "\n  model.width: 16 -> 32\n" in told.stderr


def test_help_describes_every_command_in_a_line_that_is_not_cut(tmp_path: Path) -> None:
    """At 80 columns; and it says what to begin with."""
    told = done(tmp_path, "--help", environment={"COLUMNS": "80"}).stdout
    assert "..." not in told.partition("Commands:")[2]
    assert "cclm doctor" in told.partition("Commands:")[0]


def test_a_path_that_does_not_exist_is_told_once(tmp_path: Path) -> None:
    """Not by each of eight languages, and not as a search for files in the folder above it."""
    told = cclm(tmp_path, "doctor", "ted8-related-m2o", "data.path=data/ted").stdout
    assert told.count("data.path data/ted: no such file or folder") == 1
    assert "1 error" in told


def test_a_sweep_ends_with_its_choice_and_clean_says_that_nothing_is_left(tmp_path: Path) -> None:
    """Not with a path alone; and no command ends in silence."""
    write_text(tmp_path)
    grid = ("--threshold", "0.1", "--threshold", "9", "--aggregate", "avg")
    told = done(tmp_path, "sweep", "recipe.yaml", "benchmark.max_steps=1", *grid).stdout.splitlines()
    assert [line.split()[:2] for line in told[1:3]] == [["avg", "0.1"], ["avg", "9"]]
    assert sum("*" in line for line in told[1:3]) == 1
    assert told[-1] == "work/sweeps/small/report.html"
    assert "nothing to remove" in done(tmp_path, "clean", "work").stderr
