"""Named places where tests send a training a signal: in the middle of a save, a probe, a validation."""

import os
import signal


def fault(place: str) -> None:
    """Sends this process a signal here, if the environment asks for it: CCLM_FAULT_AT=place,count,signal.

    `save:after_model,2,SIGKILL` kills it when it reaches that place for the second time.
    """
    wanted, _, rest = os.environ.get("CCLM_FAULT_AT", "").partition(",")
    if wanted != place:
        return
    count, _, name = rest.partition(",")
    if int(count) > 1:
        os.environ["CCLM_FAULT_AT"] = f"{place},{int(count) - 1},{name}"
        return
    del os.environ["CCLM_FAULT_AT"]
    os.kill(os.getpid(), signal.Signals[name])
