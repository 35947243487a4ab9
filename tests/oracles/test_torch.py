"""Our arithmetic against PyTorch's, and our samplers inside its DataLoader."""

import json
from itertools import islice

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset
from worked_example import LOSS, SIZES, curriculum

from cclm import AllAtOnce, RewardActor
from cclm.curriculum import BatchSampler, IndexSampler


@pytest.mark.slow
def test_the_inner_steps_of_the_actor_are_those_of_torchs_adam() -> None:
    # Both start from the same logits and moments (those that the fit to the sizes leaves) and take three calls.
    actor = curriculum(gate=AllAtOnce(), sampler=RewardActor(reward="multiuat", every=1))
    memory = actor.state_dict()["memory"]["sampler"]
    languages = sorted(SIZES)

    logits = torch.nn.Parameter(torch.tensor(memory["logits"], dtype=torch.float64))
    adam = torch.optim.Adam([logits], lr=1e-4)
    adam.state[logits] = {
        "step": torch.tensor(float(memory["adam_steps"])),
        "exp_avg": torch.tensor(memory["first_moment"], dtype=torch.float64),
        "exp_avg_sq": torch.tensor(memory["second_moment"], dtype=torch.float64),
    }
    for call in range(1, 4):
        rewards = {lang: 0.1 * i + 0.05 * call for i, lang in enumerate(languages)}
        actor.observe(step=call, dev_loss=LOSS, uncertainty=rewards)
        reward = torch.tensor([rewards[lang] for lang in languages], dtype=torch.float64)
        for _ in range(200):
            adam.zero_grad()
            (-(reward * torch.log_softmax(logits, dim=0)).sum()).backward()
            adam.step()
        shares = torch.softmax(logits.detach(), dim=0).numpy()
        np.testing.assert_allclose([actor.weights[lang] for lang in languages], shares, rtol=1e-12)


@pytest.mark.slow
def test_the_fit_to_the_sizes_is_torchs_adam_too() -> None:
    actor = curriculum(gate=AllAtOnce(), sampler=RewardActor())
    memory = actor.state_dict()["memory"]["sampler"]
    sizes = torch.tensor([SIZES[lang] for lang in sorted(SIZES)], dtype=torch.float64)
    logits = torch.nn.Parameter(torch.zeros(8, dtype=torch.float64))
    adam = torch.optim.Adam([logits], lr=1e-3)
    steps = 0
    while (loss := torch.nn.functional.mse_loss(torch.softmax(logits, dim=0), sizes / sizes.sum())) >= 1e-6:
        adam.zero_grad()
        loss.backward()
        adam.step()
        steps += 1
    assert memory["adam_steps"] == steps == 7865
    np.testing.assert_allclose(memory["logits"], logits.detach().numpy(), rtol=1e-9)


def joined() -> ConcatDataset[tuple[torch.Tensor, ...]]:
    """A training set a language, in the order of the sizes; the examples of language number i are i."""
    return ConcatDataset([TensorDataset(torch.full((size,), i)) for i, size in enumerate(SIZES.values())])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataloader_takes_the_index_sampler(workers: int) -> None:
    sampler = IndexSampler(curriculum(), seed=1, draws=64)
    loader = DataLoader(joined(), sampler=sampler, batch_size=16, num_workers=workers)
    seen = torch.cat([batch for (batch,) in loader])
    assert len(loader) == 4
    assert set(seen.tolist()) == {4, 5, 6, 7}  # the four HRLs


def test_a_dataloader_takes_the_batch_sampler_and_goes_on_from_its_state() -> None:
    def loader(sampler: BatchSampler) -> DataLoader[tuple[torch.Tensor, ...]]:
        return DataLoader(joined(), batch_sampler=sampler)

    whole = [batch.tolist() for (batch,) in loader(BatchSampler(curriculum(), seed=1, draws=20, batch_size=8))]
    first = BatchSampler(curriculum(), seed=1, draws=20, batch_size=8)
    parts = [batch.tolist() for (batch,) in islice(loader(first), 12)]
    second = BatchSampler(curriculum(), seed=1, draws=20, batch_size=8)
    second.load_state_dict(json.loads(json.dumps(first.state_dict(consumed=12))))
    parts += [batch.tolist() for (batch,) in loader(second)]
    assert parts == whole
    assert all(len(set(batch)) == 1 for batch in whole)
