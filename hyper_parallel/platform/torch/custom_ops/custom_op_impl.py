# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels and autograd functions on torch: compiled kernels, or the references, on host memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import torch

from hyper_parallel import library
from hyper_parallel.native.kernel_choice import NATIVE, array_kernel
from hyper_parallel.platform.torch.opaque import opaque


def to_array(value: Any) -> Any:
    """A tensor as an array on the host, sharing its memory where it can; anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.layout is not torch.strided or value.is_meta or value.is_nested:
        kind = "meta" if value.is_meta else "nested" if value.is_nested else str(value.layout).removeprefix("torch.")
        raise TypeError(f"kernels take dense tensors in memory, but got a {kind} tensor")
    host = value.detach().resolve_neg().cpu()
    if host.dtype is torch.bfloat16:  # NumPy has no bfloat16 of its own: same bits, another name
        return host.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return host.numpy()


def to_tensor(array: Any, device: torch.device) -> torch.Tensor:
    """An array as a tensor on `device`."""
    contiguous = np.ascontiguousarray(array).reshape(np.shape(array))
    if contiguous.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(contiguous.view(np.int16)).view(torch.bfloat16).to(device)
    return torch.from_numpy(contiguous).to(device)


@functools.cache
def load_kernel(op_name: str) -> Callable[..., tuple[torch.Tensor | None, ...]]:
    """The function that computes an operator on tensors: arguments in API order, a tuple of outputs.

    Raises:
        LookupError: If the library has no operator of that name.
        KernelBuildError: If its kernels have to be compiled and cannot be.
    """
    compute = array_kernel(op_name, default=NATIVE)
    message = f"For {op_name}, there is no second derivative: autograd cannot differentiate what a kernel computes."

    def kernel(*args: Any) -> tuple[torch.Tensor | None, ...]:
        device = next((value.device for value in args if isinstance(value, torch.Tensor)), torch.device("cpu"))
        outputs = compute(*(to_array(value) for value in args))
        # A gradient may be None, where its optional tensor is absent.
        found = tuple(None if output is None else to_tensor(output, device) for output in outputs)
        return opaque(message, found, *args)

    return kernel


def __getattr__(name: str) -> type:
    return library.dfunction(name)
