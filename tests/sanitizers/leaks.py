# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What calls of kernels leave allocated: counted by AddressSanitizer to the byte, in the process that it runs in.

`python -m tests.sanitizers.leaks small|pieces COUNT` calls every kernel COUNT times, and then a tenth as often, at least
100 times, with arguments that it refuses. It prints how many bytes more are allocated for each call: JSON by name.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
from collections.abc import Callable
from itertools import cycle, islice

import numpy as np

from .kernel_calls import Kernel, calls_of_several_pieces, kernels_with_calls, small_calls

CALLS = {"small": small_calls, "pieces": calls_of_several_pieces}
MORE_TO_WARM_UP = 60  # every one of a kernel's arguments twice


def bytes_per_call(call: Callable[[int], None], count: int) -> float:
    """How many more bytes are allocated after `count` calls than before them, once there have been some; divided by it."""
    allocated = ctypes.CDLL(None).__sanitizer_get_current_allocated_bytes
    allocated.restype = ctypes.c_size_t
    counts = (ctypes.c_size_t * 2)()  # whose numbers are not allocated one by one
    for place, calls in enumerate((count // 10 + MORE_TO_WARM_UP, count)):
        call(calls)
        gc.collect()
        counts[place] = allocated()
    return (counts[1] - counts[0]) / count


def repeated(kernel: Kernel) -> Callable[[int], None]:
    """Calls of the kernel with each of the arguments in turn."""

    def run(count: int) -> None:
        for arguments in islice(cycle(kernel.calls), count):
            kernel.function(*arguments)

    return run


def refused(kernel: Kernel) -> Callable[[int], None]:
    """The same with half the width of the first tensor, which is an error."""

    def run(count: int) -> None:
        for first, *others in islice(cycle(kernel.calls), count):
            try:
                kernel.function(np.ascontiguousarray(first[..., : first.shape[-1] // 2]), *others)
            except ValueError:
                continue
            raise AssertionError("the kernel has taken a tensor that is half as wide as the others")

    return run


def main() -> None:
    which, count = sys.argv[1], int(sys.argv[2])
    found = {}
    for name, kernel in kernels_with_calls(CALLS[which]()).items():
        found[name] = bytes_per_call(repeated(kernel), count)
        found[f"{name} refused"] = bytes_per_call(refused(kernel), max(100, count // 10))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
