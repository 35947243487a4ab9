"""`cclm translate RUN --source LANGUAGE`: lines in, lines out, and every message."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cclm

TEXTS = ["su ev", "", "  ", "<2glg> su </s>", "naïve ☃ kitab", "dəniz\u2028quş", "ev su yol gün daş"]


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "cclm", "translate", *map(str, arguments)]


def translated(*arguments: str | Path, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command(*arguments), input=text, capture_output=True, check=False)


@pytest.mark.slow
def test_lines_go_in_and_come_out_in_order(into_english: Path, tmp_path: Path) -> None:
    text = "".join(line + "\n" for line in TEXTS).encode()
    done = translated(into_english, "--source", "aze", "--target", "eng", text=text)
    assert done.returncode == 0, done.stderr
    expected = cclm.load(into_english).translate(TEXTS, source="aze")
    assert done.stdout.decode() == "".join(line + "\n" for line in expected)
    assert done.stderr == b""
    (tmp_path / "in.txt").write_bytes(text.replace(b"\n", b"\r\n").removesuffix(b"\r\n"))  # and no last line feed
    files = ["--input", tmp_path / "in.txt", "--output", tmp_path / "out.txt"]
    assert translated(into_english, "--source", "az", *files, "--threads", "1").returncode == 0
    assert (tmp_path / "out.txt").read_bytes() == done.stdout
    assert translated(into_english, "--source", "az").stdout == b""
    nowhere = translated(into_english, "--source", "az", "--output", tmp_path / "no" / "out.txt", text=b"su\n")
    assert nowhere.returncode == 1
    assert b"No such file or directory" in nowhere.stderr


@pytest.mark.parametrize(
    ("arguments", "text", "code", "message"),
    [
        (["--source", "xyz"], b"", 2, "does not translate from xyz to any language; it translates tur-eng"),
        (["--input", "x"], b"", 2, "--input, --output, --quantization and --threads go with --source"),
        (["--source", "aze", "--quantization", "int4"], b"", 2, "'int4' is not one of"),
        (["--source", "aze"], b"su\n\xff su\n", 1, "standard input, line 2: not UTF-8: byte 0xff at offset 0"),
        (["--source", "aze"], b"su\n\n" + b"1 " * 800, 1, "standard input, line 3: 1,6"),
        (["--source", "aze"], b"su\n" + b"x" * 10_000_001, 1, "standard input, line 2: longer than 10,000,000 bytes"),
    ],
)
def test_what_cannot_be_translated_is_told(
    into_english: Path, arguments: list[str], text: bytes, code: int, message: str
) -> None:
    done = translated(into_english, *arguments, text=text)
    assert done.returncode == code
    assert message in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_a_missing_file_is_told(into_english: Path, tmp_path: Path) -> None:
    done = translated(into_english, "--source", "aze", "--input", tmp_path / "none.txt")
    assert done.returncode == 1
    assert b"none.txt: No such file or directory" in done.stderr


@pytest.mark.slow
def test_a_place_that_cannot_be_written_to_is_told(into_english: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "copy"
    shutil.copytree(into_english, run, ignore=shutil.ignore_patterns("translations"))
    (tmp_path / "prepared").symlink_to(into_english.parent.parent / "prepared")
    (run / "translations").write_text("a file in the place of a folder")
    done = translated(run)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == f"cclm: {run}/translations: File exists\n"


@pytest.mark.slow
def test_memory_does_not_grow_with_the_text(into_english: Path, tmp_path: Path) -> None:
    peaks = []
    for lines in (4_000, 24_000):  # two chunks, and twelve
        (tmp_path / "in.txt").write_text("su\n" * lines)
        arguments = ["--source", "aze", "--input", tmp_path / "in.txt", "--output", tmp_path / "out.txt"]
        process = subprocess.Popen(command(into_english, *arguments))
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        assert (tmp_path / "out.txt").read_bytes().count(b"\n") == lines
        peaks.append(used.ru_maxrss)
    assert peaks[1] - peaks[0] < 20_000  # kB
