"""How hard the phrasebook is: BLEU into English of a small bitext model, after three minutes on one core.

    python benchmarks/phrasebook_difficulty.py                  # the four HRLs, about a quarter of an hour
    python benchmarks/phrasebook_difficulty.py por --seconds 60

A Transformer of 0.9 million parameters (width 112, 2 + 2 layers), unigram subwords, 64 sentences a batch, greedy
search. The seconds are processor time, so that other work on the machine does not count. The corpus is tuned by these
figures alone: neither trivial nor hopeless, between 50 and 85.
"""

import argparse
import io
import random
import time

import sacrebleu
import sentencepiece
import torch
from torch import Tensor

from cclm.data.vocabulary import BOS, EOS, PAD
from cclm.model import Packing, Schedule, Shape, Transformer, losses
from cclm.phrasebook import Phrasebook, generate

Example = tuple[list[int], list[int]]
OFFSET = 4  # ids below are reserved


class Subwords:
    """SentencePiece with the project's reserved ids."""

    def __init__(self, lines: list[str]) -> None:
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=model, vocab_size=1200, hard_vocab_limit=False,
            character_coverage=1.0, bos_id=-1, eos_id=-1, num_threads=4, minloglevel=2,
        )  # fmt: skip
        self._model = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        self.symbols = self._model.get_piece_size() + OFFSET

    def encode(self, text: str) -> list[int]:
        return [number + OFFSET for number in self._model.encode(text)]

    def decode(self, ids: list[int]) -> str:
        text: str = self._model.decode([number - OFFSET for number in ids if number >= OFFSET])
        return text


def padded(rows: list[list[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def batches(examples: list[Example], chance: random.Random) -> list[list[Example]]:
    chance.shuffle(examples)
    pools = [sorted(examples[i : i + 1280], key=lambda pair: len(pair[0])) for i in range(0, len(examples), 1280)]
    made = [pool[i : i + 64] for pool in pools for i in range(0, len(pool), 64)]
    chance.shuffle(made)
    return made


def train(model: Transformer, examples: list[Example], seconds: float) -> int:
    """Trains for so long and gives the steps taken."""
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    schedule = Schedule("inverse-sqrt", peak=2e-3, warmup=200)
    chance, start, step = random.Random(1), time.process_time(), 0
    torch.manual_seed(1)
    model.train()
    while True:
        for batch in batches(examples, chance):
            step += 1
            source = padded([[*source, EOS] for source, _ in batch])
            target_input = padded([[BOS, *target] for _, target in batch])
            target_output = padded([[*target, EOS] for _, target in batch])
            found = losses(model(source, target_input), target_output, 0.1)
            optimizer.zero_grad()
            (found.smoothed / found.tokens).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for group in optimizer.param_groups:
                group["lr"] = schedule.rate(step)
            optimizer.step()
            if time.process_time() - start >= seconds:
                return step


@torch.no_grad()
def translate(model: Transformer, sources: list[list[int]]) -> list[list[int]]:
    """Greedy search, 100 sentences at a time."""
    model.eval()
    results: list[list[int]] = []
    for i in range(0, len(sources), 100):
        packing = Packing(padded([[*source, EOS] for source in sources[i : i + 100]]))
        memory = model.encode(packing)
        target = torch.full((len(packing.padding_BT), 1), BOS)
        for _ in range(40):
            states = model.decode(Packing(target), memory, packing).view(*target.shape, -1)
            scores = model.logits(states[:, -1])
            scores[:, PAD] = -torch.inf  # a target has none
            target = torch.cat([target, scores.argmax(dim=-1)[:, None]], dim=1)
            if bool((target == EOS).any(dim=1).all()):
                break
        rows = target[:, 1:].tolist()
        results += [row[: row.index(EOS)] if EOS in row else row for row in rows]
    return results


def measure(language: str, seconds: float) -> str:
    splits = generate(Phrasebook.load(), seed=1).splits[language]
    english, other = ([pair[side] for pair in splits["train"].pairs] for side in (0, 1))
    into, out_of = Subwords(english), Subwords(other)
    shape = Shape(
        source_symbols=out_of.symbols, target_symbols=into.symbols, layers=2, heads=4, width=112, feed_forward=384,
        dropout=0.1, attention_dropout=0.1, activation_dropout=0.1,
    )  # fmt: skip
    model = Transformer(shape, seed=1)
    examples = [(out_of.encode(o), into.encode(e)) for e, o in zip(english, other, strict=True)]
    steps = train(model, examples, seconds)
    test = splits["test"]
    found = [into.decode(row) for row in translate(model, [out_of.encode(o) for _, o in test.pairs])]

    def bleu(kept: list[bool]) -> float:
        chosen = [(f, e) for f, (e, _), keep in zip(found, test.pairs, kept, strict=True) if keep]
        return sacrebleu.corpus_bleu([f for f, _ in chosen], [[e for _, e in chosen]]).score

    parameters = sum(parameter.numel() for parameter in model.parameters())
    scores = [bleu([True] * len(found)), bleu(list(test.held_out)), bleu([not held for held in test.held_out])]
    return f"| {language} | {scores[0]:.1f} | {scores[1]:.1f} | {scores[2]:.1f} | {parameters:,} | {steps:,} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("languages", nargs="*", default=["tur", "rus", "por", "ces"])
    parser.add_argument("--seconds", type=float, default=180.0, help="processor time of each training")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("| into English | all | held out | rest | parameters | steps |\n|---|---:|---:|---:|---:|---:|", flush=True)
    for language in arguments.languages:
        print(measure(language, arguments.seconds), flush=True)


if __name__ == "__main__":
    main()
