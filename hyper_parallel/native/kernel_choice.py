# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Which kernels a process runs: `HYPER_PARALLEL_KERNELS`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hyper_parallel import library

VARIABLE = "HYPER_PARALLEL_KERNELS"
NATIVE, REFERENCE = "native", "reference"


def uses_reference(default: str) -> bool:
    """Whether kernels are the NumPy references; `default` is what the platform does if nothing is said.

    Raises:
        ValueError: If the variable is another word.
    """
    word = os.environ.get(VARIABLE, "").strip().lower() or default
    if word not in (NATIVE, REFERENCE):
        raise ValueError(f"{VARIABLE} should be {NATIVE} or {REFERENCE}, but got {os.environ[VARIABLE]!r}")
    return word == REFERENCE


def array_kernel(kernel: str, default: str) -> Callable[..., tuple[Any, ...]]:
    """The function that computes a kernel on NumPy arrays.

    Raises:
        LookupError: If no library has such a kernel.
        KernelBuildError: If it has to be compiled and cannot be.
    """
    if uses_reference(default):
        return library.reference(kernel)
    from hyper_parallel.native.flavours import HostFlavour
    from hyper_parallel.native.kernels import native_kernel

    return native_kernel(kernel, HostFlavour())
