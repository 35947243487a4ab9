"""cclm under measurement with a small model, on whatever prepared pairs it is given; with or without probes."""

import sys
from pathlib import Path

from events import Events, counting
from run_ours import EVERY, NEVER, begin, recipe_of
from workload import SIZES

from cclm.data.batches import Batches
from cclm.data.prepared import Prepared
from cclm.training.adam import Adam

if __name__ == "__main__":
    folder, probes, work, told = sys.argv[1:]
    events = Events(Path(told))
    counting(events, Batches, "batch", lambda arguments, batch: batch.target_tokens)
    events.tell_after(Adam, "step")
    prepared, size = Prepared.open(Path(folder)), SIZES["GROWTH"]
    begin(
        recipe_of(
            size,
            "fp32",
            Path(work),
            languages=prepared.languages,
            budget=size.step_tokens,
            every=EVERY if probes == "probes" else NEVER,
        ),
        prepared,
    )
