"""`python poisoned_training.py NUMBER train ...` is cclm with one micro-batch whose loss and gradient are NaN."""

import math
import os
import sys
from typing import Any

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


if __name__ == "__main__":
    from cclm.cli import main

    poison(int(sys.argv.pop(1)))
    main()
