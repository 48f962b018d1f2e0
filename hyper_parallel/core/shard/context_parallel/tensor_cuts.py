# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What a block takes of a tensor, and where its share is put back. Differentiable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hyper_parallel.core.shard.context_parallel.intervals import Intervals
from hyper_parallel.platform import get_platform
from hyper_parallel.platform.index import Index


def taken(tensor: Any, dim: int, intervals: Intervals) -> Any:
    """The elements of the intervals: the tensor itself if these are all, a slice if they are one, else a copy."""
    span = intervals.span
    if span is None:
        return get_platform().take(tensor, dim, intervals.places)
    if span == (0, tensor.shape[dim]):
        return tensor
    return get_platform().narrow(tensor, dim, span[0], span[1] - span[0])


def put_back(tensor: Any, dim: int, intervals: Intervals, extent: int, places: Callable[[], Index]) -> Any:
    """The inverse of `taken`: zeros where the intervals are not.

    Args:
        extent: Of the dim of what was taken from.
        places: Gives for each of its elements the place in `tensor`, or the one behind the last.
    """
    platform, span = get_platform(), intervals.span
    if span == (0, extent):
        return tensor
    if span is None:
        return platform.take(platform.concatenate((tensor, _zeros(tensor, dim, 1)), dim), dim, places())
    before, behind = span[0], extent - span[0] - tensor.shape[dim]
    parts = [_zeros(tensor, dim, before)] if before else []
    parts.append(tensor)
    if behind:
        parts.append(_zeros(tensor, dim, behind))
    return platform.concatenate(parts, dim)


def appended(tensor: Any, dim: int) -> Any:
    """The tensor with its last entry along the dim once more: for a document that nothing sees."""
    last = tensor.shape[dim]
    return get_platform().take(tensor, dim, Index(np.minimum(np.arange(last + 1), last - 1)))


def _zeros(tensor: Any, dim: int, length: int) -> Any:
    shape = tuple(tensor.shape)
    return get_platform().zeros((*shape[:dim], length, *shape[dim + 1 :]), tensor)
