# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Positions in a grid of ranks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence


def unravel(position: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the coordinate of a position in row-major order."""
    coordinate = []
    for extent in reversed(shape):
        position, index = divmod(position, extent)
        coordinate.append(index)
    return tuple(reversed(coordinate))


def ravel(coordinate: Sequence[int], shape: Sequence[int]) -> int:
    """Return the position of a coordinate in row-major order."""
    position = 0
    for index, extent in zip(coordinate, shape, strict=True):
        position = position * extent + index
    return position


def ranks_through(
    coordinate: Sequence[int], shape: Sequence[int], rank_list: Sequence[int], axes: Sequence[int]
) -> tuple[int, ...]:
    """Return the ranks that differ from ``coordinate`` on ``axes`` only, the last of these axes varying fastest."""
    found = []
    for indices in itertools.product(*(range(shape[axis]) for axis in axes)):
        other = list(coordinate)
        for axis, index in zip(axes, indices, strict=True):
            other[axis] = index
        found.append(rank_list[ravel(other, shape)])
    return tuple(found)


def parallel_ranks(shape: Sequence[int], rank_list: Sequence[int], axes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield what ``ranks_through`` gives for every coordinate, each set of ranks once, in one order on every rank."""
    for position in range(math.prod(shape)):
        coordinate = unravel(position, shape)
        if not any(coordinate[axis] for axis in axes):
            yield ranks_through(coordinate, shape, rank_list, axes)
