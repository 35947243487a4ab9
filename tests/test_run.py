"""A recipe from text to report in one command, and what it leaves behind."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from corpora import write_tsv
from warm_commands import warm

from cclm.training.lock import owner_of

RECIPE = """version: 1
name: small
work: {folder}/work
data: {{format: tsv, path: {folder}/text, high_resource: [tur, por], low_resource: [aze, glg], direction: {direction}}}
vocabulary: {{pieces: 120}}
model: {{layers: 1, heads: 2, width: 32, feed_forward: 64, dropout: 0.1}}
curriculum: {{gate: {{threshold: 0.5}}, every: 10, dev_sample: 8}}
benchmark: {{max_steps: 20}}
training: {{batch_tokens: 400, accumulate: 1, learning_rate: 0.01, warmup: 20, max_steps: 60, validate_every: 20,
            device: cpu, precision: fp32}}
"""


STAGES = ["prepare", "graph", "benchmark", "train", "translate", "score", "report"]


def skipped(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line.split()[0] for line in done.stderr.splitlines() if line.endswith("skipped: nothing has changed")]


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["many-to-one", "one-to-many"])
def test_a_recipe_goes_from_text_to_report(tmp_path: Path, direction: str) -> None:
    write_tsv(tmp_path / "text")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(RECIPE.format(folder=tmp_path, direction=direction))
    done = warm("run", str(recipe))
    assert done.returncode == 0, done.stderr
    run = tmp_path / "work" / "runs" / "small"
    assert done.stdout.splitlines()[-1] == str(run / "report.html")
    scores = json.loads((run / "scores.json").read_text())
    assert set(scores["languages"]) == {"tur", "por", "aze", "glg"}
    assert set(scores["means"]) == {"all", "hrl", "lrl", "worst"}
    pair = "aze-eng" if direction == "many-to-one" else "eng-aze"
    lines = (run / "translations" / f"test.{pair}.txt").read_text().split("\n")[:-1]
    assert len(lines) == 20
    page = (run / "report.html").read_text()
    assert "aze" in page
    assert (tmp_path / "work" / "graph.json").exists()  # the page draws it
    assert owner_of(run) is None
    assert [line.split()[0] for line in done.stderr.splitlines() if " done in " in line] == STAGES
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("*")}
    again = warm("run", str(recipe))
    assert again.returncode == 0, again.stderr
    assert again.stderr.splitlines() == [f"{stage:<10} skipped: nothing has changed" for stage in STAGES]
    assert again.stdout == done.stdout
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("*")} == before
    sacrebleu = subprocess.run(
        [sys.executable, "-m", "sacrebleu", str(run / "translations" / f"test.{pair}.reference.txt"),
         "-i", str(run / "translations" / f"test.{pair}.txt"), "-b", "-w", "6"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert float(sacrebleu.stdout) == pytest.approx(scores["languages"]["aze"]["bleu"], abs=1e-5)


@pytest.mark.slow
def test_the_bitext_models_are_scored_as_one_system(tmp_path: Path) -> None:
    write_tsv(tmp_path / "text")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(RECIPE.format(folder=tmp_path, direction="one-to-many"))
    assert warm("benchmark", str(recipe)).returncode == 0
    bitext = tmp_path / "work" / "runs" / "bitext"
    done = warm("score", str(bitext), "--json")
    assert done.returncode == 0, done.stderr
    scores = json.loads((bitext / "scores.json").read_text())
    assert json.loads(done.stdout) == scores
    assert list(scores["languages"]) == ["tur", "por", "aze", "glg"]
    bleu = {lang: row["bleu"] for lang, row in scores["languages"].items()}
    assert scores["means"]["lrl"] == pytest.approx((bleu["aze"] + bleu["glg"]) / 2)
    alone = warm("score", str(bitext / "aze"), "--json")  # each has translated with its own model
    assert json.loads(alone.stdout)["languages"] == {"aze": scores["languages"]["aze"]}
    ours, its = (folder / "translations" / "test.eng-aze.txt" for folder in (bitext, bitext / "aze"))
    assert ours.read_bytes() == its.read_bytes()
    (bitext / "glg" / "checkpoints" / "best").unlink()
    missing = warm("translate", str(bitext))
    assert missing.returncode == 2
    assert "bitext/glg: no best checkpoint yet" in missing.stderr


@pytest.mark.slow
def test_languages_of_one_kind_train_where_no_gate_asks_for_a_graph(tmp_path: Path) -> None:
    write_tsv(tmp_path / "text")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(RECIPE.format(folder=tmp_path, direction="many-to-one"))
    (tmp_path / "losses.json").write_text(json.dumps({"version": 1, "losses": {"tur": 4.0, "por": 4.0}}))
    settings = ["data.low_resource=[]", f"benchmark.file={tmp_path}/losses.json", "training.max_steps=20"]
    refused = warm("run", str(recipe), *settings)
    assert refused.returncode == 2
    assert "data.low_resource is empty, and the competence gate admits LRLs by the competence of HRLs" in refused.stderr
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "graph.json").write_text("of other languages")
    done = warm("run", str(recipe), *settings, "curriculum={gate: {name: all}, sampler: {name: temperature}}")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "work" / "graph.json").read_text() == "of other languages"
    assert "graph.json: not JSON" in done.stderr
    assert "no language graph is drawn" in done.stderr
    scores = json.loads((tmp_path / "work" / "runs" / "small" / "scores.json").read_text())
    assert (set(scores["languages"]), scores["means"]["lrl"]) == ({"tur", "por"}, None)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    for verb in ("translate", "score"):
        result = warm(verb, str(tmp_path))
        assert result.returncode == 2
        assert "no run here (it has no config.yaml)" in result.stderr
    result = warm("report", str(tmp_path))
    assert result.returncode == 2
    assert "no run here" in result.stderr


@pytest.mark.slow
def test_scores_follow_a_run_that_went_on_and_leave_out_who_has_no_test_set(tmp_path: Path) -> None:
    write_tsv(tmp_path / "text")
    (tmp_path / "text" / "glg.test.tsv").unlink()
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(RECIPE.format(folder=tmp_path, direction="many-to-one"))
    losses = {"version": 1, "losses": dict.fromkeys(("tur", "por", "aze", "glg"), 4.0)}
    (tmp_path / "losses.json").write_text(json.dumps(losses))
    uniform = "curriculum={gate: {name: all}, sampler: {name: temperature, tau: .inf}}"
    settings = [f"benchmark.file={tmp_path}/losses.json", uniform]
    first = warm("run", str(recipe), *settings, "training.max_steps=20")
    assert first.returncode == 0, first.stderr
    run = tmp_path / "work" / "runs" / "small"
    scores = json.loads((run / "scores.json").read_text())
    assert set(scores["languages"]) == {"tur", "por", "aze"}
    assert scores["signature"]["checkpoint"].startswith("step-00000020 ")
    second = warm("run", str(recipe), *settings, "training.max_steps=40")
    assert second.returncode == 0, second.stderr
    assert skipped(second) == ["prepare", "graph", "benchmark"]
    longer = json.loads((run / "scores.json").read_text())
    assert longer["signature"]["checkpoint"].split()[0] == (run / "checkpoints" / "best").read_text().strip()
    greedy = warm("run", str(recipe), *settings, "training.max_steps=40", "translation={beam: 1, length_penalty: 0.5}")
    assert greedy.returncode == 0, greedy.stderr
    assert skipped(greedy) == ["prepare", "graph", "benchmark", "train"]
    other = json.loads((run / "scores.json").read_text())
    assert (other["signature"]["beam"], other["signature"]["length_penalty"]) == (1, 0.5)
    assert other["languages"] != longer["languages"]
    refused = warm("run", str(recipe), *settings, "model.width=64")  # before anything is made for it
    assert refused.returncode == 1
    assert "  model.width: 32 -> 64" in refused.stderr
    (run / "checkpoints" / "best").unlink()
    assert "no best checkpoint yet" in warm("score", str(run)).stderr
    (run / "config.yaml").write_text("{")
    assert "config.yaml: damaged" in warm("score", str(run)).stderr
