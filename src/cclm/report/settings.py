"""The little that a report must understand of a recipe: which method it was. All else is shown as it stands."""

from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError


def read_settings(text: str) -> Mapping[str, Any]:
    """The recipe's settings; none where the text cannot be read, for it is shown anyway."""
    try:
        content = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, Mapping) else {}


def setting(settings: Any, *path: str) -> Any:
    """The value at this path, or None."""
    for name in path:
        settings = settings.get(name) if isinstance(settings, Mapping) else None
    return settings


def method(settings: Mapping[str, Any]) -> str:
    """The method in a few words; nothing where the recipe does not say."""
    gate, sampler = setting(settings, "curriculum", "gate"), setting(settings, "curriculum", "sampler", "name")
    name = setting(gate, "name")
    if name is None or sampler is None:
        return ""
    if name != "competence":
        start = {"all": "all languages from the start", "step": "admission by the step"}.get(name, f"gate {name}")
        return f"{start}, {sampler} sampling"
    aggregate, threshold = setting(gate, "aggregate"), setting(gate, "threshold")
    if sampler == "inverse-competence":
        return f"CCL-M {aggregate}, threshold {threshold}"
    return f"competence gate ({aggregate}, threshold {threshold}), {sampler} sampling"
