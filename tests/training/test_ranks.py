"""Several processes under torchrun, on one machine or two, are one training; and what becomes of it if one dies."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import poisoned_training
import pytest
import torch
from corpora import write_tsv
from small_recipe import events
from warm_commands import WarmCommand

from cclm.data.prepared import Prepared
from cclm.errors import Interrupted, TrainingError
from cclm.experiments.benchmark import fingerprint
from cclm.experiments.pipeline import Pipeline
from cclm.recipe import Recipe, load_recipe
from cclm.training import ranks
from cclm.training.lock import owner_of
from cclm.training.ranks import joined

pytestmark = pytest.mark.slow
PYTHON = [sys.executable, "-m"]
TORCHRUN = [*PYTHON, "torch.distributed.run"]
SHARED = "training.accumulate=1"
"""With two ranks: as many micro-batches a step as the recipe has for one process."""
COMPARED = (
    "model.safetensors", "optimizer.safetensors", "average.safetensors", "curriculum.json", "progress.json",
    "probe.safetensors",
)  # fmt: skip
RECIPE = """version: 1
name: small
work: {folder}/work
data: {{format: tsv, path: {folder}/text, high_resource: [tur, por], low_resource: [aze, glg]}}
vocabulary: {{pieces: 120}}
model: {{layers: 1, heads: 2, width: 16, feed_forward: 32, dropout: 0.2}}
curriculum: {{gate: {{threshold: 0.3}}, sampler: {{name: chi-square}}, every: 5, probe: {{share: 0.1}}}}
benchmark: {{file: {folder}/benchmark.json}}
training: {{batch_tokens: 200, accumulate: 2, learning_rate: 0.01, warmup: 10, max_steps: 60, validate_every: 12,
            schedule: wsd, decay: 9, average: {{ema: 0.9}}, split_pieces: {{source: 0.2}}, clip: 1.0, device: cpu,
            precision: fp32}}
translation: {{beam: 1}}
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small recipe, trained by one process as the run `whole`: what all others must come to.

    The fingerprint of its L* is that of one process; ranks with the same updates must have the same.
    """
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("ranks")
    write_tsv(folder / "text")
    path = folder / "recipe.yaml"
    path.write_text(RECIPE.format(folder=folder))
    losses: dict[str, object] = {"version": 1, "losses": dict.fromkeys(("tur", "por", "aze", "glg"), 4.0)}
    losses["fingerprint"] = fingerprint(load_recipe(str(path)), prepared_data(load_recipe(str(path))))
    (folder / "benchmark.json").write_text(json.dumps(losses))
    (folder / "own.json").write_text(json.dumps({"version": 1, "losses": losses["losses"]}))
    alone(path, "whole")
    return path


def prepared_data(recipe: Recipe) -> Prepared:
    pipeline = Pipeline(recipe)
    pipeline.walk(("prepare",))
    return pipeline.data


def run_train(recipe: Recipe) -> Path:
    pipeline = Pipeline(recipe)
    assert pipeline.run(("prepare", "graph", "benchmark", "train"))
    return pipeline.folder


def settings(recipe: Path, name: str, *changes: str) -> Recipe:
    return load_recipe(str(recipe), [f"name={name}", *changes])


def alone(recipe: Path, name: str, *changes: str) -> None:
    """Trains in this very process."""
    assert run_train(settings(recipe, name, *changes)) == run_folder(recipe, name)


def run_folder(recipe: Path, name: str) -> Path:
    return recipe.parent / "work" / "runs" / name


def result(recipe: Path, name: str) -> dict[str, bytes]:
    """Everything that must be equal to the byte."""
    run = run_folder(recipe, name)
    latest = run / "checkpoints" / (run / "checkpoints" / "latest").read_text().strip()
    return {file: (latest / file).read_bytes() for file in COMPARED} | {"log": (run / "log.jsonl").read_bytes()}


Started = subprocess.Popen[str] | WarmCommand
STARTED: list[Started] = []


@pytest.fixture(autouse=True)
def nobody_stays() -> Iterator[None]:
    """Whatever became of a test, its processes end with it."""
    yield
    for process in STARTED:
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGTERM)  # torchrun ends its ranks, too
    for process in STARTED:
        process.communicate(timeout=60)
    STARTED.clear()


def start(command: list[str], **more: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **more}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    STARTED.append(process)
    return process


def torchrun(recipe: Path, name: str, *options: str) -> "subprocess.Popen[str]":
    """Two ranks on this machine, which share the work of one process."""
    ranks = ["--standalone", "--nproc-per-node", "2", *options]
    return start([*TORCHRUN, *ranks, "-m", "cclm", "train", str(recipe), f"name={name}", SHARED])


def free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def by_hand(commands: list[list[str]], **more: str) -> list[Started]:
    """One rank per command, with what torchrun puts into the environment, so that the exit code of each can be seen.

    A command is a program, or the arguments of `cclm`, which is forked off a process that has loaded torch.
    """
    port = free_port()
    world = {"WORLD_SIZE": str(len(commands)), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [_start_rank(command, RANK=str(rank), **world, **more) for rank, command in enumerate(commands)]


def _start_rank(command: list[str], **environment: str) -> Started:
    if command[0] == sys.executable:
        return start(command, **environment)
    STARTED.append(WarmCommand(command, Path.cwd(), environment))
    return STARTED[-1]


def ended(process: Started, within: float = 150) -> tuple[int, str]:
    """The exit code of a process, and what it said; none may hang."""
    stdout, stderr = process.communicate(timeout=within)
    STARTED.remove(process)
    assert process.returncode is not None
    return process.returncode, stdout + (stderr or "")


def wait_for_log(recipe: Path, name: str, share: float) -> None:
    """Returns when the log has grown to this share of the whole one's."""
    log, enough = run_folder(recipe, name) / "log.jsonl", share * len(result(recipe, "whole")["log"])
    end = time.monotonic() + 120
    while time.monotonic() < end and (not log.exists() or log.stat().st_size < enough):
        time.sleep(0.002)


def process_of(rank: int, torchrun: "subprocess.Popen[str]") -> int:
    """The process id of a rank: the child of torchrun that has its number in the environment."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it has just gone
        if parent == torchrun.pid and f"RANK={rank}".encode() in variables:
            return int(folder.name)
    raise AssertionError(f"rank {rank} is not running")


@contextmanager
def signalled_at(recipe: Path, name: str, share: float) -> Iterator[None]:
    """A SIGTERM to this process when the log has grown so far."""

    def send() -> None:
        wait_for_log(recipe, name, share)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, lambda *_: None)  # should the training be over already
    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        sender.join()
        signal.signal(signal.SIGTERM, before)


def test_two_ranks_are_one_process_with_twice_the_accumulation(recipe: Path) -> None:
    code, said = ended(torchrun(recipe, "two"))
    assert code == 0, said
    assert said.count("stopped, all steps are done") == 1
    assert said.count(str(run_folder(recipe, "two"))) == 1
    assert result(recipe, "two") == result(recipe, "whole")
    assert json.loads((run_folder(recipe, "two") / "environment.json").read_text())["world_size"] == 2
    alone(recipe, "two", SHARED)  # the same command: `accumulate` follows from the micro-batches per step
    assert result(recipe, "two") == result(recipe, "whole")
    assert load_recipe(str(run_folder(recipe, "two") / "config.yaml")).training.accumulate == 1  # as it was begun
    with pytest.raises(TrainingError, match=r"was begun with other settings.*\n.*accumulate x ranks: 2 -> 3"):
        alone(recipe, "two", "training.accumulate=3", f"benchmark.file={recipe.parent}/own.json")


def test_a_signal_to_one_rank_stops_all_and_any_number_of_ranks_goes_on(recipe: Path) -> None:
    with signalled_at(recipe, "changing", 0.3), pytest.raises(Interrupted):
        alone(recipe, "changing")
    process = torchrun(recipe, "changing")
    wait_for_log(recipe, "changing", 0.6)
    os.kill(process_of(1, process), signal.SIGTERM)
    code, said = ended(process, within=60)
    assert code == 1  # torchrun's own
    assert said.count("exitcode  : 143") == 2
    assert said.count("interrupted; run the same command to continue") == 1
    assert owner_of(run_folder(recipe, "changing")) is None
    alone(recipe, "changing")
    assert result(recipe, "changing") == result(recipe, "whole")


def test_when_a_rank_dies_the_others_end_and_the_run_goes_on_to_the_same_bytes(recipe: Path) -> None:
    process = torchrun(recipe, "dying")
    wait_for_log(recipe, "dying", 0.4)
    os.kill(process_of(1, process), signal.SIGKILL)
    code, said = ended(process, within=60)
    assert code == 1
    assert "cclm: rank 0: another rank is gone or does not answer" in said
    train = ["train", str(recipe), "name=dying", SHARED]
    first, second = by_hand(
        [train, train], CCLM_FAULT_AT="save:before_rename,1,SIGKILL"
    )  # now the first, while it saves
    assert ended(first)[0] == -signal.SIGKILL
    code, said = ended(second, within=60)
    assert code == 1
    assert "cclm: rank 1: another rank is gone or does not answer" in said
    alone(recipe, "dying")
    assert result(recipe, "dying") == result(recipe, "whole")


def test_ranks_that_torchrun_starts_again_resume_to_the_same_bytes(recipe: Path) -> None:
    process = torchrun(recipe, "restarted", "--max-restarts", "2")
    for rank, share in ((0, 0.4), (1, 0.7)):
        wait_for_log(recipe, "restarted", share)
        os.kill(process_of(rank, process), signal.SIGKILL)
    code, said = ended(process)
    assert code == 0, said
    assert said.count("resuming from step") == 2, said
    assert result(recipe, "restarted") == result(recipe, "whole")


def test_ranks_with_different_weights_stop(recipe: Path) -> None:
    """A rank whose weights have changed by one bit is noticed at the next checkpoint."""
    program = [sys.executable, poisoned_training.__file__, "flip", "train", str(recipe), "name=apart", SHARED]
    train = ["train", str(recipe), "name=apart", SHARED]
    first, second = by_hand([train, program])
    for process in (first, second):
        code, said = ended(process)
        assert code == 1, said
        assert "the ranks have different weights at step 12" in said
    assert not (run_folder(recipe, "apart") / "checkpoints").exists()


def test_a_rank_that_does_not_answer_is_given_up(recipe: Path) -> None:
    train = ["train", str(recipe), "name=silent", SHARED]
    first, second = by_hand([train, train], CCLM_RANKS_TIMEOUT="2")
    wait_for_log(recipe, "silent", 0.3)
    second.send_signal(signal.SIGSTOP)
    code, said = ended(first, within=60)
    assert code == 1
    assert "cclm: rank 0: another rank is gone or does not answer (Timed out" in said


def test_a_gradient_that_is_no_number_on_one_rank_is_taken_by_none(recipe: Path) -> None:
    handle = poisoned_training.poison(71)
    try:
        alone(recipe, "poisoned")
    finally:
        handle.remove()
    program = [sys.executable, poisoned_training.__file__, "71", "train", str(recipe), "name=poisoned-ranks", SHARED]
    assert [ended(process)[0] for process in by_hand([program, program])] == [0, 0]
    assert result(recipe, "poisoned-ranks") == result(recipe, "poisoned") != result(recipe, "whole")
    trained = [event for event in events(run_folder(recipe, "poisoned-ranks")) if event["event"] == "train"]
    assert [event["skipped"] for event in trained] == [1]


def test_three_ranks_with_next_to_no_data_do_not_hang(recipe: Path, tmp_path: Path) -> None:
    # Two dev batches for three ranks; two training batches a language; nothing is prepared yet.
    write_tsv(tmp_path / "text", train=12, dev=1, test=1)
    data = f"data={{format: tsv, path: {tmp_path}/text, high_resource: [tur], low_resource: [aze]}}"
    losses = "benchmark={method: multilingual, max_steps: 5}"  # the first rank trains it, as one process would
    sampler = "curriculum.sampler={name: size-and-competence}"
    changes = [f"work={tmp_path}", data, losses, sampler, "training.max_steps=24", "training.bleu=true"]
    train = ["train", str(recipe), "name=three", *changes, "training.accumulate=2"]
    for process in by_hand([train] * 3):
        code, said = ended(process)
        assert code == 0, said
    run_train(settings(recipe, "one", *changes, "training.accumulate=6"))
    assert len(list((tmp_path / "cache" / "benchmark").glob("*/multilingual/log.jsonl"))) == 1
    three, one = events(tmp_path / "runs" / "three"), events(tmp_path / "runs" / "one")
    # The gradients of six micro-batches were added in another order: equal, but for the last bits.
    assert three == [approximately(event) for event in one]


def approximately(value: object) -> object:
    if isinstance(value, dict):
        return {name: approximately(part) for name, part in value.items()}
    return pytest.approx(value, rel=1e-4) if isinstance(value, float) else value


def test_ranks_with_different_commands_are_refused_with_the_difference(recipe: Path) -> None:
    train = ["train", str(recipe), "name=different", SHARED]
    first, second = by_hand([train, [*train, "training.learning_rate=0.02", "training.max_steps=9"]])
    code, said = ended(second)
    assert code == 1
    assert "rank 1 was started with other settings than rank 0; give every rank the same command" in said
    assert "recipe.training.learning_rate: 0.01 -> 0.02" in said
    assert "training.max_steps: 60 -> 9" in said
    code, said = ended(first)
    assert code == 1
    assert "cclm: rank 0: another rank is gone" in said


def test_ranks_that_nobody_introduced_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with (
        pytest.raises(
            TrainingError,
            match=r"could not join the other ranks: .* RANK expected, .*; start them with torchrun, or with srun",
        ),
        joined(torch.device("cpu")),
    ):
        pass


def test_a_rank_does_not_wait_for_ever_for_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    alone = {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "CCLM_RANKS_TIMEOUT": "1"}
    for name, value in alone.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(ranks, "JOIN_TIMEOUT", timedelta(seconds=1))
    with (
        pytest.raises(TrainingError, match=rf"could not join the other ranks: nobody answers at 127.0.0.1:{port} \("),
        joined(torch.device("cpu")),
    ):
        pass


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGINT])
def test_a_signal_ends_the_first_rank_while_it_waits_for_the_others(recipe: Path, number: signal.Signals) -> None:
    """torch waits in C++, where no handler runs: another rank may have ended by the same signal before they met."""
    port = free_port()
    world = {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "SLURM_JOB_ID": "1"}
    process = _start_rank(["train", str(recipe), "name=waiting", SHARED], **world)
    until = time.monotonic() + 60
    while not is_listening(port):
        assert time.monotonic() < until
        time.sleep(0.1)
    time.sleep(0.5)  # it listens, and begins to wait
    process.send_signal(number)
    assert ended(process, within=30) == (128 + number, "cclm: interrupted\n")


def is_listening(port: str) -> bool:
    with socket.socket() as here:
        return here.connect_ex(("127.0.0.1", int(port))) == 0


@pytest.fixture
def machines() -> Iterator[list[tuple[list[str], str]]]:
    """Two network namespaces joined by a cable: for each, what runs a command in it, and its interface."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        pytest.skip("two machines are made of network namespaces: that takes root and `ip` (iproute2)")
    names = [f"cclm{os.getpid()}{side}" for side in "ab"]
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", names[0], "netns", names[0], "type", "veth", "peer", "name", names[1], "netns", names[1])
        for number, name in enumerate(names, start=1):
            ip("-n", name, "address", "add", f"10.99.0.{number}/24", "dev", name)
            ip("-n", name, "link", "set", name, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield [(["ip", "netns", "exec", name], name) for name in names]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"


def on_two(
    machines: list[tuple[list[str], str]], recipe: Path, name: str, **more: str
) -> list["subprocess.Popen[str]"]:
    """torchrun on both machines, a rank on each."""
    train = ["-m", "cclm", "train", str(recipe), f"name={name}", SHARED]
    meeting = ["--nnodes", "2", "--nproc-per-node", "1", "--master-addr", "10.99.0.1", "--master-port", "29500"]
    return [
        start([*inside, *TORCHRUN, *meeting, "--node-rank", str(number), *train], GLOO_SOCKET_IFNAME=interface, **more)
        for number, (inside, interface) in enumerate(machines)
    ]


def test_two_machines_are_one_process(recipe: Path, machines: list[tuple[list[str], str]]) -> None:
    for process in on_two(machines, recipe, "machines"):
        code, said = ended(process)
        assert code == 0, said
    assert result(recipe, "machines") == result(recipe, "whole")


def test_two_machines_end_when_a_rank_dies_or_the_cable_is_cut_and_go_on_to_the_same_bytes(
    recipe: Path, machines: list[tuple[list[str], str]]
) -> None:
    processes = on_two(machines, recipe, "apart")
    wait_for_log(recipe, "apart", 0.3)
    os.kill(process_of(1, processes[1]), signal.SIGKILL)
    assert_ended_apart(processes)
    processes = on_two(machines, recipe, "apart", CCLM_RANKS_TIMEOUT="5")
    wait_for_log(recipe, "apart", 0.6)
    ip("-n", machines[1][1], "link", "set", machines[1][1], "down")
    assert_ended_apart(processes)
    alone(recipe, "apart")
    assert result(recipe, "apart") == result(recipe, "whole")


def assert_ended_apart(processes: list["subprocess.Popen[str]"]) -> None:
    """Both have ended with an error within a minute, the first rank with its reason."""
    end = time.monotonic() + 60
    (code, said), (other, _) = (ended(process, within=end - time.monotonic()) for process in processes)
    assert (code, other) == (1, 1)
    assert "cclm: rank 0: another rank is gone or does not answer" in said
    assert "the same command resumes from it" in said
