"""What the commands say and take: precision, saving, an L* that is of no use, extras, public names."""

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from off_path.cli import cclm, copy_of, done, finish, start, wait_for, write_text
from ruamel.yaml import YAML

ROOT = Path(__file__).parent.parent.parent
LONG = ("training.max_steps=100000", "training.validate_every=100000", "training.patience=1000")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prepared text, a table of L* that serves, and one that does not."""
    folder = tmp_path_factory.mktemp("prepared")
    write_text(folder)
    for name, loss in (("table.json", 5.0), ("useless.json", 50.0)):
        (folder / name).write_text(json.dumps({"version": 1, "losses": {"tur": 5.0, "aze": loss}}))
    done(folder, "prepare", "recipe.yaml")
    return folder


@pytest.fixture
def folder(prepared: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return copy_of(prepared, tmp_path)


TRAIN = ("train", "recipe.yaml", "benchmark.file=table.json", "training.max_steps=5")


# Precision


def precision(folder: Path) -> str:
    config = YAML(typ="safe", pure=True).load((folder / "work/runs/small/config.yaml").read_text())
    return str(config["training"]["precision"])


@pytest.mark.slow
def test_automatic_precision_of_a_small_model_on_one_thread_is_fp32_and_stands_in_the_run(folder: Path) -> None:
    """Width 16 on one thread: half precision is slower there on every processor."""
    done(folder, *TRAIN, "training.precision=auto")
    assert precision(folder) == "fp32"


@pytest.mark.slow
def test_a_run_goes_on_in_the_precision_it_was_begun_in(folder: Path) -> None:
    """`auto` on a run that is there means the run's own: without one it is fp32 for a model this small."""
    done(folder, *TRAIN, "training.precision=bf16")
    done(folder, *TRAIN[:-1], "training.max_steps=10", "training.precision=auto")
    assert precision(folder) == "bf16"


# Saving


@pytest.mark.slow
def test_a_training_saves_more_often_than_it_validates(folder: Path) -> None:
    """training.save_every, in steps: what was killed before its first validation goes on from there."""
    process = start(folder, *TRAIN[:-1], *LONG, "training.save_every=5")
    wait_for(lambda: [*(folder / "work" / "runs" / "small").glob("checkpoints/step-*")], process)
    os.killpg(process.pid, signal.SIGKILL)
    finish(process)
    (run,) = json.loads(done(folder, "runs", "work", "--json").stdout)
    assert run["step"] >= 5


@pytest.mark.slow
def test_a_run_that_only_a_signal_saved_is_not_said_to_have_no_checkpoint(folder: Path) -> None:
    """It was not validated yet, hence there is no best checkpoint: the message says that, and the step it is at."""
    process = start(folder, *TRAIN[:-1], *LONG)
    wait_for((folder / "work" / "runs" / "small" / "log.jsonl").exists, process)
    process.send_signal(signal.SIGTERM)
    finish(process)
    (checkpoint,) = (folder / "work" / "runs" / "small").glob("checkpoints/step-*")
    result = cclm(folder, "score", "work/runs/small")
    assert result.returncode in (1, 2)
    assert "no checkpoint yet" not in result.stderr
    assert f"step {int(checkpoint.name.removeprefix('step-'))}" in result.stderr


# L* that is of no use


@pytest.mark.slow
def test_a_bitext_loss_far_worse_than_the_shared_model_is_warned_of(folder: Path) -> None:
    """The run goes on; the warning names the language and L*."""
    told = done(folder, "train", "recipe.yaml", "benchmark.file=useless.json", "training.max_steps=5")
    assert re.search(r"warning.*\baze\b", told.stderr)
    assert not re.search(r"warning.*\btur\b", told.stderr)


@pytest.mark.slow
def test_bitext_models_worse_than_a_unigram_are_warned_of(folder: Path) -> None:
    """After one step with hardly any learning rate they know less than the frequencies of the symbols."""
    told = done(folder, "benchmark", "recipe.yaml", "benchmark.max_steps=1", "training.learning_rate=1e-9")
    assert all(re.search(rf"warning.*\b{lang}\b", told.stderr) for lang in ("tur", "aze"))


# Dry runs


@pytest.mark.slow
def test_a_dry_run_tells_the_time(folder: Path) -> None:
    """Estimated seconds for each stage that trains, and for all of them."""
    facts = json.loads(done(folder, "train", "recipe.yaml", "--dry-run", "--json").stdout)
    assert facts["seconds"] > 0
    assert all(stage["seconds"] > 0 for stage in facts["stages"] if stage["steps"])


# Text of the commands


def test_a_printed_recipe_ends_its_last_line(tmp_path: Path) -> None:
    """A file made of it can be added to."""
    names = [line.split()[0] for line in done(tmp_path, "recipes").stdout.splitlines()]
    assert [name for name in names if not done(tmp_path, "recipes", name).stdout.endswith("\n")] == []


# Extras and public names

PACKAGES = {
    "train": ("torch", "sentencepiece", "safetensors", "sacrebleu", "ctranslate2"),
    "hf": ("transformers", "datasets"),
    "tensorboard": ("tensorboard",),
    "langid": ("py3langid",),
    "zstd": ("zstandard",),
}
HIDE = """import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
"""
WITHOUT = [
    ("train", ["prepare", "recipe.yaml"]),
    ("train", ["benchmark", "recipe.yaml"]),
    ("train", ["run", "recipe.yaml"]),
    ("train", ["sweep", "recipe.yaml"]),
    ("train", ["study", "phrasebook"]),
    ("train", ["demo"]),
    ("train", ["score", "work/runs/small"]),
    ("train", ["translate", "work/runs/small"]),
    ("train", ["compare", "one", "two"]),
    ("tensorboard", [*TRAIN, "--tensorboard"]),
    ("hf", ["doctor", "recipe.yaml", "data.format=huggingface", "data.path=text/{lang}.{split}.parquet"]),
    ("zstd", ["doctor", "recipe.yaml", "data.path=text/{lang}.{split}.tsv.zst"]),
    ("langid", ["doctor", "recipe.yaml", "data.wrong_language=drop"]),
]


def hidden(folder: Path, *extras: str) -> dict[str, str]:
    """An environment in which the packages of these extras cannot be imported, as if they were not installed."""
    names = {package for extra in extras for package in PACKAGES[extra]}
    (folder / "hide").mkdir()
    (folder / "hide" / "sitecustomize.py").write_text(HIDE.format(names=names))
    return {"PYTHONPATH": os.pathsep.join([str(folder / "hide"), os.environ.get("PYTHONPATH", "")])}


@pytest.mark.slow
@pytest.mark.parametrize(("extra", "command"), WITHOUT, ids=[f"{extra}-{command[0]}" for extra, command in WITHOUT])
def test_a_command_without_its_extra_names_it(folder: Path, extra: str, command: list[str]) -> None:
    """The name of the extra, as pip takes it, and no traceback."""
    for path in [*(folder / "text").iterdir()]:
        if extra == "zstd":
            path.with_suffix(".tsv.zst").write_bytes(b"\x28\xb5\x2f\xfd")  # as such files begin
        elif extra == "hf":
            path.with_suffix(".parquet").write_bytes(b"PAR1")
    result = cclm(folder, *command, environment=hidden(folder, extra))
    assert result.returncode == (0 if extra == "tensorboard" else 1), result.stdout  # drawing is no part of training
    assert f"ccl-m[{extra}]" in (result.stdout + result.stderr).replace("\n", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["doctor", "recipe.yaml"],
        ["recipes"],
        ["simulate", "related", "--no-thresholds"],
        ["phrasebook", "--out", "book"],
    ],
    ids=lambda command: command[0],
)
def test_a_command_that_needs_no_extra_works_without_any(folder: Path, command: list[str]) -> None:
    """With the packages alone that every installation has."""
    done(folder, *command, environment=hidden(folder, *PACKAGES))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_for_a_shell_is_printed(tmp_path: Path, shell: str) -> None:
    """As click does it: what is printed can be sourced."""
    told = done(tmp_path, environment={"_CCLM_COMPLETE": f"{shell}_source"})
    assert "_CCLM_COMPLETE" in told.stdout


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["be"], ["benchmark"]),
        (["s"], ["score", "serve", "simulate", "study", "sweep"]),
        (["train", "recipe.yaml", "--dry"], ["--dry-run"]),
    ],
    ids=lambda words: words[-1],
)
def test_commands_and_options_are_completed(tmp_path: Path, words: list[str], offered: list[str]) -> None:
    """As bash asks for it when the tabulator key is hit."""
    asked = {"_CCLM_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(["cclm", *words]), "COMP_CWORD": str(len(words))}
    told = done(tmp_path, environment=asked).stdout
    assert [line.removeprefix("plain,") for line in told.splitlines()] == offered


@pytest.mark.parametrize("name", ["BatchSampler", "IndexSampler"])
def test_the_samplers_are_public(name: str) -> None:
    """Importable from the package itself, without torch."""
    program = (
        f"from cclm import {name}; import cclm, sys; assert {name!r} in cclm.__all__ and 'torch' not in sys.modules"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_the_extra_for_hugging_face_brings_accelerate() -> None:
    """As the package says what it depends on."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert [package for package in extras["hf"] if package.startswith("accelerate")]
