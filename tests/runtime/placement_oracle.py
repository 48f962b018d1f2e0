# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Which part of a tensor a rank holds, straight from the meaning of placements and without the code under test.

Placements are read from the left axis to the right one. Shard cuts what the rank holds so far into equal chunks. A
StridedShard leaves room for the cuts of axes further right: it cuts each of their chunks and joins what it keeps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from hyper_parallel import Partial, Replicate, Shard, StridedShard

REDUCTIONS: dict[str, Callable[..., Any]] = {"sum": np.sum, "avg": np.mean, "max": np.max, "min": np.min}


def coordinate_of(position: int, mesh_shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(index) for index in np.unravel_index(position, mesh_shape))


def held_by(
    full: np.ndarray, placements: Sequence[Any], mesh_shape: Sequence[int], coordinate: Sequence[int]
) -> np.ndarray:
    """The rank's part of ``full``, Partial axes left aside."""
    part = full
    for placement, count, index in zip(placements, mesh_shape, coordinate, strict=True):
        if isinstance(placement, StridedShard):
            chunks = np.split(part, placement.split_factor, axis=placement.dim)
            kept = [np.split(chunk, count, axis=placement.dim)[index] for chunk in chunks]
            part = np.concatenate(kept, axis=placement.dim)
        elif isinstance(placement, Shard):
            part = np.split(part, count, axis=placement.dim)[index]
    return part


def operands(
    shape: Sequence[int], placements: Sequence[Any], mesh_shape: Sequence[int]
) -> tuple[np.ndarray, list[np.ndarray]]:
    """A random whole tensor, and what every rank contributes to it (whole too): unequal parts of both signs."""
    random = np.random.default_rng(math.prod(mesh_shape))
    axes = [axis for axis, placement in enumerate(placements) if isinstance(placement, Partial)]
    counts = [mesh_shape[axis] for axis in axes]
    # Multiples of the number of ranks, so that averages are whole numbers and every result is exact.
    table = random.integers(-50, 50, (*counts, *shape)).astype(np.float64) * math.prod(mesh_shape)
    full = table
    for axis in reversed(axes):
        full = REDUCTIONS[placements[axis].reduce_op](full, axis=axes.index(axis))
    given = []
    for position in range(math.prod(mesh_shape)):
        coordinate = coordinate_of(position, mesh_shape)
        given.append(table[tuple(coordinate[axis] for axis in axes)])
    return full, given


def check_parts(
    full: np.ndarray, parts: Sequence[np.ndarray], placements: Sequence[Any], mesh_shape: Sequence[int]
) -> None:
    """Assert that the parts of all ranks (in mesh order), Partial ones reduced, are those of ``full``."""
    grid = np.empty(tuple(mesh_shape), dtype=object)
    for position, part in enumerate(parts):
        grid[coordinate_of(position, mesh_shape)] = np.asarray(part)
    for position in range(len(parts)):
        coordinate = coordinate_of(position, mesh_shape)
        value = _reduced(grid, placements, coordinate, 0)
        expected = held_by(full, placements, mesh_shape, coordinate)
        np.testing.assert_array_equal(value, expected, err_msg=f"{placements} at {coordinate}")


def _reduced(grid: np.ndarray, placements: Sequence[Any], coordinate: tuple[int, ...], axis: int) -> Any:
    if axis == len(placements):
        return grid[coordinate]
    if not isinstance(placements[axis], Partial):
        return _reduced(grid, placements, coordinate, axis + 1)
    values = []
    for index in range(grid.shape[axis]):
        values.append(_reduced(grid, placements, (*coordinate[:axis], index, *coordinate[axis + 1 :]), axis + 1))
    return REDUCTIONS[placements[axis].reduce_op](np.stack(values), axis=0)


def gradient_held_by(
    full: np.ndarray, placements: Sequence[Any], mesh_shape: Sequence[int], coordinate: Sequence[int]
) -> np.ndarray:
    """The rank's gradient of a loss whose gradient with respect to the whole tensor is ``full``.

    A shard has its chunk; equal values, and the operands of a sum, have all of it; those of an average a share each.
    """
    averaged = [isinstance(item, Partial) and item.reduce_op == "avg" for item in placements]
    share = math.prod(count for count, average in zip(mesh_shape, averaged, strict=True) if average)
    return held_by(full, placements, mesh_shape, coordinate) / share


def all_placements(mesh_shape: Sequence[int], ops: Sequence[str] = ("sum",)) -> Iterator[tuple[Any, ...]]:
    """Every placement of a 2-D tensor on a mesh of one or two axes, one kind of pending reduction at a time."""
    seen = set()
    for op in ops:
        kinds = (Replicate(), Shard(0), Shard(1), Partial(op))
        for placements in itertools.product(kinds, repeat=len(mesh_shape)):
            if placements not in seen:
                seen.add(placements)
                yield placements
    if len(mesh_shape) == 2:
        for dim in (0, 1):
            yield (StridedShard(dim, mesh_shape[1]), Shard(dim))
