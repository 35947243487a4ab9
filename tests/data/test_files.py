"""Reading lines of plain and compressed files, and errors for invalid ones."""

import gzip
import re
import subprocess
import sys
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parallel_files import COMPRESSIONS, put

from cclm.data.readers import files
from cclm.data.readers.files import open_text
from cclm.errors import DataError


def lines(path: Path) -> list[str]:
    return [line for _, line in open_text(path)]


def refused(path: Path, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(f"{path}{message}")):
        lines(path)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@given(content=st.lists(st.text(st.characters(exclude_characters="\n", codec="utf-8"), max_size=20), max_size=20))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_only_a_line_feed_ends_a_line(tmp_path: Path, compression: str, content: list[str]) -> None:
    content = [line.removeprefix("\ufeff").rstrip("\r") for line in content]
    path = put(tmp_path, "x", "".join(line + "\n" for line in content), compression)
    assert list(open_text(path)) == list(enumerate(content, start=1))


def test_every_other_separator_stays_in_the_line(tmp_path: Path) -> None:
    text = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\rh\r\nsecond\r\r\nthird"
    assert lines(put(tmp_path, "x", text)) == ["a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\rh", "second\r", "third"]


def test_a_byte_order_mark_is_removed_only_at_the_start(tmp_path: Path) -> None:
    assert lines(put(tmp_path, "x", "\ufeffone\n\ufefftwo\n")) == ["one", "\ufefftwo"]


@pytest.mark.parametrize(("text", "expected"), [("", []), ("\n", [""]), ("a", ["a"]), ("a\n\n", ["a", ""])])
def test_a_line_feed_ends_a_line_and_starts_none(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert lines(put(tmp_path, "x", text)) == expected


def test_bytes_that_are_not_utf8_are_named_by_line_and_offset(tmp_path: Path) -> None:
    path = put(tmp_path, "latin1", b"good\nbad caf\xe9\n")
    refused(path, ", line 2: not UTF-8: byte 0xe9 at offset 7 of the line, 12 of the text; convert the file with iconv")


def test_offsets_count_the_mark_and_reach_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK", 8)
    content = b"\xef\xbb\xbf" + b"twelve bytes\n" * 5 + b"ab\xff\n"
    path = put(tmp_path, "x", content)
    refused(path, f", line 6: not UTF-8: byte 0xff at offset 2 of the line, {content.index(0xFF, 3)} of the text")


CONTENT = st.lists(
    st.binary(max_size=12).filter(lambda line: b"\n" not in line and line != b"\xef\xbb\xbf"), max_size=30
)


@given(content=CONTENT, end=st.sampled_from(["", "\n"]), chunk=st.integers(1, 7), block=st.integers(2, 40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_chunks_have_all_lines_with_their_numbers_and_places(
    tmp_path: Path, content: list[bytes], end: str, chunk: int, block: int
) -> None:
    text = b"first\n" + b"\n".join(content) + end.encode()
    path = put(tmp_path, "x", text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "CHUNK", chunk)
        patch.setattr(files, "BLOCK", block)
        chunks = list(files.chunks_of_lines(path, "drop"))
    assert b"".join(each.data for each in chunks) == text
    expected = text.removesuffix(b"\n").split(b"\n")
    assert [len(each.decoded()) for each in chunks] == [each.count for each in chunks]
    assert [each.count for each in chunks[:-1]] == [chunk] * (len(chunks) - 1)
    assert sum(each.count for each in chunks) == len(expected)
    for each in chunks:
        assert each.data == text[each.offset :][: len(each.data)]
        assert each.data.startswith(expected[each.first - 1])


def test_lines_that_are_not_utf8_are_dropped_on_request_and_counted(tmp_path: Path) -> None:
    drops: Counter[str] = Counter()
    path = put(tmp_path, "x", b"one\n\xff\xfe\xfa\nthree\r\n\xc3\n")
    assert list(open_text(path, "drop", drops)) == [(1, "one"), (3, "three")]
    assert drops == {"invalid UTF-8": 2}
    assert list(open_text(path, "drop")) == [(1, "one"), (3, "three")]


@pytest.mark.parametrize("on_bad_utf8", ["error", "drop"])
@pytest.mark.parametrize(("encoding", "mark"), [("utf-16-le", "ff fe"), ("utf-16-be", "fe ff")])
def test_utf16_is_recognised(tmp_path: Path, encoding: str, mark: str, on_bad_utf8: files.OnBadUtf8) -> None:
    path = put(tmp_path, "x", "\ufeffHello\n".encode(encoding))
    expected = f"{path}: UTF-16 (it starts with {mark}), not UTF-8; convert it: iconv -f UTF-16 -t UTF-8"
    with pytest.raises(DataError, match=re.escape(expected)):
        list(open_text(path, on_bad_utf8))


@pytest.mark.parametrize("on_bad_utf8", ["error", "drop"])
def test_encoded_surrogates_are_not_valid_utf8(tmp_path: Path, on_bad_utf8: files.OnBadUtf8) -> None:
    path = put(tmp_path, "x", b"\xed\xa0\x80\n")
    if on_bad_utf8 == "drop":
        assert list(open_text(path, "drop")) == []
    else:
        refused(path, ", line 1: not UTF-8")


def test_a_megabyte_in_one_line_is_read(tmp_path: Path) -> None:
    assert lines(put(tmp_path, "x", "a" * 3_000_000 + "\nb\n")) == ["a" * 3_000_000, "b"]


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_line_without_end_is_refused(tmp_path: Path, compression: str, end: str) -> None:
    path = put(tmp_path, "x", "short\n" + "a" * 10_000_001 + end, compression)
    refused(path, ", line 2: longer than 10,000,000 bytes; is this text with one sentence per line?")


def test_a_line_of_just_the_limit_is_read(tmp_path: Path) -> None:
    assert [len(line) for line in lines(put(tmp_path, "x", "a" * 10_000_000 + "\nb"))] == [10_000_000, 1]


@pytest.mark.parametrize("compression", [".gz", ".zst"])
def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, compression: str) -> None:
    whole = COMPRESSIONS[compression](b"".join(b"line %d\n" % i for i in range(5000)))
    name = {".gz": "gzip", ".zst": "zstd"}[compression]
    for size in (12, len(whole) // 2, len(whole) - 1):
        path = put(tmp_path, f"x{size}", whole[:size])
        refused(path, f": the {name} file is truncated; download or write it again")


def test_junk_after_the_end_is_refused(tmp_path: Path) -> None:
    refused(put(tmp_path, "x", gzip.compress(b"a\n") + b"junk"), ": invalid gzip data, or other data after it: ")
    junk = COMPRESSIONS[".zst"](b"a\n") + b"junk junk"
    refused(put(tmp_path, "y", junk), ": invalid zstd data, or other data after it: ")


def test_damage_inside_is_refused(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(b"hello hello hello\n", mtime=0))
    refused(put(tmp_path, "x", bytes(packed[:-8]) + b"\0\0\0\0" + bytes(packed[-4:])), ": invalid gzip data, or other")
    packed[10] = 0x07  # a block type that does not exist
    refused(put(tmp_path, "y", bytes(packed)), ": invalid gzip data: ")


def test_all_gzip_members_are_read_and_padding_is_ignored(tmp_path: Path) -> None:
    members = gzip.compress(b"one\ntw") + gzip.compress(b"o\n") + b"\0" * 512
    assert lines(put(tmp_path, "x", members)) == ["one", "two"]
    frames = COMPRESSIONS[".zst"](b"one\ntw") + COMPRESSIONS[".zst"](b"o\n")
    assert lines(put(tmp_path, "y", frames)) == ["one", "two"]


def test_the_content_decides_and_not_the_name(tmp_path: Path) -> None:
    assert lines(put(tmp_path, "plain.gz", "text\n")) == ["text"]
    assert lines(put(tmp_path, "packed.txt", gzip.compress(b"text\n"))) == ["text"]
    assert lines(put(tmp_path, "packed.gz", COMPRESSIONS[".zst"](b"text\n"))) == ["text"]


@pytest.mark.parametrize(("start", "name"), [(b"BZh91AY&SY", "bzip2"), (b"\xfd7zXZ\x00", "xz"), (b"PK\x03\x04", "zip")])
def test_other_compressions_are_named(tmp_path: Path, start: bytes, name: str) -> None:
    refused(put(tmp_path, "x", start + b"..."), f": {name}-compressed; only plain text, gzip and zstd are supported")


def test_an_error_names_the_file_that_cannot_be_opened(tmp_path: Path) -> None:
    refused(tmp_path / "absent", ": No such file or directory")
    refused(tmp_path, ": Is a directory")


def test_without_zstandard_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    path = put(tmp_path, "x", "a\n", ".zst")
    refused(path, ": zstd-compressed, which needs zstandard: pip install 'ccl-m[zstd]'")


@pytest.mark.parametrize("tool", ["gzip", "zstd"])
def test_the_command_line_tools_count_the_same_lines(tmp_path: Path, tool: str) -> None:
    plain = put(tmp_path, "x", "".join(f"sətir {i}\u2028\r\n" for i in range(50_000)))
    packed = subprocess.run([tool, "-c", str(plain)], stdout=subprocess.PIPE, check=True).stdout
    counted = subprocess.run(["wc", "-l", str(plain)], capture_output=True, text=True, check=True).stdout.split()[0]
    assert len(lines(put(tmp_path, "packed", packed))) == len(lines(plain)) == int(counted)


def test_a_zstd_bomb_unfolds_in_small_pieces(tmp_path: Path) -> None:
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    content = b"".join(packer.compress(b"\n" * 1_000_000) for _ in range(200)) + packer.flush()
    path = put(tmp_path, "bomb", content)
    tracemalloc.start()
    total = sum(len(block) for block in files.blocks(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == 200_000_000
    assert peak < 60_000_000


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_memory_does_not_grow_with_the_file(tmp_path: Path, compression: str) -> None:
    text = "".join(f"a line of some length, number {i * i}\n" for i in range(400_000))
    path = put(tmp_path, "x", text, compression)
    tracemalloc.start()
    for _ in open_text(path):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000
