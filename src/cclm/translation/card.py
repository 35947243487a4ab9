"""The model card of an export: what it translates, how well, how it was trained, and its limits."""

from dataclasses import dataclass
from pathlib import Path

import jinja2

from cclm import __version__
from cclm.data.model_tokenizer import ModelTokenizer
from cclm.formats.export import Export
from cclm.formats.scores import Scores
from cclm.translation.export import TrainedFor
from cclm.translation.huggingface_pretrained import TOKENIZER, code_names, longest_of
from cclm.translation.translator import SHORT

TEMPLATE = Path(__file__).parent / "exports" / "README.md.jinja"


@dataclass(frozen=True)
class Started:
    """The model of Hugging Face's that a run started from."""

    name: str
    """Its name on the hub, or of its folder."""
    kind: str
    """The form of its language codes: a key of FORMS in `model_tokenizer.py`."""
    new: frozenset[str]
    """Language codes that it did not have."""

    @classmethod
    def of(cls, model: TrainedFor) -> "Started | None":
        """None for a model of ours."""
        if not model.layout:
            return None
        name, tokenizer = str(model.recipe.model.pretrained), model.prepared.folder / "models" / TOKENIZER
        local = Path(name).is_dir() or Path(name).is_absolute()
        return cls(Path(name).name if local else name, ModelTokenizer(tokenizer).kind, frozenset(model.layout.new))


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
    started = Started.of(model)
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
        positions=model.positions,
        longest=longest_of(model) if started else 2 * SHORT,
        started=started,
        names=code_names(model) if started else {},
        codes_of={lang: model.target.symbols[row] for lang, row in model.target.tags.items()} if started else {},
    )
