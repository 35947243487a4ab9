"""`cclm export --to ctranslate2`: a folder that needs neither cclm nor torch, and that cclm opens too."""

import ast
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import cclm
from cclm.cli.entry import cli
from cclm.errors import ConfigError, DataError, TrainingError
from cclm.evaluation.evaluate import Evaluation
from cclm.formats.export import MANIFEST
from cclm.translation import package
from cclm.translation.export import ExportError
from cclm.translation.package import SCRIPTS, export_run

TEXTS = ["su ev", "", "  ", "<2glg> su </s>", "naïve ☃ kitab", "dəniz\u2028quş", "\ufeffev\tsu\x00yol", "gün daş"]
LIBRARIES = {
    "ctranslate2": {"ctranslate2", "sentencepiece"},
    "huggingface": {"torch", "transformers", "sentencepiece"},
    "ctranslate2_pretrained": {"ctranslate2", "transformers"},
    "huggingface_pretrained": {"torch", "transformers"},
}


def scripted(export: Path, source: str, target: str) -> list[str]:
    command = [sys.executable, "-P", export / "translate.py", source, target]
    text = "".join(line + "\n" for line in TEXTS).encode()
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, check=True).stdout.decode().split("\n")[:-1]


def checksums(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def exported(into_english: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_run(into_english, "ctranslate2", tmp_path_factory.mktemp("exports") / "fast")


@pytest.mark.parametrize("to", LIBRARIES)
def test_the_scripts_import_nothing_of_ours(to: str) -> None:
    tree = ast.parse((SCRIPTS / f"{to}.py").read_text())
    found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    found |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert found - {"json", "re", "sys", "pathlib"} == LIBRARIES[to]


@pytest.mark.slow
def test_script_and_cclm_translate_as_the_run_does(exported: Path, into_english: Path) -> None:
    expected = cclm.load(into_english).translate(TEXTS, source="aze")
    assert cclm.load(exported).translate(TEXTS, source="aze") == expected
    assert scripted(exported, "aze", "eng") == expected


@pytest.mark.slow
def test_a_restricted_export_is_restricted_everywhere(out_of_english: Path, tmp_path: Path) -> None:
    export = export_run(out_of_english, "ctranslate2", tmp_path / "fast", "int8")
    expected = cclm.load(out_of_english, quantization="int8").translate(TEXTS, target="glg")
    assert scripted(export, "eng", "glg") == cclm.load(export).translate(TEXTS, target="glg") == expected
    assert json.loads((export / MANIFEST).read_text())["search"]["restrict"] is True
    assert "- int8, " in (export / "README.md").read_text(encoding="utf-8")
    with pytest.raises(ConfigError, match="exported as int8, not float32; export the run again"):
        cclm.load(export, quantization="float32")


def test_the_command_prints_the_folder_and_translate_takes_it(into_english: Path, exported: Path) -> None:
    result = CliRunner().invoke(cli, ["export", str(into_english), "--to", "ctranslate2", "--output", str(exported)])
    assert result.stdout == f"{exported}\n"  # an export of ours is replaced
    text = exported.parent / "aze.txt"
    text.write_text("su ev\n", encoding="utf-8")
    result = CliRunner().invoke(cli, ["translate", str(exported), "--source", "aze", "--input", str(text)])
    assert result.stdout.strip() == cclm.load(into_english).translate(["su ev"], source="aze")[0]


def test_the_run_itself_is_not_changed(into_english: Path, tmp_path: Path) -> None:
    before = checksums(into_english / "checkpoints")
    folder = export_run(into_english, "ctranslate2")
    assert folder == into_english / "export" / "ctranslate2"
    assert checksums(into_english / "checkpoints") == before


@pytest.mark.slow
def test_the_card_has_scores_of_the_exported_checkpoint_alone(into_english: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(into_english.parent.parent, tmp_path / "work", symlinks=True)) / "runs" / "small"
    scores = Evaluation(run).score()
    card = (export_run(run, "ctranslate2", tmp_path / "scored") / "README.md").read_text(encoding="utf-8")
    row = scores.languages["aze"]
    assert f"| aze | eng | 120 | {row['bleu']:.1f} ({row['bleu_low']:.1f}-{row['bleu_high']:.1f}) |" in card
    assert scores.signature.bleu in card
    other = scores.signature.model_copy(update={"checkpoint": "step-00000001 0123456789abcdef"})
    scores.model_copy(update={"signature": other}).write(run / "scores.json")
    card = (export_run(run, "ctranslate2", tmp_path / "unscored") / "README.md").read_text(encoding="utf-8")
    assert "Not scored" in card
    assert scores.signature.bleu not in card


def test_what_cannot_be_exported_or_opened_is_refused(
    into_english: Path, exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="was not made by cclm"):
        export_run(into_english, "ctranslate2", tmp_path / "mine")
    (tmp_path / "bitext").mkdir()
    (tmp_path / "bitext" / "recipe.json").write_text("{}")
    with pytest.raises(ConfigError, match="a folder of bitext models; give one of them"):
        export_run(tmp_path / "bitext", "ctranslate2")
    result = CliRunner().invoke(cli, ["export", "run", "--to", "huggingface", "--quantization", "int8"])
    assert (result.exit_code, "int8 goes with --to ctranslate2" in result.stderr) == (2, True)
    monkeypatch.setattr(package, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="needs transformers: pip install"):
        export_run(into_english, "huggingface", tmp_path / "hub")
    damaged = Path(shutil.copytree(exported, tmp_path / "damaged"))
    (damaged / "model" / "model.bin").write_bytes(b"")
    with pytest.raises(DataError, match="a file of the model is missing or damaged; export the run again"):
        cclm.load(damaged)
    with pytest.raises(ConfigError, match="cclm translates with a run, or with what `cclm export --to ctranslate2`"):
        cclm.load(into_english / "ctranslate2" / "float32")


def test_no_folder_is_made_for_a_run_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^[^:]*absent: no run here"):
        export_run(tmp_path / "absent", "ctranslate2")
    assert not (tmp_path / "absent").exists()


def test_an_export_that_fails_leaves_no_folder(
    into_english: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ExportError("its logits are wrong")

    monkeypatch.setattr(package, "model_card", fails)
    with pytest.raises(TrainingError, match="hub: the export was withdrawn: its logits are wrong"):
        export_run(into_english, "ctranslate2", tmp_path / "hub")
    assert list(tmp_path.iterdir()) == []
