"""A real SLURM on this machine: munged, slurmctld and one slurmd per node, in one folder and without privileges of a
cluster. A node is called by an address of this machine, and is a host of its own to cclm (CCLM_HOST)."""

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

NODES = ("127.0.0.2", "127.0.0.3")
NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "setpriv")
LOCK_TIMEOUT = 6
"""The same for cclm and the owner of a run on another host (CCLM_LOCK_TIMEOUT; usually 120)."""
CONFIGURATION = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
FirstJobId={first_job}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
TaskProlog={folder}/task_prolog.sh
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
ReturnToService=2
SlurmdTimeout=300
InactiveLimit=0
KillWait=20
PropagateResourceLimits=NONE
SlurmdParameters=config_overrides
{nodes}
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=9 PreemptMode=OFF
"""


class Slurm:
    """A SLURM that is up, and how to talk to it."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder, self.environment = folder, dict(environment)
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *command: str) -> None:
        """Starts a daemon, which also ends if this process is killed."""
        with open(self.folder / f"{name}.out", "ab") as out:
            self._daemons[name] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", *command],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def start_node(self, node: str) -> None:
        """Starts the slurmd of a node, for the first time or again."""
        self.start(node, "slurmd", "-D", "-f", self.environment["SLURM_CONF"], "-N", node)

    def kill_daemon(self, name: str) -> None:
        """Ends a daemon by SIGKILL, and nothing else."""
        daemon = self._daemons.pop(name)
        daemon.kill()
        daemon.wait()

    def fail_node(self, node: str) -> None:
        """A node fails: its slurmd and every process of a job on it are killed at the same time."""
        steps = self.processes(node)
        self.kill_daemon(node)
        kill_all(steps)
        kill_all(self.processes(node))

    def give_up(self, node: str) -> None:
        """SLURM counts a node as down: by itself it would do so after SlurmdTimeout."""
        self.ask("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")

    def processes(self, node: str | None = None) -> list[int]:
        """The processes of jobs, with their slurmstepd; of one node, or of all."""
        ours, found = f"SLURM_CONF={self.environment['SLURM_CONF']}".encode(), []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has just ended
                variables = (folder / "environ").read_bytes().split(b"\0")
                if ours in variables and (place := _node_of(folder, variables)) and node in (None, place):
                    found.append(int(folder.name))
        return found

    def trainings(self) -> list[int]:
        """The processes of cclm in jobs: without those of SLURM itself."""
        found = []
        for pid in self.processes():
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                found += [pid] if b"cclm" in words and b"srun" not in words else []
        return found

    def ask(self, *command: str) -> str:
        """What a command of SLURM answers."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        return done.stdout.strip()

    def submit(self, script: str, *options: str, **more: str) -> str:
        """The number of a new job that runs this script."""
        command = ["sbatch", "--parsable", f"--output={self.folder}/job-%j.out", "--open-mode=append", *options]
        environment = {**self.environment, **more}
        done = subprocess.run(
            command, input=f"#!/bin/bash\n{script}\n", env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def output(self, job: str) -> str:
        """What a job has printed so far."""
        path = self.folder / f"job-{job}.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def state(self, job: str) -> str:
        """PENDING, RUNNING, COMPLETED, ...; empty if SLURM has forgotten the job."""
        done = subprocess.run(
            ["squeue", "-h", "-t", "all", "-o", "%T", "-j", job],
            env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stdout.strip()

    def hurry(self, job: str) -> None:
        """Lets a requeued job start now: SLURM itself would wait for two minutes."""
        subprocess.run(
            ["scontrol", "update", f"JobId={job}", "StartTime=now"],
            env=self.environment,
            capture_output=True,
            check=False,
        )

    def heal(self) -> None:
        """Ends all jobs, and starts the nodes that are down."""
        self.ask("scancel", "--me")
        for node in NODES:
            if node not in self._daemons:
                self.start_node(node)
        wait_for_nodes(self)

    def end(self) -> None:
        """Ends all jobs and daemons."""
        for name in [*(node for node in NODES if node in self._daemons), "slurmctld", "munged"]:
            if name in self._daemons:
                self.kill_daemon(name)
        kill_all(self.processes())


def _node_of(process: Path, variables: Sequence[bytes]) -> str | None:
    """The node that a process of a job is on; of a slurmstepd, the one whose log it writes."""
    for variable in variables:
        if variable.startswith(b"SLURMD_NODENAME="):
            return variable.partition(b"=")[2].decode()
    if (process / "cmdline").read_bytes().startswith(b"slurmstepd"):
        for link in (process / "fd").iterdir():
            if found := re.search(r"/slurmd-([\d.]+)\.log", os.readlink(link)):
                return found[1]
    return None


def kill_all(processes: Sequence[int]) -> None:
    """Kills processes; some may have ended."""
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def wait_until(condition: Callable[[], object], limit: float, what: str) -> None:
    """Returns when something has happened."""
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, f"not within {limit:.0f} s: {what}"
        time.sleep(0.2)  # most conditions ask SLURM, which takes 0.02 s of processor time


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def why_not() -> str | None:
    """Why no SLURM can be started here; None if one can."""
    missing = [name for name in NEEDED if not shutil.which(name)]
    if missing:
        return f"no {', '.join(missing)}: apt-get install slurm-wlm munge"
    return None if os.geteuid() == 0 else "only root may start a SLURM"


@contextmanager
def slurm(folder: Path, cpus: int = 2) -> Iterator[Slurm]:
    """A SLURM with two nodes, two partitions, of which `high` preempts `low`, and no accounting."""
    if reason := why_not():
        pytest.skip(reason)
    folder = folder.resolve()
    (folder / "state").mkdir(parents=True)
    folder.chmod(0o755)
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    prolog = folder / "task_prolog.sh"
    prolog.write_text("#!/bin/sh\necho export CCLM_HOST=$SLURMD_NODENAME\n")
    prolog.chmod(0o755)
    # The number of the first job is any: ranks meet at a port that follows from it, and two such SLURMs may run here.
    host, ports = socket.gethostname().partition(".")[0], free_ports(1 + len(NODES))
    nodes = [
        f"NodeName={node} NodeHostname={host} NodeAddr={node} Port={port} CPUs={cpus} SocketsPerBoard=1"
        f" CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory=1000 State=UNKNOWN"
        for node, port in zip(NODES, ports[1:], strict=True)
    ]
    text = CONFIGURATION.format(host=host, port=ports[0], first_job=ports[1], folder=folder, nodes="\n".join(nodes))
    (folder / "slurm.conf").write_text(text)
    variables = {"SLURM_CONF": str(folder / "slurm.conf"), "CCLM_LOCK_TIMEOUT": str(LOCK_TIMEOUT)}
    box = Slurm(folder, {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **variables})
    try:
        _start(box, key)
        yield box
    finally:
        box.end()


def _start(box: Slurm, key: Path) -> None:
    folder = box.folder
    files = [f"--{kind}-file={folder}/munged.{kind}" for kind in ("pid", "log", "seed")]
    box.start(
        "munged", "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket", *files
    )
    wait_until((folder / "munge.socket").exists, 20, "munged is up")
    box.start("slurmctld", "slurmctld", "-D", "-i", "-f", box.environment["SLURM_CONF"])
    for node in NODES:
        box.start_node(node)
    wait_for_nodes(box)


def wait_for_nodes(box: Slurm) -> None:
    """Returns when every node can take jobs."""

    def idle() -> bool:
        done = subprocess.run(
            ["sinfo", "-h", "-t", "idle", "-p", "low", "-o", "%D"],
            env=box.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stdout.strip() == str(len(NODES))

    wait_until(idle, 60, f"all nodes are idle: see {box.folder}")
