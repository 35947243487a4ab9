"""The Hugging Face reader against files that the package `datasets` itself wrote (needs the extra `hf`)."""

import gzip
import json
from collections import Counter
from pathlib import Path

import datasets
import huggingface_hub.constants
import pytest
from parallel_files import COMPRESSIONS, put

from cclm.data.readers import DataError, Source, inputs, read, splits

PAIRS = [("one", "bir"), ('two, "quoted"', "iki\nsətir"), ("three", "üç")]
ROWS = [(number, *pair) for number, pair in enumerate(PAIRS, start=1)]


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()


def written(folder: Path, extension: str, nested: bool) -> None:
    columns = {"en": [one for one, _ in PAIRS], "az": [two for _, two in PAIRS]}
    rows = {"translation": [{"en": one, "az": two} for one, two in PAIRS]} if nested else columns
    made = datasets.Dataset.from_dict(rows)
    path = str(folder / f"az.train.{extension}")
    {"jsonl": made.to_json, "json": made.to_json, "parquet": made.to_parquet, "csv": made.to_csv}[extension](path)


@pytest.mark.parametrize(
    ("extension", "nested"),
    [("jsonl", True), ("jsonl", False), ("json", True), ("parquet", True), ("parquet", False), ("csv", False)],
)
def test_what_datasets_wrote_is_read_back(tmp_path: Path, extension: str, nested: bool) -> None:
    written(tmp_path, extension, nested)
    source = Source("huggingface", str(tmp_path))
    assert splits(source, "aze") == ("train",)
    assert [path.name for path in inputs(source, "aze", "train")] == [f"az.train.{extension}"]
    assert list(read(source, "aze", "train", Counter())) == ROWS


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_compressed_files_are_read(tmp_path: Path, compression: str) -> None:
    lines = "".join(json.dumps({"translation": {"en": one, "az": two}}) + "\n" for one, two in PAIRS)
    put(tmp_path, "validation.json", lines, compression)
    source = Source("huggingface", f"{tmp_path}/{{split}}.json")
    assert list(read(source, "aze", "dev", Counter())) == ROWS


def test_null_is_an_absent_cell(tmp_path: Path) -> None:
    put(tmp_path, "az.train.json", '{"en": "one", "az": null}\n{"en": "two", "az": "iki"}\n')
    drops: Counter[str] = Counter()
    assert list(read(Source("huggingface", str(tmp_path)), "aze", "train", drops)) == [(2, "two", "iki")]
    assert drops == {"absent cell": 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"en": "one", "tr": "bir"}\n', r"az.train.json: no column for aze; the columns are en, tr"),
        ('{"en": "one", "az": 7}\n', r"az.train.json, row 1: expected text, got int '7'"),
        (
            '{"translation": "one"}\n',
            r'az.train.json, row 1: expected \{code: text\} or \{"translation": \{code: text\}\}, got str',
        ),
    ],
)
def test_rows_that_are_no_pairs_are_refused(tmp_path: Path, content: str, message: str) -> None:
    put(tmp_path, "az.train.json", content)
    with pytest.raises(DataError, match=message):
        list(read(Source("huggingface", str(tmp_path)), "aze", "train", Counter()))


def test_a_broken_file_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "az.train.json", '{"en": "one", "az"\n')
    with pytest.raises(DataError, match=r"az.train.json.*: datasets cannot read it: "):
        list(read(Source("huggingface", str(tmp_path)), "aze", "train", Counter()))


def test_a_file_cut_off_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress("".join(f'{{"en": "{i}", "az": "{i}"}}\n' for i in range(5000)).encode())
    put(tmp_path, "az.train.json.gz", packed[: len(packed) // 2])
    with pytest.raises(DataError, match=r"az.train.json.gz.*: datasets cannot read it: "):
        list(read(Source("huggingface", str(tmp_path)), "aze", "train", Counter()))


def test_a_name_that_the_hub_does_not_give_is_an_error_of_ours() -> None:
    with pytest.raises(DataError, match=r"nobody/nothing: datasets cannot read it: "):
        read(Source("huggingface", "nobody/nothing"), "aze", "train", Counter())
