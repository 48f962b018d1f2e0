# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The two ways to write how a tensor is cut, translated into each other.

*Placements* say per mesh axis which dimension it cuts; a *split* says per tensor dimension which axes cut it, outermost
first, as positions counted from the left. A *tensor map* is a split with axes counted from the right and -1 for none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.core.dtensor.placement_types import (
    Partial,
    Placement,
    Replicate,
    Shard,
    StridedShard,
    check_reduce_op,
)

Split = tuple[tuple[int, ...], ...]
TensorMap = tuple[int | tuple[int, ...], ...]
PartialOps = tuple[str | None, ...]
_PLACEMENT_NAMES = tuple(kind.__name__ for kind in (Shard, Replicate, Partial, StridedShard))
_PLACEMENTS_WANTED = "placements should be a tuple of Shard, Replicate, Partial or StridedShard"


def check_mesh(mesh: object) -> None:
    """Raise TypeError if ``mesh`` is something else."""
    if not isinstance(mesh, DeviceMesh):
        raise TypeError(
            f"expected a DeviceMesh (see init_device_mesh), but got {mesh!r} ({class_name(mesh)}); make one with "
            "hyper_parallel.init_device_mesh"
        )


def class_name(value: object) -> str:
    """Return the name of a value's class with its module: frameworks have classes of the same names."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _advice(value: object) -> str:
    """Return which class to use for one of the same name from elsewhere; empty for other values."""
    name = type(value).__name__
    return f"; use hyper_parallel.{name}" if name in _PLACEMENT_NAMES and not isinstance(value, Placement) else ""


def has_placement(entries: Sequence[object]) -> bool:
    """Return whether any of the entries is a placement."""
    return any(isinstance(entry, Placement) for entry in entries)


def checked_placements(mesh: DeviceMesh, placements: Sequence[Placement]) -> tuple[Placement, ...]:
    """Return the placements as a tuple, one for every axis of the mesh."""
    check_mesh(mesh)
    if not isinstance(placements, tuple | list):
        raise TypeError(f"{_PLACEMENTS_WANTED}, but got {placements!r} ({class_name(placements)}){_advice(placements)}")
    for item in placements:
        if not isinstance(item, Placement):
            got = f"{placements!r}: {item!r} is of the class {class_name(item)}{_advice(item)}"
            raise TypeError(f"{_PLACEMENTS_WANTED}, but got {got}")
    if len(placements) != mesh.ndim:
        raise ValueError(
            f"placements should hold one placement for each of the {mesh.ndim} axes {mesh.axis_names} of the mesh, "
            f"but got {len(placements)}: {tuple(placements)}"
        )
    check_partial_ops(mesh, partial_ops(placements))
    return tuple(placements)


def partial_ops(placements: Sequence[Placement]) -> PartialOps:
    """Return the pending reduction of every axis, or None."""
    return tuple(item.reduce_op if isinstance(item, Partial) else None for item in placements)


def checked_partial(mesh: DeviceMesh, partial: Sequence[str | None] | None) -> PartialOps:
    """Return the pending reductions as a tuple, one entry for every axis of the mesh; None means none are pending."""
    if partial is None:
        return (None,) * mesh.ndim
    if not isinstance(partial, tuple | list) or len(partial) != mesh.ndim:
        raise ValueError(
            f"partial should hold a reduce_op or None for each of the {mesh.ndim} axes {mesh.axis_names}, "
            f"but got {partial!r}"
        )
    for op in partial:
        if op is not None:
            check_reduce_op(op)
    check_partial_ops(mesh, tuple(partial))
    return tuple(partial)


def check_partial_ops(mesh: DeviceMesh, ops: PartialOps) -> None:
    """Raise ValueError for pending reductions whose result would depend on the order of the axes."""
    pending = {op for op in ops if op is not None}
    if len(pending) > 1 and not pending <= {"sum", "avg"}:
        named = {name: op for name, op in zip(mesh.axis_names, ops, strict=True) if op is not None}
        raise ValueError(f"pending reductions over several axes should be one operation (or sum and avg), got {named}")


def split_of_placements(mesh: DeviceMesh, placements: Sequence[Placement], ndim: int) -> Split:
    """Return which axes cut each of the ``ndim`` dimensions, outermost first.

    Raises:
        ValueError: a dimension that the tensor does not have, or a split_factor that no axes further right make.
    """
    split: list[list[int]] = [[] for _ in range(ndim)]
    # From the right: a Shard lies outside of what axes further right have cut, a StridedShard inside of some of it.
    for axis in reversed(range(len(placements))):
        placement = placements[axis]
        if isinstance(placement, Shard):
            axes = split[_checked_dim(mesh, axis, placement, ndim)]
            axes.insert(_depth(mesh, axis, placement, axes), axis)
    return tuple(tuple(axes) for axes in split)


def _checked_dim(mesh: DeviceMesh, axis: int, placement: Shard, ndim: int) -> int:
    if not -ndim <= placement.dim < ndim:
        raise ValueError(
            f"{placement} on mesh axis {mesh.axis_names[axis]!r} should name one of the {ndim} dimensions of the tensor"
        )
    return placement.dim % ndim


def _depth(mesh: DeviceMesh, axis: int, placement: Shard, inner: list[int]) -> int:
    wanted = placement.split_factor if isinstance(placement, StridedShard) else 1
    chunks = [math.prod(mesh.mesh_shape[other] for other in inner[:depth]) for depth in range(len(inner) + 1)]
    if wanted not in chunks:
        raise ValueError(
            f"split_factor of {placement} on mesh axis {mesh.axis_names[axis]!r} should be the number of chunks that "
            f"axes further right make of that dimension, one of {chunks}"
        )
    return chunks.index(wanted)


def placements_of_split(mesh: DeviceMesh, split: Split, ops: PartialOps) -> tuple[Placement, ...]:
    """Return the placement of every axis.

    Raises:
        ValueError: an axis that cuts twice, or that cuts and has a pending reduction.
    """
    placements: list[Placement] = [Replicate() if op is None else Partial(op) for op in ops]
    for dim, axes in enumerate(split):
        for depth, axis in enumerate(axes):
            taken = placements[axis]
            if not isinstance(taken, Replicate):
                use = f"splits dim {taken.dim}" if isinstance(taken, Shard) else f"is {taken}"
                raise ValueError(
                    f"mesh axis {mesh.axis_names[axis]!r} should be used once, but splits dim {dim} and {use}"
                )
            factor = math.prod(mesh.mesh_shape[outer] for outer in axes[:depth] if outer > axis)
            placements[axis] = Shard(dim) if factor == 1 else StridedShard(dim, factor)
    return tuple(placements)


def split_of_tensor_map(mesh: DeviceMesh, tensor_map: Sequence[Any]) -> Split:
    """Return the split that a tensor map describes.

    Raises:
        TypeError: an entry that is neither an int nor a tuple of int.
        ValueError: an axis that the mesh does not have.
    """
    if not isinstance(tensor_map, tuple | list):
        raise TypeError(f"tensor_map should be a tuple with one entry per dimension, but got {tensor_map!r}")
    return tuple(_axes_of_entry(mesh, entry, tensor_map) for entry in tensor_map)


def _axes_of_entry(mesh: DeviceMesh, entry: Any, tensor_map: Sequence[Any]) -> tuple[int, ...]:
    numbers = tuple(entry) if isinstance(entry, tuple | list) else (entry,)
    if not all(isinstance(number, int) and not isinstance(number, bool) for number in numbers):
        raise TypeError(
            f"an entry of tensor_map should be an int or a tuple of int, but got {entry!r} in {tensor_map!r}"
        )
    if numbers == (-1,):
        return ()
    if not all(0 <= number < mesh.ndim for number in numbers):
        raise ValueError(
            f"an entry of tensor_map should be -1 or mesh axes counted from the right (0..{mesh.ndim - 1}), "
            f"but got {entry!r} in {tensor_map!r}"
        )
    return tuple(mesh.ndim - 1 - number for number in numbers)


def tensor_map_of_split(mesh: DeviceMesh, split: Split) -> TensorMap:
    """Return the split as a tensor map."""
    entries: list[int | tuple[int, ...]] = []
    for axes in split:
        numbers = tuple(mesh.ndim - 1 - axis for axis in axes)
        entries.append(numbers if len(numbers) > 1 else numbers[0] if numbers else -1)
    return tuple(entries)


def split_of_names(mesh: DeviceMesh, entries: Sequence[Any]) -> Split:
    """Return the split written with axis names: per dimension "None" (or None), a name, or a tuple of names."""
    return tuple(_axes_named(mesh, entry, entries) for entry in entries)


def _axes_named(mesh: DeviceMesh, entry: Any, entries: Sequence[Any]) -> tuple[int, ...]:
    names = tuple(entry) if isinstance(entry, tuple | list) else (entry,)
    if names in (("None",), (None,)):
        return ()
    if not all(isinstance(name, str) for name in names):
        raise TypeError(
            f"a dimension should be an axis name, a tuple of them or 'None', but got {entry!r} in {entries!r}"
        )
    return tuple(mesh.axis_index(name) for name in names)
