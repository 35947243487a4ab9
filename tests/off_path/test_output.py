"""What commands print, read by a stranger: few lines however many languages there are."""

import json
import string
from itertools import product
from pathlib import Path

import pytest
from off_path.cli import RECIPE, done, sentences, write_pairs, write_text

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
    assert "BLEU says little and chrF counts: tha" in told.replace("\n", " ")
    run = tmp_path / "work" / "runs" / "small"
    assert json.loads((run / "scores.json").read_text())["without_spaces"] == ["tha"]
    assert '"without_spaces":["tha"]' in (run / "report.html").read_text().replace(" ", "")
