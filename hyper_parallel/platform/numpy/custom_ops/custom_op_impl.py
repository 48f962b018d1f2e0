# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels and autograd functions on NumPy: the kernel of an operator is its reference."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hyper_parallel import library


@functools.cache
def load_kernel(op_name: str) -> Callable[..., tuple[Any, ...]]:
    """The function that computes an operator on arrays: arguments in API order, a tuple of outputs.

    Raises:
        LookupError: If the library has no operator of that name.
    """
    return library.reference(op_name)


def __getattr__(name: str) -> type:
    return library.dfunction(name)
