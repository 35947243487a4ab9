"""Hugging Face datasets, local or on the hub, with rows {"translation": {code: text}} or one column per language."""

import importlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from cclm.data.readers.files import open_text
from cclm.data.readers.source import Pairs, Source
from cclm.errors import DataError
from cclm.recipe.language_codes import expressions, pick

_KINDS = ("json", "parquet", "csv")
_CONFIGS = ("{lang}-{pivot}", "{pivot}-{lang}", "{lang}_{pivot}", "{pivot}_{lang}", "{lang}")
_HUB_NAME = re.compile(r"\w[\w.-]{0,95}(?:/\w[\w.-]{0,95})?(?::[^/]{1,96})?")
_SPLITS = {"train": "train", "validation": "dev", "valid": "dev", "dev": "dev", "test": "test"}


def on_the_hub(path: str) -> bool:
    """Whether the path is a dataset on the hub ("Helsinki-NLP/opus-100", "name:{lang}-{pivot}"), not a local file."""
    return bool(_HUB_NAME.fullmatch(path)) and not Path(path).exists()


def hub_splits(source: Source, lang: str) -> dict[str, str]:
    """The available splits: our name of each, and the hub's name."""
    names = _split_names(*_hub_dataset(source, lang))
    return {_SPLITS[split]: split for split in names if split in _SPLITS}


# Cached, because every request to the hub takes seconds.
@lru_cache(maxsize=1024)
def _split_names(name: str, config: str) -> tuple[str, ...]:
    return tuple(_call(name, _datasets().get_dataset_split_names, name, config))


@lru_cache(maxsize=64)
def _config_names(name: str) -> tuple[str, ...]:
    return tuple(_call(name, _datasets().get_dataset_config_names, name))


def read_hub(source: Source, lang: str, split: str, drops: Counter[str]) -> Pairs:
    """(row number, pivot text, other text) of a dataset on the hub, streamed."""
    name, config = _hub_dataset(source, lang)
    names = hub_splits(source, lang)
    if split not in names:
        available = ", ".join(names.values()) or "none"
        raise DataError(f"data.path {source.path}: no {split} split; available: {available}")
    rows = _call(source.path, _datasets().load_dataset, name, config, split=names[split], streaming=True)
    return _pairs(_numbered(rows, source.path), source, lang, source.path, drops)


def read_local(path: Path, source: Source, lang: str, drops: Counter[str]) -> Pairs:
    """(row number, pivot text, other text) of a JSON, JSON lines, Parquet or CSV file, or a folder of `save_to_disk`.

    JSON lines are read without `datasets`, which fails on lone surrogates; `clean` removes them later.
    """
    if path.is_dir():
        saved = _call(str(path), _datasets().load_from_disk, str(path))
        return _pairs(_numbered(saved, str(path)), source, lang, str(path), drops)
    extension = path.name.removesuffix(".gz").removesuffix(".zst").rpartition(".")[2]
    if extension == "jsonl":
        return _pairs(_json_lines(path, source, drops), source, lang, str(path), drops)
    if extension not in _KINDS:
        raise DataError(f"{path}: data.format huggingface needs .json, .jsonl, .parquet or .csv; got .{extension}")
    load, files = _datasets().load_dataset, {"train": [str(path)]}
    rows = _call(str(path), load, extension, data_files=files, split="train", streaming=True)
    return _pairs(_numbered(rows, str(path)), source, lang, str(path), drops)


def _json_lines(path: Path, source: Source, drops: Counter[str]) -> Iterator[tuple[int, Any]]:
    for number, line in open_text(path, source.on_bad_utf8, drops):
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = str(getattr(error, "msg", error)).lower()
            raise DataError(f"{path}, row {number}: not JSON: {reason}; it starts with {line[:40]!r}") from None


def _numbered(rows: Any, where: str) -> Iterator[tuple[int, Any]]:
    iterator, number, end = iter(rows), 0, object()
    while (row := _call(f"{where}, after row {number}", next, iterator, end)) is not end:
        number += 1
        yield number, row


def _datasets() -> Any:
    try:
        return importlib.import_module("datasets")
    except ImportError:
        raise DataError("data.format huggingface needs datasets: pip install 'ccl-m[hf]'") from None


def _call(where: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Calls a function of `datasets`. Any exception becomes a DataError that names the file or dataset."""
    try:
        return function(*arguments, **options)
    except Exception as error:  # its readers and its network code raise many types
        reason = (str(error.__cause__ or error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"{where}: datasets cannot read it: {reason}") from None


def _hub_dataset(source: Source, lang: str) -> tuple[str, str]:
    """The names of the dataset and of the configuration for the language pair."""
    name, _, given = source.path.partition(":")
    configs = _config_names(name)
    if not given and len(configs) == 1:
        return name, configs[0]
    for pattern in (given,) if given else _CONFIGS:
        for language in expressions(lang):
            values = {"lang": language, "pivot": expressions(source.pivot)[-1]}
            pieces = re.split(r"\{(lang|pivot)\}", pattern)
            expression = "".join(values[piece] if i % 2 else re.escape(piece) for i, piece in enumerate(pieces))
            matching = [config for config in configs if re.fullmatch(expression, config)]
            if len(matching) == 1:
                return name, matching[0]
    listed = ", ".join(configs[:12]) + (f" and {len(configs) - 12} more" if len(configs) > 12 else "")
    raise DataError(
        f"data.path {source.path}: no single configuration for {lang} and {source.pivot}; available: {listed}"
    )


def _pairs(rows: Iterator[tuple[int, Any]], source: Source, lang: str, where: str, drops: Counter[str]) -> Pairs:
    names = ("", "")
    for number, row in rows:
        cells = _cells(row, where, number)
        if names[0] not in cells or names[1] not in cells:
            names = _column(cells, source.pivot, where), _column(cells, lang, where)
        pivot_text, other_text = cells[names[0]], cells[names[1]]
        if pivot_text is None or other_text is None:
            drops["absent cell"] += 1
        elif isinstance(pivot_text, str) and isinstance(other_text, str):
            yield number, pivot_text, other_text
        else:
            wrong = other_text if isinstance(pivot_text, str) else pivot_text
            raise DataError(f"{where}, row {number}: expected text, got {type(wrong).__name__} {str(wrong)[:40]!r}")


def _cells(row: Any, where: str, number: int) -> Mapping[str, object]:
    cells = row.get("translation", row) if isinstance(row, Mapping) else row
    if not isinstance(cells, Mapping):
        kind = type(cells).__name__
        raise DataError(
            f'{where}, row {number}: expected {{code: text}} or {{"translation": {{code: text}}}}, got {kind}'
        )
    return cells


def _column(cells: Mapping[str, object], code: str, where: str) -> str:
    column = pick(cells, code, where)
    if column is None:
        raise DataError(f"{where}: no column for {code}; the columns are {', '.join(cells)}")
    return column
