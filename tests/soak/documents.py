"""Runs every command of README and docs as a reader would, one after the other in one folder, in small.

    python tests/soak/documents.py                          # about ten minutes on two cores

Trainings get few steps, downloads are replaced by text and models made here; `SHORTER` says how. Commands that need
what is not here, or that other tests run, are listed with the reason. Ends with 1 if a command fails.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = ("README.md", *(f"docs/{name}" for name in sorted(os.listdir(ROOT / "docs")) if name.endswith(".md")))
COMMAND = re.compile(r"^\s*(?:\$ )?((?:cclm|python|torchrun|curl|srun|sbatch|make|pip) .*?)(?:\s{2,}#.*)?$")
FEW = "training.max_steps=20 training.validate_every=10 training.batch_tokens=500"
LESS = "training.max_steps=20 training.validate_every=10"
SHORT = (
    f"{FEW} model.layers=1 model.width=32 model.heads=2 model.feed_forward=64 benchmark.max_steps=5 curriculum.every=10"
)
IN_STUDY = " ".join(f"changes.{setting}" for setting in SHORT.split())

ELSEWHERE = {
    r"pip install": "tests/test_wheel.py and `make test` install",
    r"make ": "what CI runs",
    r"srun|sbatch|.*--executor slurm": "tests/training/test_slurm.py, tests/experiments/test_slurm.py, on a real SLURM",
    r"torchrun --nnodes 2": "tests/training/test_ranks.py, on two machines in network namespaces",
    r"python -m venv|.*comet": "COMET needs weights from a hub",
    r"python examples/(nllb|trl_domains)": "tests/integrations/test_examples.py",
    r"python benchmarks": "tests/benchmarks, in small",
    r"cclm study paper recipe=ted8": "the TED talks are not here; the dry run below, on text in their format",
    r"cclm (doctor|prepare|graph) +ted8": "the TED talks are not here: tests/data/test_readers.py",
}
"""Commands that are not run here, and why."""
SHORTER = [
    (r"^cclm run mine.yaml (model.pretrained)=\S+", rf"cclm run text.yaml \1=nllb {FEW} benchmark.max_steps=5"),
    (r"--device cuda", "--device cpu"),
    (r"^(cclm export) work/from-nllb/runs/from-nllb(.*)", r"\1 work/mine/runs/mine\2"),
    (
        r"^cclm extend .*",
        f"cclm train text.yaml name=four {SHORT} &&"
        f" cclm extend work/mine/runs/four --data new-language.yaml name=five {LESS}",
    ),
    (r"^(cclm (?:doctor|prepare|graph)) mine.yaml", r"\1 text.yaml"),
    (r"^(cclm (?:run|train|sweep) phrasebook)(.*)", rf"\1\2 {SHORT}"),
    (r"^cclm sweep (.*)", r"cclm sweep \1 --threshold 0.5 --threshold 1.0"),
    (r"^(cclm study phrasebook)", rf"\1 seeds=[1,2] {IN_STUDY} changes.work=work/study name=short"),
    (r"^(torchrun --standalone.*) RECIPE(.*)", rf"\1 phrasebook name=ranks\2 {SHORT}"),
    (
        r"^cclm translate RUN (.*--target.*)",
        rf"cclm train phrasebook name=many data.direction=many-to-many vocabulary.joint=true work=work/many {SHORT} &&"
        r" cclm translate work/many/runs/many \1",
    ),
    (r"\bRUN\b", "work/phrasebook/runs/phrasebook"),
    (r"NAME=\"COMMAND\"", "exact=\"python exact.py\""),
    (r"WORK/runs/proportional WORK/runs/ccl-m-avg", "work/phrasebook/runs/phrasebook work/phrasebook/runs/ranks"),
    (r"^cclm compare uniform.1.*", "cd work/study/runs && cclm compare uniform.1 uniform.2 ccl-m-avg.1 ccl-m-avg.2"),
]  # fmt: skip
"""How commands are shortened: patterns and what replaces them, applied in this order."""
SERVERS = re.compile(r"cclm (?:board|serve)\b|.*--board")
"""Commands that run until they are interrupted."""
TEXT = """version: 1
name: mine
work: work/mine
data: {format: tsv, path: "text/{lang}.{split}.tsv", high_resource: [tur, por], low_resource: [aze, glg]}
vocabulary: {pieces: 300}
"""
NEW = 'data: {format: tsv, path: "text/{lang}.{split}.tsv", low_resource: [bel]}\n'  # as docs/pretrained.md has it


def main() -> None:
    """Runs the commands."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    folder = Path(tempfile.mkdtemp(prefix="cclm-documents-"))
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    failed = 0
    for document, command in commands():
        if why := next((why for pattern, why in ELSEWHERE.items() if re.match(pattern, command)), None):
            print(f"not here  {document}: {command}\n          {why}", flush=True)
            continue
        done, said, seconds = run(shortened(command), folder)
        failed += not done
        print(f"{'ran' if done else 'FAILED':<9} {document}: {command} ({seconds:.0f} s)", flush=True)
        if not done:
            print(f"          as: {shortened(command)}\n{said}", flush=True)
    print(f"{failed} failed")
    if failed:
        sys.exit(1)
    shutil.rmtree(folder)


def commands() -> Iterator[tuple[str, str]]:
    """(document, command) for every command in a block of a document; each command of a document once."""
    for document in DOCUMENTS:
        text = (ROOT / document).read_text(encoding="utf-8")
        seen = set()
        for kind, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE):
            for line in [] if kind else block.replace("\\\n", " ").splitlines():
                if (found := COMMAND.match(line)) and found[1] not in seen:
                    seen.add(found[1])
                    yield document, found[1]


def shortened(command: str) -> str:
    """The command as it is run here."""
    for pattern, instead in SHORTER:
        command = re.sub(pattern, instead, command)
    return command


def run(command: str, folder: Path) -> tuple[bool, str, float]:
    """Runs a command; whether it did what it should, what it printed, and the seconds it took."""
    if not (folder / "text").exists():
        make_inputs(folder)
    begun = time.monotonic()
    if SERVERS.match(command):
        done, said = serve(command, folder)
    elif command.startswith("curl"):
        done, said = serve("cclm serve work/phrasebook/runs/phrasebook", folder, ask=command)
    else:
        ended = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False)
        done, said = ended.returncode == 0, ended.stdout + ended.stderr
    return done and "Traceback" not in said, said, time.monotonic() - begun


def serve(command: str, folder: Path, ask: str = "true") -> tuple[bool, str]:
    """Starts a server, asks it when it has said its address, and interrupts it: it has to end by that."""
    with (folder / "said.txt").open("w+") as file:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"], cwd=folder, stdout=file, stderr=file, text=True, start_new_session=True
        )
        try:
            until = time.monotonic() + 120
            while "http://" not in (folder / "said.txt").read_text() and process.poll() is None:
                if time.monotonic() > until:
                    break
                time.sleep(0.2)
            answer = subprocess.run(["bash", "-c", ask], cwd=folder, capture_output=True, text=True, check=False)
            os.killpg(process.pid, signal.SIGINT)
            code = process.wait(60)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    said = (folder / "said.txt").read_text() + answer.stdout + answer.stderr
    return "http://" in said and answer.returncode == 0 and code in (0, 130), said


def make_inputs(folder: Path) -> None:
    """What a reader would have: text, recipes, a model to start from, a scorer."""
    from corpora import HRLS, LRLS
    from pretrained_models import save

    from cclm.phrasebook import Phrasebook, generate, write

    book = Phrasebook.load()
    write(book, generate(book, seed=1, sizes={lang: (300, 30, 30) for lang in book.languages}), folder / "text")
    (folder / "text.yaml").write_text(TEXT)
    (folder / "new-language.yaml").write_text(NEW)
    for lang in (*HRLS, *LRLS):
        lines = (folder / "text" / f"{lang}.test.tsv").read_text(encoding="utf-8").splitlines()
        (folder / f"{lang}.txt").write_text("".join(line.split("\t")[1] + "\n" for line in lines), encoding="utf-8")
    save("nllb", folder / "nllb", steps=20)
    (scorer,) = re.findall(r'```python\n("""exact\.py.*?)```', (ROOT / "docs/scoring.md").read_text(), flags=re.DOTALL)
    (folder / "exact.py").write_text(scorer)
    shutil.copytree(ROOT / "examples", folder / "examples")


if __name__ == "__main__":
    main()
