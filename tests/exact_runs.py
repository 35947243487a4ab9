"""Trainings of one small recipe, as commands that tests stop, resume and compare to the byte."""

import json
import shutil
from pathlib import Path

from corpora import write_tsv
from forks import Finished, Forks

COMPARED = ("model.safetensors", "optimizer.safetensors", "curriculum.json", "progress.json")
RECIPE = """version: 1
name: small
work: {work}
data: {{format: tsv, path: {text}, high_resource: [tur, por], low_resource: [aze, glg]}}
vocabulary: {{pieces: 120}}
model: {{layers: 1, heads: 2, width: 16, feed_forward: 32, dropout: 0.2}}
curriculum: {{gate: {{threshold: 0.3}}, every: 5, dev_sample: 8}}
benchmark: {{file: {benchmark}}}
training: {{batch_tokens: 200, accumulate: 2, learning_rate: 0.01, warmup: 10, max_steps: 60, validate_every: 12,
            device: cpu, precision: fp32}}
translation: {{beam: 1}}
"""


class Runs:
    """Trainings of one small recipe, each into a run directory of its own."""

    def __init__(self, folder: Path) -> None:
        write_tsv(folder / "text")
        losses = {"version": 1, "losses": dict.fromkeys(("tur", "por", "aze", "glg"), 4.0)}
        (folder / "benchmark.json").write_text(json.dumps(losses))
        self._recipe, self._folder = folder / "recipe.yaml", folder
        paths = {"work": folder / "work", "text": folder / "text", "benchmark": folder / "benchmark.json"}
        self._recipe.write_text(RECIPE.format(**paths))
        self.forks = Forks(folder)

    def folder(self, name: str) -> Path:
        return self._folder / "work" / "runs" / name

    def train(self, name: str, *overrides: str, fault: str = "") -> Finished:
        self.start(name, *overrides, fault=fault)
        return self.forks.finish()

    def start(self, name: str, *overrides: str, fault: str = "") -> int:
        return self.forks.start("train", str(self._recipe), f"name={name}", *overrides, CCLM_FAULT_AT=fault)

    def copy(self, name: str, other: str) -> None:
        """Another run of the same state."""
        shutil.copytree(self.folder(name), self.folder(other))
        path = self.folder(other) / "made_from.json"
        content = json.loads(path.read_text())
        content["recipe"]["name"] = other
        path.write_text(json.dumps(content))

    def result(self, name: str) -> dict[str, bytes]:
        """Everything that must be equal to the byte; the name of the run stands in none of it."""
        run = self.folder(name)
        latest = run / "checkpoints" / (run / "checkpoints" / "latest").read_text().strip()
        more = ("average.safetensors", "probe.safetensors")
        files = [*COMPARED, *(name for name in more if (latest / name).exists())]
        found = {file: (latest / file).read_bytes() for file in files}
        return found | {"log": (run / "log.jsonl").read_bytes(), "best": (run / "checkpoints" / "best").read_bytes()}
