# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What a kernel demands of its tensors: types and dims that agree. And the types it answers with."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike, NDArray

FLOAT_TYPES = tuple(np.dtype(kind) for kind in (ml_dtypes.bfloat16, np.float16, np.float32, np.float64))


def check_floating(**tensors: NDArray[Any]) -> None:
    """TypeError that names the first tensor that is not of a floating-point type."""
    for name, tensor in tensors.items():
        if tensor.dtype not in FLOAT_TYPES:
            raise TypeError(f"{name} should be bfloat16, float16, float32 or float64, but is {tensor.dtype}.")


def bind_dims(dims: dict[str, str], **tensors: NDArray[Any]) -> dict[str, int]:
    """The extent of each dim name; ``dims`` says the dims of each tensor, as names or integers: ``"B S1 N1 128"``.

    ValueError if a tensor has another rank, or if two tensors differ in a dim of the same name.
    """
    extents: dict[str, int] = {}
    for name, tensor in tensors.items():
        words = dims[name].split()
        if tensor.ndim != len(words):
            raise ValueError(f"{name} should have the {len(words)} dims {dims[name]!r}, but has shape {tensor.shape}.")
        for axis, (word, extent) in enumerate(zip(words, tensor.shape, strict=True)):
            expected = int(word) if word.isdigit() else extents.setdefault(word, extent)
            if extent != expected:
                what = f"dim {axis}" if word.isdigit() else f"{word} (dim {axis})"
                raise ValueError(f"{what} of {name} should be {expected}, but {name} has shape {tensor.shape}.")
    return extents


def output_type(first: NDArray[Any], documented: DTypeLike) -> np.dtype[Any]:
    """The documented type, but float64 if the operator's first tensor is: what finite differences need."""
    return np.dtype(np.float64) if first.dtype == np.float64 else np.dtype(documented)
