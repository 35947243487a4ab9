"""`python poisoned_training.py NUMBER train ...` is cclm with one micro-batch whose loss and gradient are NaN.

`python poisoned_training.py flip train ...` is cclm with a weight that changes by itself in the fourth micro-batch.
"""

import math
import os
import sys
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from cclm.model.transformer import Encoder


def poison(number: int) -> RemovableHandle:
    """From now on what the encoder makes of micro-batch `number`, counted over all ranks, is NaN."""
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    passes = 0

    def hook(module: nn.Module, _: Any, output: Any) -> Any:
        nonlocal passes
        if isinstance(module, Encoder) and module.training:
            passes += 1
            return output * math.nan if rank + (passes - 1) * world == number else None
        return None

    return nn.modules.module.register_module_forward_hook(hook)


def flip() -> None:
    """In the fourth micro-batch of this process, one weight of the encoder changes in its last bit."""
    passes = 0

    def hook(module: nn.Module, _: Any, output: Any) -> None:
        nonlocal passes
        if isinstance(module, Encoder) and module.training:
            passes += 1
            if passes == 4:
                next(module.parameters()).data.view(-1)[:1].view(torch.int32).bitwise_xor_(1)

    nn.modules.module.register_module_forward_hook(hook)


if __name__ == "__main__":
    from cclm.cli import main

    what = sys.argv.pop(1)
    flip() if what == "flip" else poison(int(what))
    main()
