"""`cclm` with any arguments, telling when each update is done."""

import sys
from pathlib import Path

from events import Events

from cclm.cli import main

if __name__ == "__main__":
    from cclm.training.adam import Adam

    told, *arguments = sys.argv[1:]
    Events(Path(told)).tell_after(Adam, "step")
    sys.argv = ["cclm", *arguments]
    main()
