"""One bitext training, as a process of its own: `python -m cclm.experiments.bitext RECIPE.json TASK`."""

import os
import sys
import threading
from pathlib import Path


def main() -> None:
    """Trains the model of one task and leaves its run directory."""
    threading.Thread(target=_live_with_the_parent, daemon=True).start()

    import torch  # takes seconds, during which the parent may already be gone

    from cclm.data.prepared import Prepared
    from cclm.recipe import Recipe
    from cclm.training.errors import Interrupted
    from cclm.training.session import train

    torch.set_num_threads(1)
    settings, task = Path(sys.argv[1]), sys.argv[2]
    recipe = Recipe.model_validate_json(settings.read_text(encoding="utf-8"))
    try:
        train(recipe, Prepared.open(recipe.prepared), None, None, settings.parent / task, only=[task])
    except Interrupted as signal:
        sys.exit(128 + signal.number)


def _live_with_the_parent() -> None:
    """Ends with whoever started this, even if that was killed: nobody writes to our input, so it ends only then.

    At once, without saving: a new benchmark may already wait for the run directory.
    """
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    main()
