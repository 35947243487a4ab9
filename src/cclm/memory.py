"""How the C library treats freed memory, and how many prepared products oneDNN keeps."""

import ctypes
import os
import sys

PREPARED_PRODUCTS = 384
"""Of half-precision matrices on a CPU. The shapes of the layers and the output come again and again, some 200 in all;
that of attention is another in nearly every batch. oneDNN would keep 1,024, half a megabyte each."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h


def keep_freed_memory() -> None:
    """Lets glibc keep the memory that a step frees for the next step, for the whole process.

    By default large blocks go back to the kernel, which clears every page again before the next step can use it.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if mallopt:
        mallopt(M_MMAP_THRESHOLD, 1 << 30)
        mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)


def keep_few_prepared_products() -> None:
    """Limits the memory of oneDNN, for the whole process, unless the user did. To be called before it is first used."""
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(PREPARED_PRODUCTS))
