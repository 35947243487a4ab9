"""schemathesis against the service: it makes requests from the OpenAPI document, good and bad ones, and judges answers.

    python tests/soak/openapi.py --schemathesis PATH [--examples 500] [--seed 1] [--run RUN ...]

schemathesis is a program of its own, best in a virtual environment of its own: `make openapi` makes one. Without --run,
small models are trained: into English, out of it, and both ways. Each is served alone, then all of them at once, and
with a token. The exit code is 0 if nothing is found.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from corpora import write_tsv
from trained_run import trained_run
from translation_server import serving

CONFIGURATION = """
# Text that is too long is refused with 413, as the document says.
[checks.negative_data_rejection]
expected-statuses = [400, 401, 404, 405, 413, 415]
"""
SETTINGS = ["training.max_steps=20", "training.validate_every=20"]


def main() -> int:
    """Serves and checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemathesis", default="schemathesis")
    parser.add_argument("--examples", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run", type=Path, action="append")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = options.run or small_runs(Path(folder))
        (Path(folder) / "schemathesis.toml").write_text(CONFIGURATION)
        codes = [check([run], None, Path(folder), options) for run in runs]
        codes += [check(runs, token, Path(folder), options) for token in (None, "secret")]
    return max(codes)


def small_runs(folder: Path) -> list[Path]:
    write_tsv(folder / "text", train=120)
    every = ["curriculum={gate: {name: all}}", *SETTINGS]
    return [
        trained_run(folder, f"work={folder}/m2o", "name=into-english", *every),
        trained_run(folder, f"work={folder}/o2m", "name=from-english", "data.direction=one-to-many", *every),
        trained_run(folder, f"work={folder}/m2m", "name=both-ways", "data.direction=many-to-many",
                    "vocabulary.joint=true", *every),
    ]  # fmt: skip


def check(runs: list[Path], token: str | None, folder: Path, options: argparse.Namespace) -> int:
    """The exit code of schemathesis."""
    print(f"--- {', '.join(run.name for run in runs)}{' with a token' if token else ''}", flush=True)
    with serving(*runs, token=token) as service:
        command = [options.schemathesis, "run", f"{service.address}/openapi.json", "--checks", "all"]
        command += ["--max-examples", str(options.examples), "--seed", str(options.seed)]
        command += ["-H", f"Authorization: Bearer {token}"] if token else []
        return subprocess.run(command, cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
