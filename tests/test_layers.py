"""The arrows of the architecture: who may import whom, and what `import cclm` costs."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "cclm"

# What each part may import of ours, beside itself. A part that is not listed here may not exist.
BASE = {"atomic", "errors", "messages", "signals"}
MAY_IMPORT = {
    "rng": set(),
    "atomic": set(),
    "errors": set(),
    "memory": set(),
    "messages": set(),
    "progress_bar": set(),
    "signals": set(),
    "text_table": set(),
    "web": {"errors"},
    "curriculum": {"rng"},
    "paper": {"curriculum"},
    "phrasebook": {"rng", "atomic"},
    "formats": {*BASE, "curriculum"},
    "recipe": {*BASE, "curriculum", "formats"},
    "data": {*BASE, "rng", "progress_bar", "formats", "recipe", "phrasebook"},
    "model": set(),
    "training": {*BASE, "text_table", "rng", "memory", "curriculum", "formats", "recipe", "data", "model"},
    "translation": {*BASE, "memory", "progress_bar", "formats", "recipe", "data", "model", "training"},
    "evaluation": {*BASE, "progress_bar", "model", "formats", "recipe", "data", "training", "translation"},
    "report": {
        *BASE,
        "web",
        "curriculum",
        "paper",
        "formats",
        "training",
    },  # training: the state of a run, for the board
    "serve": {*BASE, "web", "formats", "recipe", "data", "translation", "report"},  # report: templates and styles
    "experiments": {
        *BASE,
        "progress_bar",
        "text_table",
        "curriculum",
        "formats",
        "recipe",
        "data",
        "training",
        "translation",
        "evaluation",
        "report",
    },
    "simulate": {*BASE, "text_table", "rng", "curriculum", "paper", "recipe"},
    "integrations": {"curriculum", "formats"},  # and nothing of ours imports it
    "__init__": {"curriculum", "translation", "integrations"},  # but for the curriculum, only when a function is called
    "__main__": {"cli"},
}
HEAVY = ("torch", "transformers", "sentencepiece", "ctranslate2", "rich", "pydantic", "click", "ruamel")


def imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}


def part(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", [p for p in FILES if part(p) != "cli"], ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_follow_the_arrows(path: Path) -> None:
    allowed = MAY_IMPORT[part(path)] | {part(path)}
    ours = {name.split(".")[1] for name in imports(path) if name.startswith("cclm.")}
    assert ours <= allowed


def test_the_curriculum_imports_numpy_and_the_standard_library_alone() -> None:
    for path in [SOURCE / "rng.py", *(SOURCE / "curriculum").glob("*.py")]:
        outside = {name.split(".")[0] for name in imports(path)} - {"cclm", "numpy"}
        assert outside <= set(sys.stdlib_module_names), path


def test_importing_cclm_brings_in_nothing_heavy() -> None:
    program = "import sys, cclm; print([name for name in sys.argv[1:] if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program, *HEAVY], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def test_everything_public_is_exported_and_nothing_else() -> None:
    import cclm
    import cclm.curriculum

    for module in (cclm, cclm.curriculum):
        assert sorted(module.__all__) == module.__all__
        assert all(hasattr(module, name) for name in module.__all__)
    assert set(cclm.__all__) - {"bits_per_token", "load"} <= set(cclm.curriculum.__all__)
    contract = "LanguageGraph Curriculum AllAtOnce CompetenceGate StepGate Temperature FixedWeights UniMax"
    contract += (
        " InverseCompetence SizeAndCompetence ChiSquare RewardActor BatchSampler IndexSampler load bits_per_token"
    )
    assert set(cclm.__all__) == set(contract.split())
