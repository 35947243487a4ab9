"""Exports runs, and checks the exports in another environment, where cclm is not installed.

    python -m venv apart && apart/bin/pip install -c constraints.txt torch transformers ctranslate2 sentencepiece
    python benchmarks/exports.py --python apart/bin/python RUN RUN... [--text corpora/{lang}.test.tsv]

Per run: logits of the export for Hugging Face against the trained model; tokenizers against SentencePiece on 1,000
sentences per language of the run's own text, and of `--text` (two columns, the pivot's first), as they are and
decomposed (NFD), and on strings of odd characters; `generate` against CTranslate2 on 100 sentences, greedy and with the
run's beam; `translate.py` of all exports, int8 too, against `cclm translate`. With `--restrict`, one-to-many and
many-to-many runs are exported with translation.restrict, and a mixed batch of target languages is looked through for
foreign subwords.
"""

import argparse
import json
import random
import subprocess
import tempfile
import unicodedata
from collections import Counter
from itertools import islice, zip_longest
from pathlib import Path

import ctranslate2
import numpy as np
import torch

from cclm.data.texts import Texts
from cclm.data.vocabulary import EOS
from cclm.evaluation.evaluate import texts
from cclm.formats.export import Pair
from cclm.formats.run import CONFIG, read_settings, settings_text
from cclm.formats.run_folder import best_of
from cclm.training.checkpoint import load_tensors
from cclm.training.run_inputs import recipe_of
from cclm.translation.export import TrainedFor, dev_samples, trained, trained_for
from cclm.translation.model import load
from cclm.translation.package import export_run
from cclm.translation.translator import VOCABULARY_MAP

CHECK = Path(__file__).parent / "apart" / "check_export.py"
SENTENCES = 1000
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
"""The whole environment of the processes without cclm; small models gain nothing from threads."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--python", required=True, help="the interpreter of an environment without cclm")
    parser.add_argument("--text", help="more text: a path with {lang}")
    parser.add_argument("--restrict", action="store_true", help="with translation.restrict")
    arguments = parser.parse_args()
    for run in arguments.runs:
        restrict = arguments.restrict and recipe_of(run).data.direction != "many-to-one"
        print(f"\n{run}: {recipe_of(run).data.direction}{', restricted' if restrict else ''}", flush=True)
        if restrict:
            run = restricted(run)
        with tempfile.TemporaryDirectory() as folder:
            check(run, Path(folder), arguments.python, arguments.text)


def check(run: Path, folder: Path, python: str, pattern: str | None) -> None:
    """Exports a run into a folder, and starts the checks of it in the other environment."""
    model = trained_for(run, recipe_of(run))
    fast, hub = export_run(run, "ctranslate2", folder / "fast"), export_run(run, "huggingface", folder / "hub")
    small = export_run(run, "ctranslate2", folder / "small", "int8")
    write_logits(run, model, folder / "expected.npz")
    sentences = {"languages": sentences_by_language(model, pattern), "pairs": sentences_by_pair(model)}
    (folder / "texts.json").write_text(json.dumps(sentences))
    apart = [python, "-P", CHECK, fast, hub, folder / "expected.npz", folder / "texts.json"]
    subprocess.run(list(map(str, apart)), check=True, env=ONE_THREAD)
    if model.recipe.restricts:
        count_foreign(fast, model)
    task = next(iter(model.tasks.values()))
    lines = texts(model.recipe, model.prepared, task, "test")[0][:20]
    for name, export in (("CTranslate2", fast), ("int8", small), ("Hugging Face", hub)):
        ours = load(export if export != hub else fast).translate(lines, task.source, task.target)
        theirs = scripted(python, export, task.source, task.target, lines)
        same = sum(a == b for a, b in zip(ours, theirs, strict=True))
        print(f"translate.py, {name}: {same} of {len(lines)} as cclm translates", flush=True)


def restricted(run: Path) -> Path:
    """A run that is the same but for translation.restrict: its folder links to the files of the other."""
    other = run.with_name(f"{run.name}-restricted")
    other.mkdir(exist_ok=True)
    for path in run.iterdir():
        if path.name not in (CONFIG, "ctranslate2", "export") and not (other / path.name).exists():
            (other / path.name).symlink_to(path.resolve())
    settings = read_settings(run / CONFIG)
    settings["translation"]["restrict"] = True
    (other / CONFIG).write_text(settings_text(settings), encoding="utf-8")
    return other


def count_foreign(export: Path, model: TrainedFor) -> None:
    """A mixed batch through cclm, which divides it by target language, and through CTranslate2 in one call."""
    rows = (export / "model" / VOCABULARY_MAP).read_text(encoding="utf-8").split("\n")[:-1]
    own = {tag: set(symbols.split(" ")) for tag, _, symbols in (row.partition("\t") for row in rows)}
    loaded, translator = load(export, threads=1), ctranslate2.Translator(str(export / "model"))
    mixed: list[tuple[Pair, list[str]]] = []
    for task in model.tasks.values():
        pair = loaded.pair(task.source, task.target)
        sources = texts(model.recipe, model.prepared, task, "test")[0][:20]
        mixed += [(pair, symbols) for chunk in loaded._encoded(sources, pair, True, "text") for symbols in chunk]
    random.Random(1).shuffle(mixed)
    beam, penalty = model.recipe.translation.beam, model.recipe.translation.length_penalty
    divided, at_once = [], []
    for pair in {pair.start: pair for pair, _ in mixed}.values():
        sources = [symbols for other, symbols in mixed if other.start == pair.start]
        found = loaded._translator.translate_ids(sources, pair.start, beam, penalty)
        divided += [symbol for row in found for symbol in row if symbol not in own[pair.start]]
    results = translator.translate_batch(
        [symbols for _, symbols in mixed], [[pair.start] for pair, _ in mixed], beam_size=beam, use_vmap=True,
        max_decoding_length=256,
    )  # fmt: skip
    for (pair, _), result in zip(mixed, results, strict=True):
        at_once += [symbol for symbol in result.hypotheses[0] if symbol not in own[pair.start]]
    print(f"foreign subwords in {len(mixed)} translations of a mixed batch: {len(divided)} divided by target language,"
          f" {len(at_once)} by CTranslate2 in one call", flush=True)  # fmt: skip


def scripted(python: str, export: Path, source: str, target: str, lines: list[str]) -> list[str]:
    """What the script of an export writes, without cclm."""
    command = [python, "-P", str(export / "translate.py"), source, target]
    text = "".join(line + "\n" for line in lines)
    result = subprocess.run(command, input=text.encode(), capture_output=True, check=True, env=ONE_THREAD)
    return result.stdout.decode().split("\n")[:-1]


@torch.no_grad()
def write_logits(run: Path, model: TrainedFor, path: Path) -> None:
    """Logits of the trained model on dev sentences of all tasks."""
    network = trained(model, load_tensors(best_of(run) / "model.safetensors"))
    content: dict[str, np.ndarray] = {}
    source_ids = {symbol: i for i, symbol in enumerate(model.source.symbols)}
    target_ids = {symbol: i for i, symbol in enumerate(model.target.symbols)}
    for i, (source, target) in enumerate(dev_samples(model)):
        from_ids, to_ids = [*(source_ids[s] for s in source), EOS], [target_ids[s] for s in target]
        content[f"source_{i}"], content[f"target_{i}"] = np.array(from_ids), np.array(to_ids)
        content[f"logits_{i}"] = network(torch.tensor([from_ids]), torch.tensor([to_ids])).numpy()
    np.savez(path, **content)


def sentences_by_language(model: TrainedFor, pattern: str | None) -> dict[str, dict[str, list[str]]]:
    """Up to 1,000 sentences of each kind by source language."""
    found: dict[str, dict[str, list[str]]] = {}
    for task in model.tasks.values():
        side = 1 if task.direction.to_pivot else 0
        own = [text for split in ("dev", "test") for text in texts(model.recipe, model.prepared, task, split)[0]]
        training = Texts(model.recipe.data).read(task.language, "train", Counter())
        own += [sentence[1 + side] for sentence in islice(training, max(0, SENTENCES - len(own)))]
        kinds = {"own text": own[:SENTENCES], "odd characters": odd(SENTENCES)}
        if pattern:
            lines = Path(pattern.format(lang=task.language)).read_text(encoding="utf-8").split("\n")[:-1]
            kinds["real text"] = [line.split("\t")[side] for line in lines][:SENTENCES]
            kinds["real text, NFD"] = [unicodedata.normalize("NFD", text) for text in kinds["real text"]]
        found.setdefault(task.source, kinds)
    return found


def odd(count: int) -> list[str]:
    """Strings of letters, white space, control and compatibility characters, emoji, and reserved symbols."""
    chance = random.Random(1)
    pools = [
        "abc def Əəğ üzr мова čeština",
        " \t\u00a0\u3000\u2009\u200b\u2028\ufeff\x00\x07\x85▁",
        "ﬁﬂ½①Ａａ™…℃㎏Ⅳ",
        "😀👍🏽👨‍👩‍👧🇦🇿❤️",
        "“”„«»‘’–—%$€",
    ]
    reserved = ["<s>", "</s>", "<pad>", "<unk>", "<2aze>", "<2eng>"]
    return [
        "".join(chance.choice([*chance.choice(pools), *reserved]) for _ in range(chance.randint(0, 30)))
        for _ in range(count)
    ]


def sentences_by_pair(model: TrainedFor) -> dict[str, list[str]]:
    """100 test sentences of all pairs in turn."""
    sources = {
        f"{task.source}-{task.target}": texts(model.recipe, model.prepared, task, "test")[0]
        for task in model.tasks.values()
    }
    turns = zip_longest(*sources.values())
    in_turn = islice((pair for turn in turns for pair in zip(sources, turn, strict=True) if pair[1]), 100)
    chosen: dict[str, list[str]] = {}
    for name, text in in_turn:
        chosen.setdefault(name, []).append(text)
    return chosen


if __name__ == "__main__":
    main()
