# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""MindSpore tensors as NumPy arrays and back, bit for bit."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import ml_dtypes
import numpy as np


def to_array(value: Any) -> Any:
    """A tensor as an array on the host, sharing its memory where it can; anything else as it is."""
    if not isinstance(value, ms.Tensor):
        return value
    array = value.asnumpy()
    if value.dtype == ms.bfloat16:  # MindSpore has a NumPy dtype of its own for it: same bits, another type
        return array.view(np.int16).view(ml_dtypes.bfloat16)
    return array


def to_tensor(array: Any) -> Any:
    """An array as a tensor of the same dtype, with memory of its own."""
    return ms.Tensor(np.ascontiguousarray(array).reshape(np.shape(array)))
