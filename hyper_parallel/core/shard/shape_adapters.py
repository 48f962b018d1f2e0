# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Changes of shape that a backward kernel wants of its tensors, on any framework's tensors.

Axes may be negative and then count from the last dim, as in NumPy. A missing tensor, None, stays missing.
"""

from __future__ import annotations

import math
from typing import Any


def unflatten(tensor: Any, axis: int, *extents: int) -> Any:
    """Split the dim `axis` into several. ValueError if the extents do not multiply to it."""
    if tensor is None:
        return None
    shape, axis = tuple(tensor.shape), axis % len(tensor.shape)
    if math.prod(extents) != shape[axis]:
        raise ValueError(f"a dim of {shape[axis]} cannot be split into {extents}")
    return tensor.reshape((*shape[:axis], *extents, *shape[axis + 1 :]))


def flatten(tensor: Any, first: int, last: int) -> Any:
    """Join the dims from `first` to `last`, both included."""
    if tensor is None:
        return None
    shape = tuple(tensor.shape)
    first, last = first % len(shape), last % len(shape)
    return tensor.reshape((*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


def unsqueeze(tensor: Any, axis: int) -> Any:
    """Insert a dim of one at `axis` of the result."""
    if tensor is None:
        return None
    shape = tuple(tensor.shape)
    axis %= len(shape) + 1
    return tensor.reshape((*shape[:axis], 1, *shape[axis:]))


def transpose(tensor: Any, first: int, second: int) -> Any:
    """Exchange two dims."""
    return None if tensor is None else tensor.swapaxes(first, second)
