"""The demo, with a few steps in place of its minutes: what it says, what it leaves, and that it is not done twice."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from warm_commands import warm

from cclm.experiments.display import Display
from cclm.experiments.executor import Job
from cclm.formats.log import Admitted, Stopped, Train

ROOT = Path(__file__).parent.parent.parent
LANGUAGES = ("por", "glg")
FEW = (
    "data.high_resource=[por]",
    "data.low_resource=[glg]",
    "benchmark.max_steps=60",
    "training.max_steps=60",
    "training.validate_every=30",
    "training.warmup=20",  # enough to end its sentences: those of a model that does not take far longer
    "translation.beam=1",
)


def demo(folder: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    return warm("demo", *overrides, folder=folder, COLUMNS="100")


def shape(line: str) -> str:
    """A line without what differs from run to run: numbers, and the spaces that make room for them."""
    return re.sub(r"\s+", " ", re.sub(r"\d[\d,.]*", "0", line)).strip()


@pytest.mark.slow
def test_the_demo_ends_with_scores_translations_and_the_page(tmp_path: Path) -> None:
    done = demo(tmp_path, *FEW)
    assert done.returncode == 0, done.stderr
    runs = tmp_path / "work" / "phrasebook" / "runs"
    for name in ("proportional", "competence-gate"):
        assert set(json.loads((runs / name / "scores.json").read_text())["languages"]) == {*LANGUAGES}
    assert "proportional" in (runs / "competence-gate" / "report.html").read_text()
    lines = done.stdout.splitlines()
    assert [line for line in lines if re.match(r"\d/5 ", line)] == [
        "1/5 text      sentences in nine languages, from a grammar in the package",
        "2/5 graph     how similar each LRL is to each HRL, by the subwords they share",
        "3/5 benchmark a bilingual model per language, trained briefly: competence is relative to it",
        "4/5 train     gate + tau 5 and proportional sampling, all else equal, side by side",
        "5/5 test      translating and scoring the test sets of both",
    ]
    assert sum(line.startswith("   > ") for line in lines) == 3 * len(LANGUAGES)
    wrong = sum(line.startswith("   = ") for line in lines)
    opening = lines[lines.index("What to see") + 1]
    mean = json.loads((runs / "competence-gate" / "scores.json").read_text())["means"]["all"]
    assert f"{mean:.1f} BLEU on average; {6 - wrong} of the 6 sentences below" in opening
    assert "  work/phrasebook/runs/competence-gate/report.html" in lines
    readme = re.search(r"```\n\$ make demo\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert readme
    kinds = {shape(re.sub(r"(at the start|step \S+)$", "at the start", line.rstrip())) for line in lines}
    # The README has eight languages; the rows of the others look like those of these two.
    shown = [re.sub(r"^(tur|rus|ces)", "por", line) for line in readme[1].splitlines()]
    shown = [re.sub(r"^(aze|bel|slk)", "glg", line) for line in shown]
    shown = [re.sub(r"(at the start|step \S+)$", "at the start", line) for line in shown]
    assert [line for line in shown if line != "..." and shape(line) not in kinds] == []

    log = (runs / "competence-gate" / "log.jsonl").read_bytes()
    again = demo(tmp_path, *FEW)  # shows it once more, and trains nothing
    assert again.returncode == 0, again.stderr
    assert (runs / "competence-gate" / "log.jsonl").read_bytes() == log
    assert [line for line in again.stdout.splitlines() if "BLEU" in line]


def test_admissions_and_ends_are_shown(capfd: pytest.CaptureFixture[str]) -> None:
    job = Job("mine", Path("recipe.json"), Path("mine"), Path("prepared"))
    with Display(100) as display:
        display(job, Train(step=50, loss=3.0))
        display(job, Admitted(step=60, language="aze", reason="tur is ready"))
        display(job, Stopped(step=100, reason="all steps are done"))
        display(job, Stopped(step=120, reason="all steps are done"))  # of a run that was extended
    assert capfd.readouterr().err.splitlines() == [
        "    mine, step 60: aze admitted, tur is ready",
        "    mine: 100 steps, all steps are done",
        "    mine: 120 steps, all steps are done",
    ]
