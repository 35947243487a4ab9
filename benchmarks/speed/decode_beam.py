"""The textbook's beam search of the tests, in torch without a cache, on the first few sentences."""

import sys
from pathlib import Path

import torch
from decoding import keep_translating, run_folder, sources
from safetensors.torch import load_file
from torch import nn
from workload import SIZES

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "translation"))

from reference_model import Reference, Stack, beam_search

FEW = 2

if __name__ == "__main__":
    from cclm.data.prepared import Prepared

    folder, told = Path(sys.argv[1]), sys.argv[3]
    state = load_file(next(run_folder(folder).glob("checkpoints/step-*/model.safetensors")))
    prepared, size = Prepared.open(folder / "work" / "prepared", verify=False), SIZES["PAPER"]
    model = Reference(width=size.width, heads=size.heads)
    model.source_symbols, model.target_symbols = list(prepared.other.symbols), list(prepared.pivot.symbols)
    model.source_embedding = nn.Embedding(len(model.source_symbols), size.width)
    model.target_embedding = nn.Embedding(len(model.target_symbols), size.width)
    model.encoder = Stack(size.layers, size.width, size.heads, size.feed_forward, cross=False)
    model.decoder = Stack(size.layers, size.width, size.heads, size.feed_forward, cross=True)
    model.load_state_dict(state)
    few = sources(folder)[:FEW]

    def once() -> list[list[str]]:
        return [beam_search(model, source, "<s>", beam=5, length_penalty=1.0, max_length=60) for source in few]

    torch.set_num_threads(2)
    keep_translating(once, sum(map(len, once())), told)
