# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels and autograd functions on MindSpore: compiled kernels, or the references on host memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import mindspore as ms
from mindspore.graph.api import _pynative_executor

from hyper_parallel import library
from hyper_parallel.native.kernel_choice import NATIVE, uses_reference
from hyper_parallel.platform.mindspore.function import check_not_recorded
from hyper_parallel.platform.mindspore.host_arrays import to_array, to_tensor


@functools.cache
def load_kernel(op_name: str) -> Callable[..., tuple[Any, ...]]:
    """The function that computes an operator on tensors: arguments in API order, a tuple of outputs.

    Raises:
        LookupError: If the library has no operator of that name.
        KernelBuildError: If its kernels have to be compiled and cannot be.
    """
    compute = _reference_kernel(op_name) if uses_reference(NATIVE) else _native_kernel(op_name)

    def kernel(*args: Any) -> tuple[Any, ...]:
        check_not_recorded(f"the kernel {op_name}", args)
        return compute(*args)

    return kernel


def _reference_kernel(op_name: str) -> Callable[..., tuple[Any, ...]]:
    reference = library.reference(op_name)

    def kernel(*args: Any) -> tuple[Any, ...]:
        outputs = reference(*(to_array(value) for value in args))
        # A gradient may be None, where its optional tensor is absent.
        return tuple(None if output is None else to_tensor(output) for output in outputs)

    return kernel


def _native_kernel(op_name: str) -> Callable[..., tuple[Any, ...]]:
    from hyper_parallel.native.flavours import MindSporeFlavour
    from hyper_parallel.native.kernels import native_kernel

    backend = ms.get_context("device_target")
    native = native_kernel(op_name, MindSporeFlavour(backend))

    def kernel(*args: Any) -> tuple[Any, ...]:
        made = native(*args)
        if backend == "CPU":
            _pynative_executor.sync()  # else what is wrong is raised by a later operator
        return tuple(made) if isinstance(made, list | tuple) else (made,)

    return kernel


def __getattr__(name: str) -> type:
    return library.dfunction(name)
