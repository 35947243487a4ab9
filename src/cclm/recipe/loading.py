"""Reading settings: YAML that cannot surprise, `key=value` overrides, and errors that name place, value and way out."""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent

from cclm.errors import ConfigError

MAX_BYTES, MAX_DEPTH = 1_000_000, 20


class Section(BaseModel):
    """A part of the settings: unknown keys are refused, and nothing changes after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")


SomeSection = TypeVar("SomeSection", bound=Section)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML 1.2 file: `no` is a string there, and 2e-4 a number."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ConfigError(f"{path}: {size:,} bytes; settings have at most {MAX_BYTES:,}")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}") from None
    content = parse_yaml(text, str(path))
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected `key: value` lines, got {_kind(content)}")
    return content


def parse_yaml(text: str, source: str) -> Any:
    """The value of a YAML text; tags, aliases, duplicate keys and deep nesting are refused."""
    try:
        _check_shape(text, source)
        return YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"{source}, line {mark.line + 1}" if mark else source
        raise ConfigError(f"{place}: {_problem(error)}") from None
    except (YAMLError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{source}: {str(error).splitlines()[0]}") from None


def _check_shape(text: str, source: str) -> None:
    depth = 0
    for event in YAML(typ="safe", pure=True).parse(text):
        line = event.start_mark.line + 1
        if isinstance(event, AliasEvent):
            raise ConfigError(f"{source}, line {line}: aliases (*{event.anchor}) are not supported; write it out")
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise ConfigError(f"{source}, line {line}: nested more than {MAX_DEPTH} deep")


def _problem(error: MarkedYAMLError) -> str:
    problem = str(error.problem or error.context or "not YAML").splitlines()[0]
    if "'\\t'" in problem:
        return "a tab where YAML wants spaces"
    return problem


def override(content: Mapping[str, Any], changes: Iterable[str]) -> dict[str, Any]:
    """The settings with `a.b=value` changes applied; the value is read as YAML."""
    changed = dict(content)
    for change in changes:
        path, equals, text = change.partition("=")
        if not equals or not path:
            raise ConfigError(f"{change!r} is no override: write key=value, as in training.max_steps=500")
        _put(changed, path.split("."), parse_yaml(text, f"override {path}"), path)
    return changed


def with_values(content: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with other values: `a.b: value`, or for a section `a: {b: value}`, of which the rest stays."""
    changed = dict(content)
    for path, value in values.items():
        inner = {f"{path}.{name}": part for name, part in value.items()} if isinstance(value, dict) else {}
        for place, part in inner.items() if inner and "." not in path else [(path, value)]:
            _put(changed, place.split("."), part, place)
    return changed


def _put(content: dict[str, Any], keys: list[str], value: Any, path: str) -> None:
    for key in keys[:-1]:
        inner = content.get(key)
        if inner is not None and not isinstance(inner, dict):
            raise ConfigError(f"override {path}: {key} is {inner!r} and has no keys of its own")
        content[key] = content = dict(inner or {})  # a copy: what was read stays as it was
    content[keys[-1]] = value


def check(model: type[SomeSection], content: Mapping[str, Any], source: str) -> SomeSection:
    """The settings as an object, or every mistake in them at once."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        problems = [_explain(details, model) for details in error.errors()]
        raise ConfigError("\n".join(f"{source}: {problem}" for problem in problems)) from None


def _explain(details: ErrorDetails, model: type[BaseModel]) -> str:
    """One mistake in our words. pydantic puts the tag of a union into the path; people never wrote it."""
    kind, given, context = details["type"], details["input"], details.get("ctx", {})
    path, keys = _place(details["loc"], model)
    where = ".".join(path)
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(path[-1], keys, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known here: {', '.join(sorted(keys))}"
        return f"unknown key {where!r}{hint}"
    if kind == "missing":
        return f"{where} is missing"
    if kind == "union_tag_invalid":
        return f"{where}.name must be one of {context['expected_tags']}; got {context['tag']!r}"
    if kind == "literal_error":
        return f"{where} must be one of {context['expected'].replace(' or ', ', ')}; got {given!r}"
    message = details["msg"].removeprefix("Value error, ").removeprefix("Input ")
    said = f"{where} {message[0].lower()}{message[1:]}".lstrip()
    # What a whole section has wrong is in the message; the section itself would bury it.
    return said if kind == "value_error" and isinstance(given, dict) else f"{said}; got {given!r}"


def _place(loc: tuple[int | str, ...], model: Any) -> tuple[list[str], set[str]]:
    """The path as the user wrote it, and the keys that exist at its last level."""
    path: list[str] = []
    keys: set[str] = set()
    for part in loc:
        if get_origin(model) is dict:
            path.append(str(part))
            model = get_args(model)[1]
            continue
        options = _sections(model)
        keys = {name for option in options for name in option.model_fields}
        if part not in keys and (tagged := [option for option in options if part in _tags(option)]):
            model, keys = tagged[0], set(tagged[0].model_fields)
            continue
        path.append(str(part))
        model = next((o.model_fields[str(part)].annotation for o in options if part in o.model_fields), None)
    return path, keys


def _sections(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [section for part in get_args(annotation) for section in _sections(part)]


def _tags(section: type[BaseModel]) -> tuple[object, ...]:
    name = section.model_fields.get("name")
    return get_args(name.annotation) if name else ()


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
