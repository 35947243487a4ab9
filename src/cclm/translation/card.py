"""The model card of an export: what it translates, how well, how it was trained, and its limits."""

from dataclasses import dataclass
from pathlib import Path

import jinja2

from cclm import __version__
from cclm.formats.export import Export
from cclm.formats.scores import Scores
from cclm.translation.export import TrainedFor
from cclm.translation.translator import POSITIONS, SHORT

TEMPLATE = Path(__file__).parent / "exports" / "README.md.jinja"


@dataclass(frozen=True)
class Facts:
    """What a card is written from."""

    run: Path
    model: TrainedFor
    manifest: Export
    parameters: int

    def scores(self) -> Scores:
        """The scores of the run if they are those of the exported checkpoint; otherwise none."""
        scores = Scores.find(self.run / "scores.json")
        exported = f"{self.manifest.checkpoint} {self.manifest.weights[:16]}"
        return scores if scores and scores.signature.checkpoint == exported else Scores()


def model_card(facts: Facts) -> str:
    """The text of README.md, in Markdown."""
    model, manifest, scores = facts.model, facts.manifest, facts.scores()
    template = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    return template.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        to=manifest.to,
        cclm=__version__,
        recipe=model.recipe,
        manifest=manifest,
        checked=manifest.checked,
        tasks=model.tasks,
        first=manifest.pairs[0],
        codes=sorted({code for pair in manifest.pairs for code in (pair.source, pair.target)}),
        rows=scores.languages,
        signature=scores.signature if scores.languages else None,
        sizes=model.prepared.sizes,
        fingerprint=model.prepared.fingerprint[:16],
        joint=model.prepared.joint,
        symbols=(len(model.source), len(model.target)),
        parameters=facts.parameters,
        megabytes=sum(file.bytes for file in manifest.files.values()) / 1e6,
        positions=POSITIONS,
        longest=2 * SHORT,
    )
