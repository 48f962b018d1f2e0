# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What kernels compute in memory that the allocator has filled: the same whatever with, or they read what nobody wrote.

`python -m tests.sanitizers.fresh_memory` prints a hash of the outputs of every kernel over all plain calls: JSON by name.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from .kernel_calls import Function, kernels_with_calls, small_calls

FILLED = tuple(f"max_malloc_fill_size={2**30}:malloc_fill_byte={byte}" for byte in (0, 255))
"""What goes into ASAN_OPTIONS: zeros, and what is NaN in every type."""
KEPT_BY_NUMPY = 8  # blocks of one size, at least: those that it hands out again instead of freeing them


def in_fresh_memory(function: Function, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The outputs of a call, none of them in memory that NumPy has kept from an array before."""
    sizes = {output.nbytes for output in function(*arguments) if output is not None}
    held = [np.empty(size, np.uint8) for size in sizes for _ in range(2 * KEPT_BY_NUMPY)]
    outputs = function(*arguments)
    del held
    return outputs


def main() -> None:
    found = {}
    for name, kernel in kernels_with_calls(small_calls()).items():
        content = hashlib.sha256()
        for arguments in kernel.calls:
            for output in in_fresh_memory(kernel.function, arguments):
                content.update(b"none" if output is None else output.tobytes())
        found[name] = content.hexdigest()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
