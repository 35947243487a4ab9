"""The environment variables of torchrun."""

import pytest

from cclm.errors import ConfigError
from cclm.training.torchrun import local_rank, world_size


@pytest.mark.parametrize(("value", "size"), [("", 1), ("1", 1), ("4", 4)])
def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch, value: str, size: int) -> None:
    monkeypatch.setenv("WORLD_SIZE", value)
    assert world_size() == size


@pytest.mark.parametrize("value", ["x", "0", "-1", "1.5", "²"])
def test_a_variable_that_is_no_number_is_named(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("WORLD_SIZE", value)
    with pytest.raises(ConfigError, match="environment variable WORLD_SIZE is"):
        world_size()


def test_without_torchrun_a_process_is_the_first_on_its_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert local_rank() == 0
