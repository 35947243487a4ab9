"""Recipes: the paper's four, complete and commented; a TED-format fixture through all of them, by overrides only."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from corpora import write_tsv
from warm_commands import warm

from cclm.data.prepared import Prepared
from cclm.errors import ConfigError
from cclm.paper import HIGH_RESOURCE, language_set
from cclm.recipe import Recipe, load_recipe
from cclm.recipe.loading import built_in_recipes, parse_yaml

TED = ["ted8-related-m2o", "ted8-related-o2m", "ted8-diverse-m2o", "ted8-diverse-o2m"]
STRONG = ["strong-small", "strong-medium", "strong-large"]


def keys(section: Any, prefix: str = "") -> set[str]:
    """Every key of a model of settings, as a path; the parts of a union are those of its default."""
    found: set[str] = set()
    for name, field in type(section).model_fields.items():
        if field.exclude:  # where trainings run is the user's own matter
            continue
        value = getattr(section, name)
        found |= keys(value, f"{prefix}{name}.") if hasattr(type(value), "model_fields") else {prefix + name}
    return found


def paths(content: dict[str, Any], prefix: str = "") -> set[str]:
    found: set[str] = set()
    for name, value in content.items():
        found |= paths(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name}
    return found


@pytest.mark.parametrize("name", [*TED, "phrasebook"])
def test_the_recipes_have_every_key_and_a_comment_on_every_line(name: str) -> None:
    text = built_in_recipes()[name]
    assert paths(parse_yaml(text, name)) == keys(load_recipe(name))
    lines = [line for line in text.splitlines() if ":" in line and not line.startswith("#")]
    assert [line.strip() for line in lines if "#" not in line and not line.strip().endswith(":")] == []


@pytest.mark.parametrize("name", STRONG)
def test_the_recommended_recipes_anneal_and_need_no_bitext_models(name: str) -> None:
    recipe, text = load_recipe(name), built_in_recipes()[name]
    assert text.startswith("# Recommended for text of your own")
    assert paths(parse_yaml(text, name)) <= keys(recipe) | {
        "curriculum.gate.name", "curriculum.sampler.name", "curriculum.sampler.tau", "training.split_pieces.source",
    }  # fmt: skip
    lines = [line for line in text.splitlines() if ":" in line and not line.strip().startswith("#")]
    assert [line.strip() for line in lines if "#" not in line and not line.strip().endswith(":")] == []
    assert recipe.name == name
    assert recipe.training.schedule in ("linear", "wsd")
    assert not recipe.curriculum.needs_benchmark


def test_the_recommended_recipes_are_listed_first() -> None:
    listed = warm("recipes")
    names = [line.split()[0] for line in listed.stdout.splitlines()]
    assert names[:3] == STRONG
    assert set(names) == {*STRONG, *TED, "phrasebook"}


@pytest.mark.parametrize("name", TED)
def test_the_papers_recipes_are_the_papers_settings(name: str) -> None:
    recipe = load_recipe(name)
    _, languages, direction = name.split("-")
    assert tuple(recipe.data.high_resource) == HIGH_RESOURCE[languages]
    assert set(recipe.data.languages) == set(language_set(languages).sizes)
    assert recipe.data.direction == {"m2o": "many-to-one", "o2m": "one-to-many"}[direction]
    model, training = recipe.model, recipe.training
    assert (model.layers, model.heads, model.width, model.feed_forward, model.dropout) == (6, 4, 512, 1024, 0.3)
    assert training.batch_tokens * training.accumulate == 9600
    assert (training.learning_rate, training.warmup, training.label_smoothing) == (2e-4, 4000, 0.1)
    assert (recipe.curriculum.every, recipe.curriculum.dev_sample, recipe.vocabulary.pieces) == (100, 256, 8000)
    assert (recipe.translation.beam, recipe.translation.length_penalty, training.patience) == (5, 1.0, 10)


def write_ted(folder: Path, codes: list[str], rows: int = 80) -> None:
    """`all_talks_{split}.tsv` as Qi et al. made it: tokenised, a column a language, gaps."""
    words = ["do n't", "it 's", "a house ,", "the sea .", "( yes )", "one book"]
    for split, count in (("train", rows), ("dev", 12), ("test", 12)):
        lines = ["\t".join(["talk_name", "en", *codes])]
        for i in range(count):
            sentence = f"{words[i % 6]} {split} {i} {words[(i * 5) % 6]}"
            cells = [f"{code[0]} {sentence} {code}" if (i + len(code)) % 9 else "__NULL__" for code in codes]
            lines.append("\t".join([f"talk_{i // 10}", sentence, *cells]))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"all_talks_{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")


COLUMNS = {
    "related": ["tr", "ru", "pt-br", "pt", "cs", "az", "be", "gl", "sk"],
    "diverse": ["el", "bg", "fr", "ko", "bs", "mr", "hi", "mk"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ted8-related-m2o", "ted8-diverse-o2m"])
def test_the_papers_recipes_prepare_a_ted_file(name: str, tmp_path: Path) -> None:
    write_ted(tmp_path / "ted", COLUMNS[name.split("-")[1]])
    overrides = [f"data.path={tmp_path}/ted", f"work={tmp_path}/work", "vocabulary.pieces=60"]
    for verb in ("doctor", "prepare", "graph"):
        result = warm(verb, name, *overrides, "--json")
        assert result.returncode == 0, result.stderr
        answer = json.loads(result.stdout)
    assert set(answer["similarity"]) == set(load_recipe(name).data.low_resource)
    prepared = Prepared.open(tmp_path / "work" / "prepared")
    lang = load_recipe(name).data.high_resource[2]  # por is the pt-br column, not pt
    text = prepared.other.decode(prepared.corpus(lang, "train").pair(0)[0])
    assert text.endswith("pt-br" if lang == "por" else "fr")
    english = prepared.pivot.decode(prepared.corpus(lang, "train").pair(0)[1])
    assert english.startswith("don't train 0")  # detokenised
    assert "absent cell" in str(prepared.manifest.counts)
    assert (tmp_path / "work" / "graph.svg").read_text().startswith("<svg")


SMALL = ["vocabulary.pieces=60", "model={layers: 1, heads: 2, width: 16, feed_forward: 16, dropout: 0.1}"]
SMALL += ["curriculum.every=2", "curriculum.dev_sample=4", "curriculum.gate.threshold=0.1", "benchmark.max_steps=2"]
SMALL += ["training.batch_tokens=400", "training.max_steps=6", "training.validate_every=3", "training.warmup=2"]
SMALL += ["training.precision=fp32", "training.device=cpu", "translation.beam=1"]


@pytest.mark.slow
@pytest.mark.parametrize("languages", ["related", "diverse"])
def test_the_papers_recipes_run_from_a_ted_file_to_a_report(languages: str, tmp_path: Path) -> None:
    write_ted(tmp_path / "ted", COLUMNS[languages])
    table = tmp_path / "table.json"
    for direction in ("m2o", "o2m"):
        name, work = f"ted8-{languages}-{direction}", tmp_path / direction
        given = [f"benchmark.file={table}"] if table.exists() else []
        result = warm("run", name, f"data.path={tmp_path}/ted", f"work={work}", *SMALL, *given)
        assert result.returncode == 0, result.stderr
        data = load_recipe(name).data
        run = work / "runs" / name
        assert result.stdout.splitlines()[-1] == str(run / "report.html")
        assert ("prepare    skipped" in result.stderr) == (direction == "o2m")
        scores = json.loads((run / "scores.json").read_text())
        assert set(scores["languages"]) == set(data.languages)
        log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
        admitted = {event["language"] for event in log if event["event"] == "admitted"}
        assert admitted == set(data.low_resource)
        lang = data.low_resource[0]
        pair = f"{lang}-eng" if direction == "m2o" else f"eng-{lang}"
        english = "reference" if direction == "m2o" else "source"
        assert "don't test 0" in (run / "translations" / f"test.{pair}.{english}.txt").read_text()  # detokenised
        if direction == "m2o":  # another direction of the same text: it is prepared already, and L* is given
            losses = json.loads((work / "benchmark.json").read_text())["losses"]
            table.write_text(json.dumps({"version": 1, "losses": losses}))
            shutil.copytree(work / "prepared", tmp_path / "o2m" / "prepared")


MINIMAL: dict[str, Any] = {
    "version": 1,
    "name": "x",
    "work": "work/x",
    "data": {"format": "tsv", "path": "d", "high_resource": ["tur"], "low_resource": ["aze"]},
}


def test_a_minimal_recipe_is_valid() -> None:
    recipe = Recipe.model_validate(MINIMAL)
    assert recipe.prepared == Path("work/x/prepared")
    assert recipe.graph_file == Path("work/x/graph.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("trainning.max_steps=5", "unknown key 'trainning'; did you mean 'training'?"),
        ("data.pivot=tur", "data must not name a language twice: tur"),
        ("data.high_resource=[]", None),
        ("data.low_resource=[aze, aze]", "data must not name a language twice: aze"),
        ("data.path=null", "data needs a path for format 'tsv'"),
        ("data.format=csv", "data.format must be one of"),
        ("data.high_resource=[a/b]", "data.high_resource.0 must have letters, digits"),
        ("name=../x", "name must have letters, digits"),
        ("name=..", "name must have letters, digits"),
        ("data.low_resource=[tr]", "data must not name one language twice: tur and tr"),
        ("data={format: phrasebook, pivot: deu, high_resource: [tur], low_resource: []}", "must have eng as the pivot"),
        ("model.heads=3", "model width 512 must be even and a multiple of heads 3"),
        ("training.patience=0", "training.patience should be greater than or equal to 1; got 0"),
        ("version=2", "version must be one of 1; got 2"),
    ],
)
def test_a_mistake_in_a_recipe_is_reported(tmp_path: Path, change: str, message: str | None) -> None:
    (tmp_path / "r.yaml").write_text(json.dumps(MINIMAL))
    if message is None:
        assert load_recipe(str(tmp_path / "r.yaml"), [change]).data.languages == ("aze",)
        return
    with pytest.raises(ConfigError) as error:
        load_recipe(str(tmp_path / "r.yaml"), [change])
    assert message in str(error.value)


def test_an_error_of_a_section_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(json.dumps(MINIMAL))
    for change, message in (
        ("data.direction=many-to-many", "data.direction many-to-many needs vocabulary.joint: true"),
        ("data.low_resource=[tur]", "data must not name a language twice: tur"),
    ):
        with pytest.raises(ConfigError) as error:
            load_recipe(str(path), [change])
        assert str(error.value) == f"{path}: {message}"


def test_a_recipe_without_languages_is_refused() -> None:
    with pytest.raises(ValueError, match="must name at least one language"):
        Recipe.model_validate(MINIMAL | {"data": MINIMAL["data"] | {"high_resource": [], "low_resource": []}})


def test_an_unknown_recipe_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="no recipe 'nope': give a YAML file or one of"):
        load_recipe("nope")


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    write_tsv(tmp_path / "text")
    path = tmp_path / "r.yaml"
    path.write_text(
        f"version: 1\nname: small\nwork: {tmp_path}/work\nvocabulary: {{pieces: 120}}\n"
        f"data: {{format: tsv, path: {tmp_path}/text, high_resource: [tur, por], low_resource: [aze, glg]}}\n"
    )
    return path


def test_the_recipes_are_listed_and_can_be_copied(tmp_path: Path) -> None:
    listed = warm("recipes").stdout
    assert all(name in listed for name in TED)
    copy = tmp_path / "my.yaml"
    copy.write_text(warm("recipes", "ted8-related-m2o").stdout)
    assert load_recipe(str(copy)) == load_recipe("ted8-related-m2o")
    assert warm("recipes", "nope").returncode == 2


def test_doctor_prepare_and_graph_print_tables(recipe: Path, tmp_path: Path) -> None:
    doctor = warm("doctor", str(recipe), "--workers", "1")
    assert doctor.returncode == 0, doctor.stderr
    assert "no errors, 4 warnings" in doctor.stdout  # dev sets smaller than the probe
    assert all(len(line) <= 80 for line in doctor.stdout.splitlines()[:20])
    assert "would be prepared" in warm("prepare", str(recipe), "--dry-run").stdout
    prepare = warm("prepare", str(recipe), "--workers", "1")
    assert prepare.returncode == 0, prepare.stderr
    assert "prepared in" in prepare.stdout
    assert "300" in prepare.stdout
    assert "was there already" in warm("prepare", str(recipe)).stdout
    assert "nothing to do" in warm("prepare", str(recipe), "--dry-run").stdout
    graph = warm("graph", str(recipe))
    assert graph.returncode == 0, graph.stderr
    assert "nearest HRL" in graph.stdout
    assert (tmp_path / "work" / "graph.svg").exists()
    drawn = json.loads((tmp_path / "work" / "graph.json").read_text())
    assert max(drawn["similarity"]["aze"], key=drawn["similarity"]["aze"].get) == "tur"


def test_drops_are_printed_with_their_reasons(recipe: Path, tmp_path: Path) -> None:
    with (tmp_path / "text" / "aze.train.tsv").open("a", encoding="utf-8") as file:
        file.write("\tboş\nbell\x07\tzil\n")
    doctor = warm("doctor", str(recipe), "--workers", "1").stdout
    assert "aze train: 1 empty side" in doctor
    assert "aze train: 1 control characters" in doctor
    assert "aze train: 1 empty side" in warm("prepare", str(recipe), "--workers", "1").stdout


def test_an_error_in_the_text_ends_with_1_and_no_traceback(recipe: Path, tmp_path: Path) -> None:
    with (tmp_path / "text" / "aze.train.tsv").open("a", encoding="utf-8") as file:
        file.write("no tab in this line\n")
    for verb in ("doctor", "prepare", "graph"):
        result = warm(verb, str(recipe), "--workers", "1")
        assert result.returncode == 1
        assert "aze.train.tsv" in result.stdout + result.stderr
        assert "301" in result.stdout + result.stderr
        assert "Traceback" not in result.stderr


def test_a_graph_file_is_used_instead_of_overlap(recipe: Path, tmp_path: Path) -> None:
    own = {"version": 1, "high_resource": ["tur", "por"], "low_resource": ["aze", "glg"]}
    own["similarity"] = {"aze": {"tur": 0.1, "por": 0.2}, "glg": {"tur": 0.3, "por": 0.4}}
    (tmp_path / "own.json").write_text(json.dumps(own))
    result = warm("graph", str(recipe), f"graph.file={tmp_path}/own.json", "--json")
    assert json.loads(result.stdout)["similarity"] == own["similarity"]
    assert not (tmp_path / "work" / "prepared").exists()  # nothing had to be prepared for it
    printed = warm("graph", str(recipe), f"graph.file={tmp_path}/own.json").stdout
    assert "similarities of your own" in printed
    own["low_resource"] = ["aze"]
    own["similarity"] = {"aze": {"tur": 0.1, "por": 0.2}}
    (tmp_path / "own.json").write_text(json.dumps(own))
    wrong = warm("graph", str(recipe), f"graph.file={tmp_path}/own.json")
    assert wrong.returncode == 2
    assert "low_resource is aze, in the recipe aze, glg" in wrong.stderr
    missing = warm("graph", str(recipe), f"graph.file={tmp_path}/none.json")
    assert missing.returncode == 2
    assert "none.json: No such file or directory" in missing.stderr


def test_a_model_with_fewer_subwords_is_reported(recipe: Path) -> None:
    printed = warm("prepare", str(recipe), "vocabulary.pieces=5000", "--workers", "1").stdout
    assert "fewer subwords than the 5,000 asked for" in " ".join(printed.split())


def test_a_read_only_work_folder_is_reported(recipe: Path, tmp_path: Path) -> None:
    own = {"version": 1, "high_resource": ["tur", "por"], "low_resource": ["aze", "glg"]}
    own["similarity"] = {"aze": {"tur": 0.1, "por": 0.2}, "glg": {"tur": 0.3, "por": 0.4}}
    (tmp_path / "own.json").write_text(json.dumps(own))
    (tmp_path / "file").write_text("")
    result = warm("graph", str(recipe), f"graph.file={tmp_path}/own.json", f"work={tmp_path}/file/work")
    assert result.returncode == 1
    assert "Not a directory" in result.stderr


def test_a_graph_needs_both_sides(recipe: Path) -> None:
    result = warm("graph", str(recipe), "data.low_resource=[]", "--workers", "1")
    assert result.returncode == 2
    assert "data.low_resource is empty, and the language graph is between HRLs and LRLs" in result.stderr


def test_the_phrasebook_is_written_as_files(tmp_path: Path) -> None:
    result = warm("phrasebook", "--out", str(tmp_path / "out"))
    assert result.returncode == 0, result.stderr
    assert "Azerbaijani" in result.stdout
    lines = (tmp_path / "out" / "aze.train.tsv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 300
    assert all(line.count("\t") == 1 for line in lines)
    sizes = {code: "20,5,6" for code in ("por", "ces", "aze", "bel", "glg", "slk")} | {"tur": "50,5,6", "rus": "40,5,6"}
    few = [word for code, size in sizes.items() for word in ("--size", f"{code}={size}")]
    smaller = warm("phrasebook", "--out", str(tmp_path / "small"), *few)
    assert smaller.returncode == 0, smaller.stderr
    assert len((tmp_path / "small" / "tur.train.tsv").read_text(encoding="utf-8").splitlines()) == 50
    refused = warm("phrasebook", "--out", str(tmp_path / "no"), "--size", "xyz=1,1,1")
    assert refused.returncode == 2
    assert "expected LANG=TRAIN,DEV,TEST with one of tur, rus" in refused.stderr
    (tmp_path / "file").write_text("")
    wrong = warm("phrasebook", "--out", str(tmp_path / "file" / "out"), *few)
    assert wrong.returncode == 1
    assert "Not a directory" in wrong.stderr


@pytest.mark.slow
def test_the_phrasebook_recipe_is_prepared_and_its_graph_is_right(tmp_path: Path) -> None:
    graph = warm("graph", "phrasebook", f"work={tmp_path}", "--json")
    assert graph.returncode == 0, graph.stderr
    similarity = json.loads(graph.stdout)["similarity"]
    nearest = {lrl: max(row, key=row.__getitem__) for lrl, row in similarity.items()}
    assert nearest == {"aze": "tur", "bel": "rus", "glg": "por", "slk": "ces"}
    prepared = Prepared.open(tmp_path / "prepared")
    assert prepared.sizes["tur"] == {"train": 10_000, "dev": 400, "test": 400}
    assert all(not counts.dropped for lang in prepared.manifest.counts.values() for counts in lang.values())


def test_a_language_missing_from_the_phrasebook_is_refused(tmp_path: Path) -> None:
    result = warm("prepare", "phrasebook", f"work={tmp_path}", "data.low_resource=[kaz]", "--workers", "1")
    assert result.returncode == 1
    assert "the phrasebook has no 'kaz'; it has aze, bel" in result.stderr
