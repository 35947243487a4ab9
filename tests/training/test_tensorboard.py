"""RUN/tensorboard, read back with TensorBoard's own reader: what the log says, once, whatever happened in between."""

import json
import math
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from small_recipe import events, prepared, recipe
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from cclm.curriculum import LanguageGraph
from cclm.data.prepared import Prepared
from cclm.formats.log import Train, Validation
from cclm.training.log import TensorBoard
from cclm.training.session import Options, train

GRAPH = LanguageGraph(
    ["tur", "por"], ["aze", "glg"], {"aze": {"tur": 0.5, "por": 0.1}, "glg": {"tur": 0.1, "por": 0.6}}
)
BENCHMARK = dict.fromkeys(("tur", "por", "aze", "glg"), 4.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tracking")


@pytest.fixture(scope="module")
def data(folder: Path) -> Prepared:
    torch.set_num_threads(1)
    return prepared(folder)


def trained(folder: Path, data: Prepared, name: str, *changes: str, tensorboard: bool = True) -> Path:
    train(recipe(folder, *changes), data, GRAPH, BENCHMARK, folder / name, Options(tensorboard=tensorboard))
    return folder / name


def drawn(run: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard would show: (step, value) of every curve."""
    reader = EventAccumulator(str(run / "tensorboard"))
    reader.Reload()
    return {tag: [(e.step, e.value) for e in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}


def logged(run: Path) -> Iterator[tuple[str, int, float]]:
    """(curve, step, value) of the log, spelt out."""
    for event in events(run):
        step = event["step"]
        if event["event"] == "train":
            for name in ("loss", "nll", "learning_rate", "skipped"):
                yield f"train/{name}", step, event[name]
            tables = ["draws", "tokens"]
        elif event["event"] == "probe":
            tables = ["dev_loss", "competence", "hrls_competence", "weights"]
        elif event["event"] == "validation":
            yield "validation/weighted", step, event["weighted"]
            yield "validation/macro", step, event["macro"]
            yield "validation_worst/loss", step, event["worst"]["loss"]
            tables = ["dev_loss", "nll"]
        else:
            continue
        for table in tables:
            for lang, value in event[table].items():
                yield f"{event['event']}_{table}/{lang}", step, value


def as_logged(run: Path) -> dict[str, list[tuple[int, float]]]:
    curves: dict[str, list[tuple[int, float]]] = {}
    for tag, step, value in logged(run):
        curves.setdefault(tag, []).append((step, pytest.approx(value, rel=1e-6)))  # TensorBoard keeps 32 bits
    return curves


def compared(run: Path) -> dict[str, bytes]:
    """What must be equal to the byte."""
    latest = run / "checkpoints" / (run / "checkpoints" / "latest").read_text().strip()
    names = ("model.safetensors", "optimizer.safetensors", "curriculum.json", "progress.json")
    return {name: (latest / name).read_bytes() for name in names} | {"log": (run / "log.jsonl").read_bytes()}


@pytest.fixture(scope="module")
def plain(folder: Path, data: Prepared) -> Path:
    """A run of 100 steps that draws nothing."""
    return trained(folder, data, "plain", "training.max_steps=100", tensorboard=False)


def test_every_number_of_the_log_is_drawn_and_the_training_is_the_same(
    folder: Path, data: Prepared, plain: Path
) -> None:
    run = trained(folder, data, "drawn", "training.max_steps=100")
    assert len(as_logged(run)) > 30
    assert drawn(run) == as_logged(run)
    assert compared(run) == compared(plain)
    assert not (plain / "tensorboard").exists()


def test_what_came_after_the_checkpoint_is_drawn_once(folder: Path, data: Prepared, plain: Path) -> None:
    run = trained(folder, data, "purged", "training.max_steps=100")
    shutil.rmtree(run / "checkpoints" / "step-00000100")  # as if it had been killed just before it was saved
    trained(folder, data, "purged", "training.max_steps=100")
    assert [step for step, _ in drawn(run)["train/loss"]] == [50, 100]
    assert len(list((run / "tensorboard").iterdir())) == 2
    assert drawn(run) == as_logged(run)
    assert compared(run) == compared(plain)


def test_a_run_that_goes_on_with_tensorboard_is_drawn_from_its_start(folder: Path, data: Prepared) -> None:
    trained(folder, data, "later", tensorboard=False)
    run = trained(folder, data, "later", "training.max_steps=30")
    assert drawn(run) == as_logged(run)
    assert drawn(run)["probe_weights/tur"][0][0] == 5


def test_a_number_that_is_none_is_nan(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("")
    board = TensorBoard(tmp_path, 0, pytest.fail)
    board.write(Validation(step=1, dev_loss={"aze": None, "tur": 4.0}, bleu={"aze": 7.5}, mean_bleu=7.5))
    board.close()
    curves = drawn(tmp_path)
    assert math.isnan(curves["validation_dev_loss/aze"][0][1])
    assert curves["validation_dev_loss/tur"] == [(1, 4.0)]
    assert curves["validation_bleu/aze"] == curves["validation/mean_bleu"] == [(1, 7.5)]


def test_a_file_where_the_folder_should_be_is_told_once_and_changes_nothing(
    folder: Path, data: Prepared, plain: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "blocked").mkdir()
    (folder / "blocked" / "tensorboard").write_text("a file where the folder should be")
    run = trained(folder, data, "blocked", "training.max_steps=100")
    told = capfd.readouterr().err
    assert told.count("File exists") == told.count("the training goes on without it") == 1
    assert compared(run) == compared(plain)


def test_a_full_disk_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("")
    told: list[str] = []
    board = TensorBoard(tmp_path, 0, told.append)
    board.write(Train(step=1, loss=4.0))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))  # no file may grow beyond 200 bytes
    try:
        for step in range(2, 20):
            board.write(Train(step=step, loss=4.0))
        board.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(told) == 1
    assert "File too large; the training goes on without it" in told[0]
    assert drawn(tmp_path)["train/loss"][0] == (1, 4.0)


PROGRAM = """
import sys
sys.modules["tensorboard"] = None  # as if it were not installed
from pathlib import Path
from cclm.formats.log import Train
from cclm.training.log import TensorBoard
board = TensorBoard(Path(sys.argv[1]), 0, print)
board.write(Train(step=1, loss=4.0))
board.close()
"""


def test_without_the_package_the_extra_is_named_once(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 1
    assert "pip install 'ccl-m[tensorboard]'" in done.stdout
    assert not (tmp_path / "tensorboard").exists()


@pytest.mark.slow
def test_the_command_draws(folder: Path, data: Prepared) -> None:
    path = folder / "command.yaml"
    (folder / "losses.json").write_text(json.dumps({"version": 1, "losses": BENCHMARK}))
    content = recipe(folder, f"benchmark.file={folder}/losses.json", "name=command").model_dump()
    path.write_text(json.dumps(content))
    command = [sys.executable, "-m", "cclm", "train", str(path), "--tensorboard"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    run = Path(done.stdout.strip())
    assert drawn(run) == as_logged(run)
