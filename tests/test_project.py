"""The project about itself: versions agree, documents name what exists, commands in them run."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from corpora import write_tsv
from trained_run import trained_run

import cclm

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_version_is_the_same_everywhere() -> None:
    assert PYPROJECT["project"]["version"] == cclm.__version__
    assert f"version: {cclm.__version__}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {cclm.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_direct_dependency_is_pinned() -> None:
    pinned = {line.split("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line}
    groups = [PYPROJECT["project"]["dependencies"], *PYPROJECT["project"]["optional-dependencies"].values()]
    names = {re.split(r"[>=\[]", requirement)[0] for group in groups for requirement in group}
    names |= set(PYPROJECT["build-system"]["requires"])
    assert names - {"ccl-m"} == pinned
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text()


@pytest.mark.parametrize("document", ["docs/paper.md", "docs/architecture.md", "CONTRIBUTING.md", "README.md"])
def test_files_named_in_the_documents_exist(document: str) -> None:
    text = (ROOT / document).read_text()
    named = re.findall(r"`((?:src|tests|docs|examples|benchmarks)/[\w./-]+)`", text)
    assert named, "a document that names no file is not checked by this test"
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_functions_and_tests_named_in_the_paper_document_exist() -> None:
    text = (ROOT / "docs" / "paper.md").read_text()
    source = "\n".join(path.read_text() for path in ROOT.glob("src/**/*.py"))
    tests = "\n".join(path.read_text() for path in ROOT.glob("tests/**/*.py"))
    for name in re.findall(r"`(test_\w+)`", text):
        assert f"def {name}(" in tests, name
    functions = re.findall(r"`(\w+)\(\)`", text)
    assert len(functions) >= 10
    for name in functions:
        assert re.search(rf"(def|class) {name}\b", source), name


def readme_commands() -> list[str]:
    """The `$ cclm ...` lines of the README."""
    return re.findall(r"^\$ (cclm .+)$", (ROOT / "README.md").read_text(), flags=re.MULTILINE)


def test_the_readme_has_commands() -> None:
    assert len(readme_commands()) >= 3


@pytest.mark.parametrize("command", readme_commands())
def test_the_readmes_commands_run(command: str, tmp_path: Path) -> None:
    head = command.partition(" > ")[0]
    arguments = [sys.executable, "-m", *shlex.split(head)]
    if arguments[-1] == "mine.yaml":
        yaml = subprocess.run([*arguments[:-1], "related", "--yaml"], capture_output=True, text=True, check=True)
        (tmp_path / "mine.yaml").write_text(yaml.stdout)
    result = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout


def readme_python(*, translates: bool) -> list[str]:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    found = [block for block in blocks if ("cclm.load" in block) == translates]
    assert found
    return found


def test_the_readmes_python_runs() -> None:
    for block in readme_python(translates=False):
        exec(compile(block, "README.md", "exec"), {})


@pytest.mark.slow
def test_the_readmes_python_translates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tsv(tmp_path / "text")
    trained_run(tmp_path, f"work={tmp_path}/work/phrasebook", "name=phrasebook")  # a small one in its place
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    for block in readme_python(translates=True):
        exec(compile(block, "README.md", "exec"), {})
    assert re.fullmatch(r"\['.*'\]\n", capsys.readouterr().out)


@pytest.mark.slow
def test_the_plain_loop_admits_the_low_resource_language() -> None:
    command = [sys.executable, str(ROOT / "examples" / "plain_loop.py")]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = result.stdout.splitlines()
    assert len(lines) == 12
    assert sum("<- lrl admitted" in line for line in lines) == 1
    assert "lrl" in lines[-1]
    assert "lrl" not in lines[0]


@pytest.mark.slow
def test_the_benchmark_of_the_curriculum_prints_its_table() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "curriculum.py")]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["languages", "8", "100", "1,000"]


def test_no_archive_is_unpacked_and_nothing_is_unpickled() -> None:
    """A file name in an archive may lead out of its folder, and unpickling runs code: cclm does neither."""
    dangerous = re.compile(
        r"^\s*(?:import|from) (?:tarfile|zipfile|pickle|shelve|dill)\b|unpack_archive|torch\.load\(", re.M
    )
    paths = list((ROOT / "src").rglob("*.py"))
    assert paths
    assert [str(path) for path in paths if dangerous.search(path.read_text(encoding="utf-8"))] == []
