"""The base class for sections of recipes, studies and scenarios, and the error messages for invalid ones."""

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from cclm.errors import ConfigError

LARGEST = 2**31 - 1
"""The largest count in a recipe. SentencePiece and NumPy's 32-bit integers hold no more."""
Whole = Annotated[int, Field(ge=0, le=LARGEST)]
Count = Annotated[int, Field(ge=1, le=LARGEST)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$")]


def _is_path(text: str) -> str:
    if not text or "\0" in text:
        raise ValueError("must be a path")
    return text


FilePath = Annotated[str, AfterValidator(_is_path)]
NAME, PATH = "by name", "by path"
"""How a gate or sampler is named: tags that pydantic puts into the path of a mistake."""


class Section(BaseModel):
    """A section of a recipe. Unknown keys are errors, instances are frozen, and numbers are finite by default.

    The docstring under a field is its documentation: `docs/configuration.md` is generated from it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, ser_json_inf_nan="constants")


SomeSection = TypeVar("SomeSection", bound=Section)


def check(model: type[SomeSection], content: Mapping[str, object], source: str) -> SomeSection:
    """Validates settings. The ConfigError lists all mistakes at once; `source` is the file that has them."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        problems = [_explain(details, model) for details in error.errors()]
        raise ConfigError("\n".join(f"{source}: {problem}" for problem in problems)) from None


def _explain(details: ErrorDetails, model: type[Section]) -> str:
    """The message for one validation error."""
    kind, given, context = details["type"], details["input"], details.get("ctx", {})
    path, keys = _resolve(details["loc"], model)
    where = ".".join(path)
    if kind == "extra_forbidden" and ":" in path[-1]:
        return f"unknown key {where!r}; YAML needs a space after the colon: {path[-1].replace(':', ': ', 1)}"
    if kind == "extra_forbidden":
        similar = difflib.get_close_matches(path[-1], keys, n=1) or (
            _in_a_section(path[0], model) if len(path) == 1 else []
        )
        hint = f"; did you mean {similar[0]!r}?" if similar else f"; known keys: {', '.join(sorted(keys))}"
        return f"unknown key {where!r}{hint}"
    if kind == "missing":
        return f"{where} is missing"
    if kind == "union_tag_invalid":
        return f"{where}.name must be one of {context['expected_tags']}; got {context['tag']!r}"
    if kind == "literal_error":
        return f"{where} must be one of {context['expected'].replace(' or ', ', ')}; got {given!r}"
    if kind in _EXPECTED:
        return f"{where} {_EXPECTED[kind]}; got {given!r}"
    message = details["msg"].removeprefix("Value error, ").removeprefix("Input ")
    problem = f"{where} {message[0].lower()}{message[1:]}".lstrip()
    # The message of a section's validator is complete; printing all values of the section would bury it.
    return problem if kind == "value_error" and isinstance(given, dict) else f"{problem}; got {given!r}"


_EXPECTED = {
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "must be an integer"),
    **dict.fromkeys(("float_parsing", "float_type"), "must be a number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "must be true or false"),
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "must be a section: keys and their values"),
    "list_type": "must be a list, as in [aze, bel]",
    "string_pattern_mismatch": "must have letters, digits, '.', '_' and '-' only, at most 64, and no '.' in front",
}
"""Mistakes that pydantic explains in its own terms, in ours."""


def _in_a_section(key: str, model: type[Section]) -> list[str]:
    """The keys of this name inside the sections of a model, with their section: `training.max_steps`."""
    return [
        f"{name}.{key}"
        for name, field in model.model_fields.items()
        for section in sections_in(field.annotation)
        if key in section.model_fields
    ]


def _resolve(loc: tuple[int | str, ...], model: Any) -> tuple[list[str], set[str]]:
    """The path as the user wrote it, without pydantic's union tags, and the valid keys at its last level."""
    path: list[str] = []
    keys: set[str] = set()
    for part in loc:
        if part in (NAME, PATH):
            continue
        if get_origin(model) is dict:
            path.append(str(part))
            model = get_args(model)[1]
            continue
        options = sections_in(model)
        keys = {name for option in options for name in option.model_fields}
        if part not in keys and (tagged := [option for option in options if part in _tags(option)]):
            model, keys = tagged[0], set(tagged[0].model_fields)
            continue
        path.append(str(part))
        model = next((o.model_fields[str(part)].annotation for o in options if part in o.model_fields), None)
    return path, keys


def sections_in(annotation: Any) -> list[type[Section]]:
    """The section classes in a field's annotation: one, several in a union, or none."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [section for part in get_args(annotation) for section in sections_in(part)]


def _tags(section: type[Section]) -> tuple[object, ...]:
    name = section.model_fields.get("name")
    return get_args(name.annotation) if name else ()
