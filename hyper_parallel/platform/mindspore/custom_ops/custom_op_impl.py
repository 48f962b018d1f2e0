# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels and autograd functions on MindSpore: the reference, on host memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hyper_parallel import library
from hyper_parallel.platform.mindspore.function import check_not_recorded
from hyper_parallel.platform.mindspore.host_arrays import to_array, to_tensor


@functools.cache
def load_kernel(op_name: str) -> Callable[..., tuple[Any, ...]]:
    """The function that computes an operator on tensors: arguments in API order, a tuple of outputs.

    Raises:
        LookupError: If the library has no operator of that name.
    """
    reference = library.reference(op_name)

    def kernel(*args: Any) -> tuple[Any, ...]:
        check_not_recorded(f"the kernel {op_name}", args)
        outputs = reference(*(to_array(value) for value in args))
        # A gradient may be None, where its optional tensor is absent.
        return tuple(None if output is None else to_tensor(output) for output in outputs)

    return kernel


def __getattr__(name: str) -> type:
    return library.dfunction(name)
