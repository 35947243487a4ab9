"""Gates and samplers of users: a class by its import path, `my_module:Loudest`, and the arguments in the recipe.

The module is installed, or lies beside the recipe. Whoever uses a recipe with an import path runs that code.
"""

import difflib
import importlib
import inspect
import sys
import traceback
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cclm.errors import ConfigError

SIGNALS = frozenset({"benchmark", "train_loss"})
"""What a gate or sampler of the user's own may need beside dev_loss: the trainer and the simulation have these."""


def search_beside(path: Path) -> None:
    """Lets modules in the folder of this file be imported; installed modules come first."""
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)  # the processes of a study or sweep get the same path


def find_class(name: str, method: str) -> type[Any]:
    """The class at an import path, which must have this method; ConfigError says what is wrong."""
    module_name, _, class_name = name.partition(":")
    module = _module(module_name)
    found = getattr(module, class_name, None)
    if found is None:
        classes = [n for n, value in vars(module).items() if inspect.isclass(value) and value.__module__ == module_name]
        raise ConfigError(f"{module_name} has no {class_name!r}{_hint(class_name, classes)}")
    if not inspect.isclass(found) or not callable(getattr(found, method, None)):
        kind = "gate" if method == "admit" else "sampler"
        raise ConfigError(f"{name} is no {kind}: a {kind} is a class with a method {method}(now)")
    return found


def _module(name: str) -> Any:
    try:
        known = find_spec(name) is not None
    except (ImportError, ValueError):  # a package above it is missing
        known = False
    if not known:
        raise ConfigError(f"no module {name!r}: neither installed nor beside the recipe")
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise ConfigError(f"{name} cannot be imported: {describe_error(error)}") from None


def check_arguments(found: type[Any], arguments: Mapping[str, object], name: str, *, given: Iterable[str] = ()) -> None:
    """Refuses arguments that the constructor does not take, and missing ones; `given` are those that cclm adds."""
    parameters = list(inspect.signature(found).parameters.values())
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    names = [p.name for p in named]
    if not any(p.kind == p.VAR_KEYWORD for p in parameters):
        for unknown in sorted(set(arguments) - set(names)):
            raise ConfigError(f"{name} takes no {unknown!r}{_hint(unknown, names)}")
    missing = [p.name for p in named if p.default is p.empty and p.name not in {*arguments, *given}]
    if missing:
        raise ConfigError(f"{name} needs {', '.join(missing)}: give it beside the name")


def check_needs(needs: frozenset[str], name: str) -> None:
    """Refuses a gate or sampler that needs what nobody measures."""
    if unknown := sorted(needs - SIGNALS):
        raise ConfigError(f"{name} needs {', '.join(unknown)}; beside dev_loss, cclm has {', '.join(sorted(SIGNALS))}")


def describe_error(error: Exception) -> str:
    """An error in somebody's code: what it is, and where."""
    if isinstance(error, SyntaxError):
        return f"{error.msg} ({Path(error.filename or '').name}, line {error.lineno})"
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(place.filename).name}, line {place.lineno})"


def _hint(wrong: str, known: list[str]) -> str:
    near = difflib.get_close_matches(wrong, known, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; it has {', '.join(sorted(known))}" if known else ""
