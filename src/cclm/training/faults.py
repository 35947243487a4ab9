"""Places where the tests may stop a training: in the middle of a save, a probe, a validation."""

import os
import signal


def fault(place: str) -> None:
    """Sends the process a signal here, if the environment asks for it: CCLM_FAULT_AT=place,passing,signal.

    `save:after_model,2,SIGKILL` kills it where it comes by for the second time.
    """
    wanted, _, rest = os.environ.get("CCLM_FAULT_AT", "").partition(",")
    if wanted != place:
        return
    passing, _, name = rest.partition(",")
    if int(passing) > 1:
        os.environ["CCLM_FAULT_AT"] = f"{place},{int(passing) - 1},{name}"
        return
    del os.environ["CCLM_FAULT_AT"]
    os.kill(os.getpid(), signal.Signals[name])
