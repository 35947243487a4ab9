"""The curriculum in a plain PyTorch loop: three languages, a toy model, nothing of cclm but the curriculum.

    python examples/plain_loop.py

Each "language" is a linear map that the model has to learn; `lrl` is close to `hrl1`, and has few examples.
"""

import torch
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset

from cclm import BatchSampler, CompetenceGate, Curriculum, InverseCompetence, LanguageGraph, bits_per_token

torch.manual_seed(1)
SIZES = {"hrl1": 4000, "hrl2": 4000, "lrl": 60}
MAPS = {"hrl1": torch.randn(16, 8), "hrl2": torch.randn(16, 8)}
MAPS["lrl"] = MAPS["hrl1"] + 0.1 * torch.randn(16, 8)


def examples(lang: str, count: int) -> TensorDataset:
    """Inputs, which say in what language they are, and the class that the language's own map gives them."""
    x = torch.randn(count, 16)
    which = torch.tensor([lang == "hrl2"]).float().expand(count, 1)
    return TensorDataset(torch.cat([x, which, x * which], dim=1), (x @ MAPS[lang]).argmax(dim=1))


model = torch.nn.Sequential(torch.nn.Linear(33, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
dev = {lang: DataLoader(examples(lang, 256), batch_size=100) for lang in SIZES}
graph = LanguageGraph(["hrl1", "hrl2"], ["lrl"], {"lrl": {"hrl1": 0.6, "hrl2": 0.1}})
curriculum = Curriculum(
    CompetenceGate(graph, aggregate="avg", threshold=0.8),
    InverseCompetence(),
    sizes=SIZES,
    benchmark={"hrl1": 0.7, "hrl2": 0.7, "lrl": 1.2},  # L*: dev loss of one model per language, bits per token
)
batches = BatchSampler(curriculum, seed=1, draws=600, batch_size=32)  # one language per batch
train = ConcatDataset([examples(lang, size) for lang, size in SIZES.items()])  # in the order of sizes

for step, (x, y) in enumerate(DataLoader(train, batch_sampler=batches), start=1):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    if step % 50 == 0:
        with torch.no_grad():
            losses = {lang: bits_per_token((model(x), y) for x, y in loader) for lang, loader in dev.items()}
        new = curriculum.observe(step=step, dev_loss=losses)
        saved = {"curriculum": curriculum.state_dict(), "batches": batches.state_dict(consumed=step)}  # plain JSON
        shares = "  ".join(f"{lang} {weight:.2f}" for lang, weight in curriculum.weights.items())
        print(f"step {step:3}  weights: {shares}" + "".join(f"  <- {lang} admitted" for lang in new))
