"""The command line as users call it, in a folder of its own, and a recipe that trains in seconds.

Everything goes through `python -m cclm` and files on disk: nothing here depends on how the package is built inside.
"""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from warm_commands import WarmCommand, run_warm

LIMIT = 120.0
"""Seconds after which a command counts as hanging; none of ours takes a tenth of that."""

RECIPE = """version: 1
name: small
work: work
data: {format: tsv, path: text, high_resource: [tur], low_resource: [aze]}
vocabulary: {pieces: 120}
model: {layers: 1, heads: 2, width: 16, feed_forward: 32, dropout: 0.1}
curriculum: {gate: {threshold: 0.3}, every: 5, dev_sample: 8}
benchmark: {max_steps: 10}
training: {batch_tokens: 200, accumulate: 1, learning_rate: 0.01, warmup: 10, max_steps: 10, validate_every: 5,
           device: cpu, precision: fp32}
translation: {beam: 1}
"""
"""Over the text of `write_text`; paths are relative, so that the whole folder can be copied."""

WORDS = {
    "eng": "house book water road day sea village stone tree bird",
    "tur": "ev kitap su yol gün deniz köy taş ağaç kuş",
    "aze": "ev kitab su yol gün dəniz kənd daş ağac quş",
    "por": "casa livro água caminho dia mar vila pedra árvore ave",
    "kor": "집 책 물 길 날 바다 마을 돌 나무 새",
    "ara": "بيت كتاب ماء طريق يوم بحر قرية حجر شجرة طائر",
    "tha": "บ้าน หนังสือ น้ำ ถนน วัน ทะเล หมู่บ้าน หิน ต้นไม้ นก",
    "hin": "घर किताब पानी सड़क दिन समुद्र गाँव पत्थर पेड़ पक्षी",
}

STATIC = ("curriculum.gate={name: all}", "curriculum.sampler={name: temperature, tau: 1}")
"""A method that asks for no competence."""


def start_warm(folder: Path, *arguments: str) -> WarmCommand:
    """Starts `cclm ARGUMENTS` in a folder, forked off a process that has loaded everything."""
    return WarmCommand(arguments, folder)


def start(folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> "subprocess.Popen[str]":
    """Starts `cclm ARGUMENTS` in a folder and does not wait for it."""
    return subprocess.Popen(
        [sys.executable, "-m", "cclm", *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}, start_new_session=True,
    )  # fmt: skip


def finish(process: "subprocess.Popen[str] | WarmCommand", limit: float = LIMIT) -> "subprocess.CompletedProcess[str]":
    """Waits for a command; one that hangs is ended with all its processes, and so is a test that waits for it."""
    try:
        stdout, stderr = process.communicate(timeout=limit)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        raise
    assert "Traceback" not in stderr, stderr
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def cclm(
    folder: Path, *arguments: str, limit: float = LIMIT, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Runs `cclm ARGUMENTS` in a folder to its end, whatever that is; only a traceback is never accepted."""
    if environment:
        return finish(start(folder, *arguments, environment=environment), limit)
    code, stdout, stderr = run_warm(arguments, folder, {}, limit)
    assert code is not None, f"cclm {' '.join(arguments)} still ran after {limit:.0f} s\n{stderr}"
    assert "Traceback" not in stderr, stderr
    return subprocess.CompletedProcess(arguments, code, stdout, stderr)


def done(
    folder: Path, *arguments: str, limit: float = LIMIT, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """The same for a command that has to succeed."""
    result = cclm(folder, *arguments, limit=limit, environment=environment)
    assert result.returncode == 0, f"cclm {' '.join(arguments)}: {result.returncode}\n{result.stdout}{result.stderr}"
    return result


def refused(folder: Path, *arguments: str, limit: float = LIMIT) -> str:
    """What a command says that has to refuse: on stderr, with exit code 1 or 2."""
    result = cclm(folder, *arguments, limit=limit)
    assert result.returncode in (1, 2), f"cclm {' '.join(arguments)}: {result.returncode}\n{result.stdout}"
    return result.stderr


def wait_for(
    happens: Callable[[], object], process: "subprocess.Popen[str] | WarmCommand", limit: float = LIMIT
) -> None:
    """Waits until something has happened that a command does while it runs."""
    deadline = time.monotonic() + limit
    while not happens():
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"it did not happen before the command ended: {finish(process)}")
        time.sleep(0.02)


def sentences(lang: str, begin: int, count: int) -> list[tuple[str, str]]:
    """(English, other) pairs, numbered so that no two are alike."""
    picks = {i: [(i // 10**k + k * k) % 10 for k in range(3 + i % 4)] for i in range(begin, begin + count)}
    return [(_sentence("eng", words, i), _sentence(lang, words, i)) for i, words in picks.items()]


def _sentence(lang: str, picks: Iterable[int], number: int) -> str:
    words = WORDS[lang].split()
    return " ".join(words[pick] for pick in picks) + f" {number}."


def write_text(folder: Path, languages: Iterable[str] = ("tur", "aze", "por"), train: int = 150) -> None:
    """The text of the recipe, with a language more than it names, and the recipe itself."""
    (folder / "text").mkdir(parents=True)
    begin = 0
    for lang in languages:
        for split, count in (("train", train), ("dev", 20), ("test", 20)):
            pairs = sentences(lang, begin, count)
            write_pairs(folder / "text" / f"{lang}.{split}.tsv", pairs)
            begin += count
    (folder / "recipe.yaml").write_text(RECIPE)


def write_pairs(path: Path, pairs: Iterable[tuple[str, str]]) -> None:
    """A file of two columns, the pivot's first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{english}\t{other}\n" for english, other in pairs), encoding="utf-8")


def copy_of(folder: Path, place: Path) -> Path:
    """A folder to work in, like one that others share."""
    return Path(shutil.copytree(folder, place / "copy", symlinks=True))


def contents(folder: Path) -> dict[str, str]:
    """The digest of every file below a folder, by its path; links are not followed, and locks are no content."""
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink() and path.name != "lock"]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def lost(before: Mapping[str, str], folder: Path) -> list[str]:
    """The files whose content is nowhere below the folder any more. Moved or copied is not lost, replaced is."""
    there = set(contents(folder).values())
    return sorted(path for path, digest in before.items() if digest not in there)


def trainings(folder: Path) -> list[Path]:
    """The run directories below a folder, bitext models among them: everything that has begun to train."""
    return sorted(path.parent for path in folder.rglob("log.jsonl") if not path.is_symlink())
