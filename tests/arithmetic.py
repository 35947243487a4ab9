"""How this machine rounds: processors of another kind, and other versions of torch, compute other last bits."""

import hashlib
import os
import subprocess
import sys

PROGRAM = """
import hashlib

import torch
from torch.nn import functional

torch.manual_seed(1)
layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
symbols = torch.nn.Embedding(96, 8)
optimizer = torch.optim.Adam([*layer.parameters(), *symbols.parameters()], lr=0.02)
for step in range(20):
    ids_BT = torch.randint(96, (3 + step, 40 - 2 * step))
    logits_BTV = layer(symbols(ids_BT)) @ symbols.weight.T
    loss = functional.cross_entropy(logits_BTV.flatten(0, 1), ids_BT.flatten(), label_smoothing=0.1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(torch.__version__)
for parameter in [*layer.parameters(), *symbols.parameters()]:
    print(hashlib.sha256(parameter.detach().numpy().tobytes()).hexdigest())
"""


def arithmetic() -> str:
    """A checksum of a small training with torch alone: equal where trainings come to the same bytes."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PROGRAM]
    told = subprocess.run(command, env=environment, capture_output=True, check=True).stdout
    return hashlib.sha256(told).hexdigest()
