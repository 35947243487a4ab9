"""Loading recipes: strict YAML, `key=value` overrides, and the recipes that come with the package."""

import stat
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent

from cclm.errors import ConfigError
from cclm.recipe.schema import Recipe
from cclm.recipe.section import check

MAX_BYTES, MAX_DEPTH = 1_000_000, 20
BITEXT = "bitext"
"""The reserved name of the bitext models: their folder in `runs/`, and their arm in a study."""


def read_yaml(path: Path) -> dict[str, object]:
    """Reads a mapping from a YAML 1.2 file, where `no` is a string and 2e-4 is a number."""
    try:
        mode = path.stat().st_mode
        # Opening a pipe without a writer would block forever. The shell's `<(...)` is /dev/fd/N and has a writer.
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) and path.parts[:2] != ("/", "dev"):
            raise ConfigError(f"{path}: not a regular file; copy the settings into one")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ConfigError(f"{path}: more than {MAX_BYTES:,} bytes; is this a recipe?")
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}") from None
    return parse_mapping(text, str(path))


def parse_mapping(text: str, source: str) -> dict[str, object]:
    """Parses YAML text that must be a mapping."""
    content = parse_yaml(text, source)
    if not isinstance(content, dict):
        kind = "nothing" if content is None else f"a {type(content).__name__}"
        raise ConfigError(f"{source}: expected `key: value` lines, got {kind}")
    return content


def parse_yaml(text: str, source: str) -> object:
    """Parses YAML text. Tags, aliases, duplicate keys and deep nesting are errors."""
    try:
        _check_structure(text, source)
        return YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"{source}, line {mark.line + 1}" if mark else source
        raise ConfigError(f"{place}: {_problem(error)}") from None
    except (YAMLError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{source}: {str(error).splitlines()[0]}") from None


def _check_structure(text: str, source: str) -> None:
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
    return "a tab where YAML requires spaces" if "'\\t'" in problem else problem


def override(content: Mapping[str, object], changes: Iterable[str]) -> dict[str, object]:
    """Applies overrides such as `a.b=value`; the value is parsed as YAML."""
    changed = dict(content)
    for change in changes:
        path, equals, text = change.partition("=")
        if not equals or not path:
            raise ConfigError(f"{change!r} is not an override; write key=value, as in training.max_steps=500")
        _put(changed, path.split("."), parse_yaml(text, f"override {path}"), path)
    return changed


def with_values(content: Mapping[str, object], values: Mapping[str, object]) -> dict[str, object]:
    """Applies values such as `a.b: value` or `a: {b: value}`. The latter keeps the other keys of section `a`."""
    changed = dict(content)
    for path, value in values.items():
        inner = {f"{path}.{name}": part for name, part in value.items()} if isinstance(value, dict) else {}
        for full_path, part in inner.items() if inner and "." not in path else [(path, value)]:
            _put(changed, full_path.split("."), part, full_path)
    return changed


def _put(content: dict[str, object], keys: list[str], value: object, path: str) -> None:
    for key in keys[:-1]:
        inner = content.get(key)
        if inner is not None and not isinstance(inner, dict):
            raise ConfigError(f"override {path}: {key} is {inner!r} and has no keys")
        content[key] = content = dict(inner or {})  # a copy, so that the caller's settings do not change
    content[keys[-1]] = value


def built_in_recipes() -> dict[str, str]:
    """The YAML text of each built-in recipe, by name."""
    return texts_in("recipes")


def texts_in(part: str) -> dict[str, str]:
    """The YAML files in a folder of this package, by name."""
    folder = files("cclm.recipe") / part
    texts = {entry.name.removesuffix(".yaml"): entry for entry in folder.iterdir() if entry.name.endswith(".yaml")}
    return {name: texts[name].read_text(encoding="utf-8") for name in sorted(texts)}


def load_recipe(name: str, changes: Iterable[str] = (), *, values: Mapping[str, object] | None = None) -> Recipe:
    """Loads a built-in recipe or a YAML file, applies `values`, then `key=value` changes, and validates the result."""
    content = read_named("recipe", name, built_in_recipes())
    recipe = check(Recipe, override(with_values(content, values or {}), changes), name)
    recipe.curriculum.check_own_parts(name, Path(name))
    refuse_reserved_name(recipe, name)
    return recipe


def refuse_reserved_name(recipe: Recipe, source: str) -> None:
    """Raises ConfigError for the name of the folder of the bitext models."""
    if recipe.name.lower() == BITEXT:
        raise ConfigError(
            f"{source}: name must not be {recipe.name!r}, which is the folder of the bitext models; choose another"
        )


def read_named(kind: str, name: str, built_in: Mapping[str, str]) -> dict[str, object]:
    """Reads the built-in recipe or study of this name, or a YAML file."""
    if name in built_in:
        return parse_mapping(built_in[name], name)
    if Path(name).suffix in (".yaml", ".yml") or Path(name).exists():
        return read_yaml(Path(name))
    raise ConfigError(f"no {kind} {name!r}: give a YAML file or one of {', '.join(built_in)}")
