"""The models that a service offers: opened from runs or exports, each under a name."""

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from cclm.errors import ConfigError
from cclm.formats.export import Pair
from cclm.recipe.language_codes import canonical
from cclm.translation.model import Model, Quantization, UnknownPair, load

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Offered:
    """A model under a name, with everything that it can translate."""

    def __init__(self, name: str, model: Model) -> None:
        self.name, self.model = name, model

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The languages that it translates from."""
        return tuple(dict.fromkeys(pair.source for pair in self.model.pairs))

    @cached_property
    def pairs(self) -> dict[str, tuple[Pair, ...]]:
        """What it translates each language into: the trained pairs, then the zero-shot ones."""
        targets = tuple(dict.fromkeys(pair.target for pair in self.model.pairs))
        found: dict[str, tuple[Pair, ...]] = {}
        for source in self.sources:
            possible = [pair for target in targets if (pair := self._find(source, target))]
            found[source] = tuple(sorted(possible, key=lambda pair: pair.zero_shot))
        return found

    def chosen(self, source: str | None, targets: Sequence[str] | None) -> list[Pair]:
        """The pairs of a request; without targets every trained one. UnknownPair if there is none."""
        if source is None and len(self.sources) > 1:
            raise UnknownPair(f"give the source language: one of {', '.join(self.sources)}")
        source = self.sources[0] if source is None else source
        if targets is not None:
            return list(dict.fromkeys(self.model.pair(source, target) for target in targets))
        known = [one for one in self.sources if one == source]
        known = known or [one for one in self.sources if canonical(one) == canonical(source)]
        if not known:
            raise UnknownPair(f"this model does not translate from {source}; it translates {', '.join(self.sources)}")
        return [pair for pair in self.pairs[known[0]] if not pair.zero_shot]

    def load(self) -> None:
        """Reads the weights and all subword models now, so that no request waits for them."""
        for pair in self.model.pairs:
            self.model.encode([""], pair)

    def _find(self, source: str, target: str) -> Pair | None:
        try:
            return self.model.pair(source, target)
        except UnknownPair:
            return None


def open_models(
    arguments: Sequence[str], *, quantization: Quantization | None = None, threads: int | None = None
) -> dict[str, Offered]:
    """The models of `[NAME=]RUN_OR_EXPORT` arguments, by name."""
    found: dict[str, Offered] = {}
    for argument in arguments:
        name, folder = _named(argument)
        if name in found:
            raise ConfigError(
                f"{argument}: there are two models called {name!r}; name one of them, as in other={folder}"
            )
        if not folder.is_dir():
            raise ConfigError(f"{folder}: no such folder; give a run directory or an exported model")
        found[name] = Offered(name, load(folder, quantization=quantization, threads=threads))
    return found


def _named(argument: str) -> tuple[str, Path]:
    name, equals, path = argument.partition("=")
    if not equals or Path(argument).is_dir():
        name, path = _name_of(Path(argument)), argument
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{argument}: {name!r} cannot be the name of a model; give one of letters, digits, '.', '_' and '-',"
            " as in mine=FOLDER"
        )
    return name, Path(path)


def _name_of(folder: Path) -> str:
    """The name of a folder; of an export in a run directory, the name of the run."""
    parts = folder.resolve().parts
    return parts[-3] if len(parts) > 3 and parts[-2] == "export" else parts[-1]
