# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What each rank holds of a whole tensor, and back.

Pending reductions are split so that a mistake cannot hide: summands are uneven and of alternating signs, and of a
maximum or minimum every element lies on another rank, with different distances on the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from .cases import Axes, Case, Placed

if TYPE_CHECKING:
    from hyper_parallel import DeviceMesh, Layout

REDUCTIONS: dict[str, Any] = {"sum": np.add, "max": np.maximum, "min": np.minimum}


def layout_of(placed: Placed, mesh: DeviceMesh) -> Layout:
    from hyper_parallel import Layout

    names = list(mesh.axis_names)
    from_right = [tuple(mesh.ndim - 1 - names.index(axis) for axis in axes) for axes in placed.dims]
    pending = dict(placed.partial)
    return Layout.from_tensor_map(
        mesh,
        tuple(axes[0] if len(axes) == 1 else axes or -1 for axes in from_right),
        tuple(pending.get(axis) for axis in names),
    )


def placed_of(layout: Layout) -> Placed:
    """The inverse of `layout_of`."""
    dims = tuple(
        () if axes == "None" else (axes,) if isinstance(axes, str) else tuple(axes) for axes in layout.alias_tensor_map
    )
    names = layout.mesh.axis_names
    return Placed(dims, tuple((names[axis], op) for axis, op in enumerate(layout.partial) if op))


def part(case: Case, whole: Any, dims: Sequence[Axes], rank: int) -> Any:
    """A rank's part of a tensor whose dims lie on mesh axes."""
    for dim, axes in enumerate(dims):
        if axes:
            index, count = case.part(axes, rank)
            whole = np.array_split(whole, count, axis=dim)[index]
    return whole


def held(case: Case, name: str, whole: Any, placed: Placed, rank: int) -> Any:
    """What a rank holds of a tensor."""
    for axis, op in placed.partial:
        index, count = case.part((axis,), rank)
        whole = split_by_reduction(whole, op, count, (case.problem.seed, len(name), len(axis)))[index]
    found = np.array(part(case, whole, placed.dims, rank), order="C")
    found.setflags(write=False)
    return found


def split_by_reduction(whole: Any, op: str, count: int, seed: Sequence[int]) -> list[Any]:
    """Tensors that give the whole when they are reduced."""
    rng = np.random.default_rng(list(seed))
    if op == "sum":
        signs = (-1.0) ** np.arange(count)
        parts = [signs[at] * (at + 1) * rng.uniform(0.5, 2.0, whole.shape) for at in range(count - 1)]
        parts = [one.astype(whole.dtype) for one in parts]
        return [*parts, whole - sum(parts)]
    owner = rng.integers(0, count, whole.shape)
    sign = -1 if op == "max" else 1
    distances = [rng.integers(1, 3 + at, whole.shape).astype(whole.dtype) for at in range(count)]
    return [np.where(owner == at, whole, whole + sign * distances[at]) for at in range(count)]


def reduced(case: Case, parts: Sequence[Any], placed: Placed, rank: int) -> Any:
    """What the pending reductions of a tensor make of what the ranks hold."""
    pending = dict(placed.partial)
    if not pending:
        return parts[rank]
    own = case.coordinate(rank)
    peers = [
        other
        for other in range(case.ranks)
        if all(at == own[axis] for axis, at in case.coordinate(other).items() if axis not in pending)
    ]
    ops = set(pending.values())
    if len(ops) > 1:  # one axis after the other, each among ranks that agree on all others
        axis, op = placed.partial[0]
        rest = Placed(placed.dims, placed.partial[1:])
        along = [other for other in peers if agrees(case, other, rank, axis)]
        return reduce(REDUCTIONS[op], [reduced(case, parts, rest, other) for other in along])
    op = ops.pop()
    return reduce(REDUCTIONS[op], [parts[other] for other in peers])


def agrees(case: Case, one: int, other: int, except_axis: str) -> bool:
    """Whether two ranks stand at the same place on every other axis."""
    first, second = case.coordinate(one), case.coordinate(other)
    return all(first[axis] == second[axis] for axis in first if axis != except_axis)
