"""`--trackio`: the log in Trackio's own database, read back with its own reader; and no error of it ends a training."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from small_recipe import BENCHMARK, GRAPH, prepared, recipe

PROGRAM = """
import sys
from pathlib import Path
from cclm.formats.log import Saved, Train, Probe
from cclm.training.log import Trackio
told = []
curves = Trackio(Path(sys.argv[1]), told.append)
for step in (1, 2):
    curves.write(Train(step=step, loss=4.0 / step, draws={"aze": 3}))
curves.write(Probe(step=2, dev_loss={"aze": 5.0, "bel": None}))
curves.write(Saved(step=2))
curves.close()
print(told)
"""
READ = """
import json
from trackio.sqlite_storage import SQLiteStorage
print(json.dumps(SQLiteStorage.get_logs("cclm", "run")))
"""


def done(program: str, *arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = os.environ | {"TRACKIO_DIR": str(folder / "trackio")} | environment
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=variables)


def test_every_number_of_the_log_can_be_read_back(tmp_path: Path) -> None:
    written = done(PROGRAM, str(tmp_path / "run"), folder=tmp_path)
    assert written.stdout == "[]\n"  # standard output belongs to the command
    found = json.loads(done(READ, folder=tmp_path).stdout)
    plain = [{name: value for name, value in one.items() if name != "timestamp"} for one in found]
    assert plain == [
        {"step": 1, "train/loss": 4.0, "train_draws/aze": 3},
        {"step": 2, "train/loss": 2.0, "train_draws/aze": 3},
        {"step": 2, "probe_dev_loss/aze": 5.0},
    ]


def test_an_error_is_told_once_and_nothing_ends(tmp_path: Path) -> None:
    written = done(PROGRAM, str(tmp_path / "run"), folder=tmp_path, TRACKIO_SERVER_URL="nonsense")
    assert written.stdout.count("the training goes on without it") == 1


def test_without_the_package_the_extra_is_named_once(tmp_path: Path) -> None:
    written = done("import sys; sys.modules['trackio'] = None\n" + PROGRAM, str(tmp_path), folder=tmp_path)
    assert written.stdout.count("pip install 'ccl-m[trackio]'") == 1


@pytest.mark.slow
def test_the_command_logs_and_prints_what_it_always_prints(tmp_path: Path) -> None:
    prepared(tmp_path)
    (tmp_path / "losses.json").write_text(json.dumps({"version": 1, "losses": BENCHMARK}))
    content = recipe(tmp_path, f"benchmark.file={tmp_path}/losses.json", "name=run").model_dump()
    (tmp_path / "recipe.yaml").write_text(json.dumps(content))
    command = [sys.executable, "-m", "cclm", "train", str(tmp_path / "recipe.yaml"), "--trackio"]
    variables = os.environ | {"TRACKIO_DIR": str(tmp_path / "trackio")}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    assert ended.returncode == 0, ended.stderr
    run = Path(ended.stdout.strip())
    found = json.loads(done(READ, folder=tmp_path).stdout)
    probes = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines() if '"probe"' in line]
    drawn = {one["step"]: one["probe_dev_loss/tur"] for one in found if "probe_dev_loss/tur" in one}
    assert len(probes) >= 4
    assert drawn == {probe["step"]: pytest.approx(probe["dev_loss"]["tur"]) for probe in probes}
    assert all(math.isfinite(value) for one in found for name, value in one.items() if name != "timestamp")
    assert set(GRAPH.languages) == set(BENCHMARK)
