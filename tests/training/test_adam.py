"""Our Adam against torch's own, to the bit; and what it is there for: no compiler is loaded."""

import subprocess
import sys

import torch
from torch import nn

from cclm.training.adam import Adam


def models() -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(1)
    ours, theirs = nn.Linear(5, 3), nn.Linear(5, 3)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def backward(model: nn.Module, step: int) -> None:
    x = torch.randn(7, 5, generator=torch.Generator().manual_seed(step))
    model(x).square().sum().backward()


def test_steps_and_state_equal_torchs_to_the_bit() -> None:
    ours, theirs = models()
    mine, reference = Adam(ours), torch.optim.Adam(theirs.parameters(), betas=(0.9, 0.98), eps=1e-8, fused=True)
    for step in range(1, 6):
        backward(ours, step)
        backward(theirs, step)
        mine.step(0.01 * step)
        reference.param_groups[0]["lr"] = 0.01 * step
        reference.step()
        mine.zero_grad()
        reference.zero_grad()
    assert all(p.grad is None for p in ours.parameters())
    for name, parameter in theirs.named_parameters():
        assert torch.equal(dict(ours.named_parameters())[name], parameter)
        for what, expected in reference.state[parameter].items():
            assert torch.equal(mine.state()[f"{name}:{what}"], expected)


def test_a_state_that_was_saved_goes_on_as_if_it_had_not_been() -> None:
    ours, other = models()
    mine, its = Adam(ours), Adam(other)
    backward(ours, 1)
    mine.step(0.1)
    saved = mine.state()
    other.load_state_dict(ours.state_dict())
    its.load_state(saved)
    for model, optimizer in ((ours, mine), (other, its)):
        optimizer.zero_grad()
        backward(model, 2)
        optimizer.step(0.1)
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), other.parameters(), strict=True))
    assert float(saved["weight:step"]) == 1  # a copy: the second step has not touched it


def test_a_parameter_without_a_gradient_stays_as_it_is() -> None:
    ours, theirs = models()
    mine = Adam(ours)
    backward(ours, 1)
    ours.bias.grad = None
    mine.step(0.1)
    assert torch.equal(ours.bias, theirs.bias)
    assert not torch.equal(ours.weight, theirs.weight)


def test_a_model_and_its_first_step_load_no_compiler() -> None:
    code = (
        "import sys, torch\n"
        "from cclm.model.transformer import Shape, Transformer\n"
        "from cclm.training.adam import Adam\n"
        "model = Transformer(Shape(9, 9, 1, 1, 4, 4, 0.1, 0.1, 0.1), seed=1)\n"
        "ids = torch.ones((2, 3), dtype=torch.long)\n"
        "model(ids, ids).sum().backward()\n"
        "Adam(model).step(0.1)\n"
        "sys.exit('torch._dynamo' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
