"""The work of translating: a run of the PAPER size with random weights whose translations have about 25 tokens.

The text is made up: eight languages and the pivot, each in a script of its own so that the eight have 64,000 subwords.
The weights are those of an untrained model, but for its end of sentence, see `let_end`.
"""

# V symbols, D model, P positions

import json
import math
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from workload import HRLS, LRLS, PIVOT, SIZES

SENTENCES = 256
"""That are translated at a time: four batches of 64."""
LENGTH = 25
SCRIPTS = dict(zip((*HRLS, *LRLS, PIVOT), "aαаաაאกሀ가", strict=True))
"""The first letter of each language; the next ones follow it."""
LETTERS, WORDS = 20, 20_000
EOS = 2


def run_folder(folder: Path) -> Path:
    """The run, made if it is not there; `input.txt` beside it is what is to be translated."""
    run = folder / "work" / "runs" / "speed"
    if (folder / "complete").exists():
        return run
    print("making a model of the paper's size and its text: a few minutes", file=sys.stderr, flush=True)
    write_text(folder / "text")
    make_run(folder, run)
    (folder / "input.txt").write_text(lines(SCRIPTS[HRLS[0]], SENTENCES, seed=99), encoding="utf-8")
    (folder / "lengths.json").write_text(json.dumps([len(source) for source in sources(folder)]))
    (folder / "complete").touch()
    return run


def write_text(folder: Path) -> None:
    """Made-up text in every language, tab-separated, the pivot first."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, lang in enumerate((*HRLS, *LRLS)):
        for split, count in (("train", 8_000), ("dev", 32)):
            pivot = lines(SCRIPTS[PIVOT], count, seed=2 * seed).splitlines()
            other = lines(SCRIPTS[lang], count, seed=2 * seed + 1).splitlines()
            rows = "".join(f"{a}\t{b}\n" for a, b in zip(pivot, other, strict=True))
            (folder / f"{lang}.{split}.tsv").write_text(rows, encoding="utf-8")


def lines(first: str, count: int, *, seed: int) -> str:
    """Sentences of Zipfian made-up words, about 25 subwords each once they are learnt."""
    dictionary, chance = random.Random(1), random.Random(seed)
    letters = [chr(ord(first) + i) for i in range(LETTERS)]
    words = ["".join(dictionary.choices(letters, k=dictionary.randint(2, 6))) for _ in range(WORDS)]
    weights = np.cumsum(1 / np.arange(1, WORDS + 1)).tolist()
    lengths = [min(90, max(1, round(chance.lognormvariate(math.log(25) - 0.18, 0.6)))) for _ in range(count)]
    return "".join(" ".join(chance.choices(words, cum_weights=weights, k=length)) + "\n" for length in lengths)


def make_run(folder: Path, run: Path) -> None:
    """One step of training makes the run directory; its weights then learn to end their sentences."""
    from cclm.curriculum import LanguageGraph
    from cclm.data.prepare import Plan, prepare
    from cclm.recipe.schema import Recipe
    from cclm.recipe.section import check
    from cclm.training import checkpoint as checkpoints
    from cclm.training.session import train

    recipe = check(Recipe, settings(folder), "speed")
    prepared = prepare(Plan(recipe.data, recipe.vocabulary), recipe.prepared, workers=1)
    graph = LanguageGraph(HRLS, LRLS, {lrl: dict.fromkeys(HRLS, 0.5) for lrl in LRLS})
    train(recipe, prepared, graph, dict.fromkeys(recipe.data.languages, 10.0), run)
    made = checkpoints.load_newest(run / "checkpoints", print)
    assert made
    let_end(made.model, LENGTH)
    checkpoints.save(run / "checkpoints", made)


def settings(folder: Path) -> dict[str, Any]:
    """The recipe: the paper's model, and as little training as there can be."""
    size = SIZES["PAPER"]
    return {
        "version": 1,
        "name": "speed",
        "work": str(folder / "work"),
        "data": {
            "format": "tsv", "path": str(folder / "text"), "pivot": PIVOT, "high_resource": HRLS, "low_resource": LRLS,
        },
        "vocabulary": {"pieces": 8000},
        "model": {
            "layers": size.layers, "heads": size.heads, "width": size.width, "feed_forward": size.feed_forward,
        },
        "training": {
            "batch_tokens": 512, "accumulate": 1, "learning_rate": 1e-12, "max_steps": 1, "validate_every": 1,
            "precision": "fp32", "device": "cpu",
        },
        "translation": {"beam": 5, "length_penalty": 1.0},
    }  # fmt: skip


def let_end(state: dict[str, Tensor], length: int, slope: float = 3.0) -> None:
    """Changes a decoder so that the score of </s> rises with the place and overtakes all others near `length`.

    An untrained model never ends. Two of its dimensions are cleared of everything but the positions' sines: one sine
    that falls through zero shortly before `length`, and the slowest, which is near zero and cancels the mean that
    the norm subtracts. </s> looks at nothing else, so that its score is minus the one plus the other.
    """
    table_VD = state["target_embedding.weight"]
    half = table_VD.shape[1] // 2
    zeros = math.pi * np.exp(math.log(10000) * np.arange(half) / (half - 1))  # where the sine of a dimension is zero
    falling, still = int(np.argmin(np.abs(zeros - (length - 2.5)))), half - 1
    for name, tensor in state.items():
        if name.startswith("decoder.layers.") and (".output." in name or ".outer." in name):
            tensor[[falling, still]] = 0
    table_VD[:, [falling, still]] = 0
    table_VD[EOS] = 0
    state["decoder.norm.weight"][[falling, still]] = 1
    state["decoder.norm.bias"][[falling, still]] = 0
    # Near its zero the sine falls by pi / zeros a place; what reaches the norm has a standard deviation of about 2.
    strength = slope * 2 * float(zeros[falling]) / math.pi
    table_VD[EOS, falling], table_VD[EOS, still] = -strength, strength


def exported_folder(run: Path, quantization: str) -> Path:
    """The CTranslate2 model of the run, as the command exports it."""
    from cclm.translation.model import exported

    return exported(run, quantization) / "model"


def sources(folder: Path) -> list[list[str]]:
    """The sentences to translate, as symbols of the model."""
    from cclm.data.prepared import Prepared

    prepared = Prepared.open(folder / "work" / "prepared", verify=False)
    segmenter, table = prepared.segmenter(HRLS[0]), prepared.other.table(prepared.segmenter(HRLS[0]))
    numbers = segmenter.encode((folder / "input.txt").read_text(encoding="utf-8").splitlines())
    return [[prepared.other.symbols[i] for i in table[row]] for row in numbers]


def output_tokens(folder: Path, quantization: str) -> int:
    """How many tokens the translations of the input have: those of bare CTranslate2, counted once."""
    path = folder / f"tokens-{quantization}.json"
    if not path.exists():
        from decode_bare import translate

        counts = [len(tokens) for tokens in translate(folder, quantization)()]
        path.write_text(json.dumps({"tokens": sum(counts), "shortest": min(counts), "longest": max(counts)}))
    tokens: int = json.loads(path.read_text())["tokens"]
    return tokens


def keep_translating(translate: Any, tokens: int, told: str) -> None:
    """Until it is killed: translates all, and tells."""
    from events import Events

    torch.set_num_threads(2)
    events = Events(Path(told))
    while True:
        translate()
        events.tokens += tokens
        events.tell()
