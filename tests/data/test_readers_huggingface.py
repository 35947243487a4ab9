"""The Hugging Face reader without `datasets` and with a stand-in for it; tests/oracles uses the real package."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parallel_files import COMPRESSIONS, pairs_of, put

from cclm.data.cleaning import clean
from cclm.data.readers import DataError, Source, huggingface, inputs, read, splits
from cclm.data.readers.huggingface import on_the_hub


def test_without_the_package_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    put(tmp_path, "az.train.parquet", "")
    with pytest.raises(DataError, match=r"^data.format huggingface needs datasets: pip install 'ccl-m\[hf\]'$"):
        read(Source("huggingface", str(tmp_path)), "aze", "train", Counter())
    with pytest.raises(DataError, match=r"^data.format huggingface needs datasets: pip install 'ccl-m\[hf\]'$"):
        read(Source("huggingface", "Helsinki-NLP/opus-100"), "aze", "train", Counter())


@pytest.mark.parametrize("compression", COMPRESSIONS)
@given(pairs=st.lists(st.tuples(st.text(st.characters()), st.text(st.characters())), max_size=8))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_json_lines_come_back_as_they_were_written(
    tmp_path: Path, compression: str, pairs: list[tuple[str, str]]
) -> None:
    lines = "".join(json.dumps({"translation": {"en": one, "az": two}}) + "\n" for one, two in pairs)
    put(tmp_path, "az.train.jsonl", lines, compression)
    assert pairs_of(Source("huggingface", str(tmp_path))) == pairs


def test_a_lone_surrogate_in_json_reaches_the_cleaning(tmp_path: Path) -> None:
    put(tmp_path, "az.train.jsonl", '{"en": "a\\ud800b", "az": "c"}\n')
    ((one, two),) = pairs_of(Source("huggingface", str(tmp_path)))
    assert (clean(one), two) == (("ab", ("lone surrogates",)), "c")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"en": "one", "az"', r"az.train.jsonl, row 2: not JSON: expecting ':' delimiter; it starts with '{\"en\""),
        ("", "az.train.jsonl, row 2: not JSON: expecting value; it starts with ''"),
        ("[" * 100_000, r"az.train.jsonl, row 2: not JSON: maximum recursion depth"),
        ("[1]", r'az.train.jsonl, row 2: expected \{code: text\} or \{"translation": \{code: text\}\}, got list'),
        ('{"en": "one", "az": ["bir"]}', r"az.train.jsonl, row 2: expected text, got list \"\['bir'\]\""),
        ('{"en": "one"}', r"az.train.jsonl: no column for aze; the columns are en"),
    ],
)
def test_json_lines_that_are_not_pairs_are_refused(tmp_path: Path, line: str, message: str) -> None:
    put(tmp_path, "az.train.jsonl", '{"en": "one", "az": "bir"}\n' + line + "\n")
    with pytest.raises(DataError, match=message):
        pairs_of(Source("huggingface", str(tmp_path)))


def test_an_unsupported_file_type_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "aze.xlsx", "")
    with pytest.raises(DataError, match=r"data.format huggingface needs .json, .jsonl, .parquet or .csv; got .xlsx"):
        read(Source("huggingface", f"{tmp_path}/{{lang}}.xlsx"), "aze", "train", Counter())


def test_hub_names_are_distinguished_from_paths(tmp_path: Path) -> None:
    assert on_the_hub("Helsinki-NLP/opus-100")
    assert on_the_hub("Helsinki-NLP/opus-100:{lang}-{pivot}")
    assert on_the_hub("opus")
    assert not on_the_hub(str(tmp_path))
    assert not on_the_hub("data/{lang}.{split}.jsonl")
    assert not on_the_hub("./data")
    assert not on_the_hub("a/b/c")


ROWS = [{"translation": {"az": "bir", "en": "one"}}, {"translation": {"az": "iki", "en": "two"}}]


def clear_cache() -> None:
    huggingface._split_names.cache_clear()
    huggingface._config_names.cache_clear()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """Stands in for the package: one data set with a configuration for each pair."""
    calls: list[tuple[object, ...]] = []

    def load_dataset(name: str, config: str, *, split: str, streaming: bool) -> list[dict[str, dict[str, str]]]:
        calls.append((name, config, split, streaming))
        return ROWS

    package = SimpleNamespace(
        calls=calls,
        configs=["az-en", "en-tr", "be-en"],
        get_dataset_config_names=lambda name: package.configs,
        get_dataset_split_names=lambda name, config: ["test", "train", "validation", "extra"],
        load_dataset=load_dataset,
    )
    monkeypatch.setitem(sys.modules, "datasets", package)
    clear_cache()
    yield package
    clear_cache()


@pytest.mark.parametrize("path", ["someone/some-set", "someone/some-set:{lang}-{pivot}", "someone/some-set:az-en"])
def test_the_configuration_of_the_pair_is_found_and_streamed(hub: SimpleNamespace, path: str) -> None:
    source = Source("huggingface", path)
    assert splits(source, "aze") == ("train", "dev", "test")
    assert inputs(source, "aze", "dev") == ()
    assert list(read(source, "aze", "dev", Counter())) == [(1, "one", "bir"), (2, "two", "iki")]
    assert hub.calls == [("someone/some-set", "az-en", "validation", True)]


def test_hub_metadata_is_requested_once(hub: SimpleNamespace) -> None:
    asked: list[str] = []
    hub.get_dataset_config_names = lambda name: asked.append("configurations") or hub.configs
    hub.get_dataset_split_names = lambda name, config: asked.append(f"splits of {config}") or ["train", "test"]
    source = Source("huggingface", "someone/some-set")
    for _ in range(3):
        splits(source, "aze")
        list(read(source, "aze", "train", Counter()))
    assert asked == ["configurations", "splits of az-en"]


def test_a_single_configuration_needs_no_name(hub: SimpleNamespace) -> None:
    hub.configs = ["default"]
    assert len(list(read(Source("huggingface", "set"), "aze", "train", Counter()))) == 2


def test_a_pair_without_configuration_is_refused(hub: SimpleNamespace) -> None:
    expected = r"data.path a/set: no single configuration for deu and eng; available: az-en, en-tr, be-en"
    with pytest.raises(DataError, match=expected):
        splits(Source("huggingface", "a/set"), "deu")
    clear_cache()
    hub.configs = [f"c{i}" for i in range(14)]
    with pytest.raises(DataError, match="c11 and 2 more"):
        splits(Source("huggingface", "a/set"), "deu")


def test_a_missing_split_is_refused(hub: SimpleNamespace) -> None:
    hub.get_dataset_split_names = lambda name, config: ["train"]
    with pytest.raises(DataError, match=r"data.path a/set: no dev split; available: train"):
        read(Source("huggingface", "a/set"), "aze", "dev", Counter())


def test_rows_that_are_not_pairs_are_refused(hub: SimpleNamespace) -> None:
    source = Source("huggingface", "a/set")
    for row, message in [
        ({"en": "one"}, "a/set: no column for aze; the columns are en"),
        (
            {"translation": "one"},
            r'a/set, row 1: expected \{code: text\} or \{"translation": \{code: text\}\}, got str',
        ),
        ({"en": "one", "az": 7}, "a/set, row 1: expected text, got int '7'"),
        ({"en": 7, "az": "bir"}, "a/set, row 1: expected text, got int '7'"),
    ]:
        hub.load_dataset = lambda *_, row=row, **__: [row]
        with pytest.raises(DataError, match=message):
            list(read(source, "aze", "train", Counter()))


def test_absent_cells_are_counted(hub: SimpleNamespace) -> None:
    hub.load_dataset = lambda *_, **__: [{"en": "one", "az": None}, {"en": "two", "az": "iki"}]
    drops: Counter[str] = Counter()
    assert list(read(Source("huggingface", "a/set"), "aze", "train", drops)) == [(2, "two", "iki")]
    assert drops == {"absent cell": 1}


def test_whatever_the_package_raises_names_the_place(hub: SimpleNamespace) -> None:
    def broken() -> Iterator[dict[str, str]]:
        yield {"en": "one", "az": "bir"}
        raise RuntimeError("connection lost\nand more")

    hub.load_dataset = lambda *_, **__: broken()
    with pytest.raises(DataError, match=r"^a/set, after row 1: datasets cannot read it: connection lost$"):
        list(read(Source("huggingface", "a/set"), "aze", "train", Counter()))
