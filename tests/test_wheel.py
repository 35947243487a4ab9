"""The wheel, as users install it: in an environment of its own, elsewhere, with everything that a run needs in it."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SMALL = ["data.high_resource=[aze]", "data.low_resource=[bel]", "vocabulary.pieces=200", "graph.k=100"]
SMALL += ["model={layers: 1, heads: 2, width: 16, feed_forward: 16, dropout: 0.1}", "translation.beam=1"]
SMALL += [
    "benchmark.max_steps=4",
    "training.max_steps=4",
    "training.validate_every=2",
    "training.warmup=2",
    "curriculum.every=2",
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run([*command, "-c", str(ROOT / "constraints.txt")], check=True, stdin=subprocess.DEVNULL)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel; what it depends on comes from the one that runs the tests."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, str(wheel)], check=True)
    own = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    # A folder named in a .pth file is searched last, and .pth files inside it are not obeyed: an editable cclm is not.
    (Path(own.stdout.strip()) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def run(installed: Path, elsewhere: Path, *command: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [installed / command[0], *command[1:]],
        capture_output=True, text=True, check=False, cwd=elsewhere, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel: Path) -> None:
    source = ROOT / "src"
    ours = {p.relative_to(source).as_posix() for p in source.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.startswith("ccl_m-")}
    assert names == {name for name in ours if name.startswith("cclm/")}
    kinds = ("py.typed", "tables.json", "page.css", "phrasebook.yaml")  # the comparison has something to compare
    assert all(any(name.endswith(kind) for name in names) for kind in kinds)


@pytest.mark.slow
def test_a_recipe_goes_from_text_to_report_in_an_environment_of_its_own(installed: Path, tmp_path: Path) -> None:
    where = run(installed, tmp_path, "python", "-c", "import cclm; print(cclm.__file__)")
    assert Path(where.strip()).is_relative_to(installed.parent)
    assert "ted8-related-m2o" in run(installed, tmp_path, "cclm", "recipes")
    assert "step" in run(installed, tmp_path, "cclm", "simulate", "diverse", "--no-thresholds")  # the paper's tables
    done = run(installed, tmp_path, "cclm", "run", "phrasebook", "work=here", *SMALL)
    assert done.splitlines()[-1] == "here/runs/phrasebook/report.html"
    assert "<script>" in (tmp_path / "here" / "runs" / "phrasebook" / "report.html").read_text()
    translated = run(
        installed, tmp_path, "python", "-c",
        "import cclm; print(len(cclm.load('here/runs/phrasebook').translate(['Sabahınız xeyir.'], source='aze')))",
    )  # fmt: skip
    assert translated == "1\n"
