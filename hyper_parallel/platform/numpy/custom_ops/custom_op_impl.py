# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels and autograd functions on NumPy: the references, or the compiled kernels if they are asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hyper_parallel import library
from hyper_parallel.native.kernel_choice import REFERENCE, array_kernel


@functools.cache
def load_kernel(op_name: str) -> Callable[..., tuple[Any, ...]]:
    """The function that computes an operator on arrays: arguments in API order, a tuple of outputs.

    Raises:
        LookupError: If the library has no operator of that name.
        KernelBuildError: If its kernels have to be compiled and cannot be.
    """
    return array_kernel(op_name, default=REFERENCE)


def __getattr__(name: str) -> type:
    return library.dfunction(name)
