"""The keys of pretrained models: earlier recipes stay what they were, and mistakes are named."""

from typing import Any

import pytest

from cclm.errors import ConfigError
from cclm.experiments.benchmark import MODEL_0_1_0
from cclm.recipe.schema import Recipe
from cclm.recipe.section import check

BASE: dict[str, Any] = {
    "version": 1, "name": "a", "work": "w",
    "data": {"format": "tsv", "path": "t", "high_resource": ["tur"], "low_resource": ["aze"]},
}  # fmt: skip


def dumped(**model: object) -> dict[str, Any]:
    content: dict[str, Any] = check(Recipe, {**BASE, "model": model}, "test").model_dump(mode="json")["model"]
    return content


def test_without_a_pretrained_model_the_settings_are_those_of_version_0_1_0() -> None:
    assert set(dumped()) == set(MODEL_0_1_0)


def test_with_one_only_what_is_set_is_kept() -> None:
    assert dumped(pretrained="x/y") == {"pretrained": "x/y"}
    given = {
        "pretrained": "x/y",
        "dropout": 0.2,
        "lora": {"rank": 8},
        "freeze": "encoder",
        "codes": {"aze": "azj_Latn"},
    }
    assert dumped(**given) == given | {"lora": {"rank": 8, "alpha": 32, "dropout": 0.0}}
    assert dumped(**dumped(**given)) == dumped(**given)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"freeze": "encoder"}, "freeze needs model.pretrained"),
        ({"lora": {"rank": 8}}, "lora needs model.pretrained"),
        ({"pretrained": "x/y", "codes": {"fra": "fra_Latn"}}, "model.codes names fra, which data has not"),
        ({"pretrained": "x/y", "freeze": "decoder"}, "model.freeze must be one of 'embeddings', 'encoder'"),
        ({"pretrained": ""}, "model.pretrained must be a path"),
    ],
)
def test_mistakes_are_named(model: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace(".", r"\.")):
        dumped(**model)
