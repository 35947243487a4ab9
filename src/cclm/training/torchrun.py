"""The rank of this process and the number of ranks, as torchrun or srun sets them. Does not import torch.

torchrun sets WORLD_SIZE, RANK and LOCAL_RANK in the environment. They take precedence over what srun sets for the
tasks of a job step, because srun may have started torchrun.
"""

import os
import re

from cclm.errors import ConfigError

FIRST_PORT, PORTS = 15_000, 15_000
"""Ports below those that the kernel gives out by itself."""


def world_size() -> int:
    """How many ranks torchrun or srun has started; 1 without them."""
    return _number("WORLD_SIZE", _tasks_of_step(), least=1)


def local_rank() -> int:
    """The number of this rank on its machine: which GPU is its own."""
    return _number("LOCAL_RANK", _number("SLURM_LOCALID", 0, least=0) if _is_task() else 0, least=0)


def set_torch_environment() -> None:
    """If srun has started the ranks, sets the environment variables that torchrun would have set for torch.

    The ranks meet at a port of the first node, computed from the ids of job and step. MASTER_ADDR and MASTER_PORT in
    the environment take precedence.
    """
    if not _is_task():
        return
    port = FIRST_PORT + (7 * _number("SLURM_JOB_ID", 0, least=0) + _number("SLURM_STEP_ID", 0, least=0)) % PORTS
    found = {
        "RANK": str(_number("SLURM_PROCID", 0, least=0)),
        "LOCAL_RANK": str(local_rank()),
        "WORLD_SIZE": str(world_size()),
        "MASTER_ADDR": first_host(os.environ.get("SLURM_STEP_NODELIST", "")) or "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    for name, value in found.items():
        os.environ[name] = os.environ.get(name) or value


def first_host(nodes: str) -> str:
    """The first of SLURM's list of nodes, such as `gpu[07-09,12],login`."""
    first = re.match(r"(?:[^,\[]|\[[^\]]*\])*", nodes)
    return re.sub(r"\[([^\],-]*)[^\]]*\]", r"\1", first[0]) if first else ""


def _is_task() -> bool:
    """Whether this is one of several tasks of srun, and no torchrun is between them."""
    return not os.environ.get("WORLD_SIZE", "").strip() and _tasks_of_step() > 1


def _tasks_of_step() -> int:
    """The tasks of this job step. SLURM_NTASKS would not do: it is set in a batch script, which is a single process."""
    return _number("SLURM_STEP_NUM_TASKS", 1, least=1)


def _number(name: str, default: int, *, least: int) -> int:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise ConfigError(f"environment variable {name} is {text!r}: a whole number of at least {least}, or not set")
    return int(text)
