"""docs/configuration.md: generated from the schema, complete, and up to date."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from cclm.cli.entry import cli
from cclm.recipe import Recipe
from cclm.recipe.configuration import configuration, meanings_of
from cclm.recipe.section import Section, sections_in

DOCUMENT = Path(__file__).parents[2] / "docs" / "configuration.md"


def keys_of(section: type[Section], prefix: str = "") -> list[tuple[str, type[Section], str]]:
    """(full key, section, name) of everything that a recipe can set."""
    found = []
    for name, field in section.model_fields.items():
        inner = sections_in(field.annotation)
        found += [(f"{prefix}{name}", section, name)] if not inner else []
        for part in inner:
            found += keys_of(part, f"{prefix}{name}.")
    return found


def test_the_document_is_up_to_date() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == configuration(), "run: cclm recipes --keys > docs/configuration.md"


def test_the_command_prints_the_document() -> None:
    assert CliRunner().invoke(cli, ["recipes", "--keys"]).stdout == configuration()


@pytest.mark.parametrize(("key", "section", "name"), keys_of(Recipe))
def test_every_key_is_described(key: str, section: type[Section], name: str) -> None:
    assert meanings_of(section)[name].endswith((".", ")"))


def test_every_key_is_in_the_document() -> None:
    document = configuration()
    named = {"curriculum.gate.name", "curriculum.sampler.name"}  # these are in the titles
    assert [key for key, _, _ in keys_of(Recipe) if key not in named and f"| `{key}` |" not in document] == []
