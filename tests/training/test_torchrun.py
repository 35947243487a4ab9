"""The environment variables of torchrun and of srun."""

import os

import pytest

from cclm.errors import ConfigError
from cclm.training.torchrun import first_host, local_rank, set_torch_environment, world_size


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


SRUN = {"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "2",
        "SLURM_LOCALID": "1", "SLURM_STEP_NODELIST": "gpu[07-09,12],login"}  # fmt: skip
TORCH = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of four tasks of srun."""
    for name in TORCH:
        monkeypatch.setenv(name, "")  # counts as not set, and is restored afterwards
    for name, value in SRUN.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("task")
def test_tasks_of_srun_are_ranks() -> None:
    assert (world_size(), local_rank()) == (4, 1)
    set_torch_environment()
    assert [os.environ[name] for name in TORCH] == ["2", "1", "4", "gpu07", str(15_000 + 87)]
    assert (world_size(), local_rank()) == (4, 1)


@pytest.mark.usefixtures("task")
def test_torchrun_counts_more_than_srun(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where srun starts one torchrun per node."""
    monkeypatch.setenv("WORLD_SIZE", "8")
    set_torch_environment()
    assert (world_size(), local_rank(), os.environ["MASTER_ADDR"]) == (8, 0, "")


@pytest.mark.usefixtures("task")
def test_a_batch_script_is_a_single_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_STEP_NUM_TASKS")
    monkeypatch.setenv("SLURM_NTASKS", "4")
    assert (world_size(), local_rank()) == (1, 0)


@pytest.mark.parametrize(
    ("nodes", "host"),
    [
        ("gpu07", "gpu07"),
        ("gpu07,gpu08", "gpu07"),
        ("gpu[07-09,12],login", "gpu07"),
        ("gpu[3,7-9].cluster", "gpu3.cluster"),
        ("rack[1-2]n[01-04]", "rack1n01"),
        ("127.0.0.[2-3]", "127.0.0.2"),
        ("", ""),
    ],
)
def test_the_first_node_of_a_list(nodes: str, host: str) -> None:
    assert first_host(nodes) == host
