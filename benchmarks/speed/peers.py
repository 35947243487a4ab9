"""The peers' environments: each has its own, made on first use, and none becomes a dependency of ours.

torch comes first, in our version; then the peer without its dependencies, some of which ask for an old torch or are
not needed for training; then what it really imports.
"""

import subprocess
import sys
import venv
from pathlib import Path

TORCH = "torch==2.13.0"
PEERS = {
    "sockeye": ("sockeye==3.1.34", ["numpy<3", "pyyaml", "sacrebleu==2.6.0"]),
    "eole": (
        "eole==0.6.4",
        [
            "numpy<3", "pyyaml", "aiohttp", "requests", "configargparse", "ctranslate2==4.8.4", "fastapi", "pydantic",
            "pyonmttok", "rapidfuzz", "rich", "sacrebleu==2.6.0", "safetensors", "sentencepiece", "six", "subword-nmt",
            "tensorboard", "tokenizers", "torch-optimi", "huggingface_hub", "pandas", "pyahocorasick", "waitress",
            "uvicorn", "datasets",
        ],
    ),
    "joeynmt": (
        "joeynmt==2.3.0",
        [
            "numpy<3", "pyyaml", "importlib_metadata", "sacrebleu==2.6.0", "sacremoses", "sentencepiece", "subword-nmt",
            "tensorboard", "matplotlib", "seaborn", "datasets", "packaging", "pandas", "future", "pillow", "six",
        ],
    ),
}  # fmt: skip


class NoPeer(RuntimeError):
    """A peer that could not be installed."""


def python_of(peer: str, folder: Path) -> Path:
    """The interpreter of the peer's environment, made if it is not there."""
    home = folder / peer
    python = home / "bin" / "python"
    if (home / "installed").exists():
        return python
    print(f"making {home}: torch and {peer}, a few minutes", file=sys.stderr, flush=True)
    venv.create(home, clear=True, with_pip=True)
    package, imported = PEERS[peer]
    for arguments in ([TORCH], ["--no-deps", package], [TORCH, *imported]):
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            last = (result.stderr.strip().splitlines() or ["pip said nothing"])[-1]
            raise NoPeer(f"{package} could not be installed: {last}")
    (home / "installed").touch()
    return python
