# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors in natural order to what each rank holds of them in dealt order, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hyper_parallel.context_parallel.current_order import as_sequence_order
from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.core.dtensor.dtensor import DTensor, check_plain_tensor
from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.dtensor.placement_map import check_mesh
from hyper_parallel.core.dtensor.placement_types import Placement
from hyper_parallel.core.dtensor.redistribute import gradient_layout, redistribute_local
from hyper_parallel.core.shard.context_parallel.sequence_orders import (
    IntArray,
    SequenceOrder,
    dealt_positions,
    natural_tokens,
)
from hyper_parallel.core.shard.rank_check import RANK_CHECK, compare_texts, described_part
from hyper_parallel.core.shard.shared_lengths import lengths_text
from hyper_parallel.platform import get_platform
from hyper_parallel.platform.index import Index

MeshAxes = str | int | Sequence[str | int] | None


def deal(
    tensor: Any,
    mesh: DeviceMesh,
    dim: int,
    order: str | SequenceOrder | None = None,
    *,
    mesh_axes: MeshAxes = None,
    cu_seqlens: Any = None,
    per_document: bool | None = None,
) -> DTensor:
    """Return what this rank holds of a sequence in natural order, once it is dealt. Nothing is communicated.

    Differentiable, as `distribute_tensor` is: a rank's gradient of the whole tensor is that of its own rows, zero
    elsewhere.

    Args:
        tensor: the whole sequence: a tensor that is the same on every rank, or a DTensor that is whole on the axes over
            which it is dealt. A dim that other axes shard is dealt within each of their parts (groups).
        mesh: the mesh.
        dim: the dim of the sequence, negative from the last.
        order: the current one if not given.
        mesh_axes: the axes over which it is dealt, outermost first. If not given: the one called "cp", or the only one.
        cu_seqlens: for per-document dealing, the cumulative document ends of this group, with a leading zero or
            without; a list, a tuple or a 1-D tensor.
        per_document: whether each document is dealt by itself; as the order has it, if not given. Where each row of a
            batch is one document, False: the dim is dealt as one.

    Returns:
        The DTensor, `dim` sharded over `mesh_axes` within what sharded it before. Extents are those of `tensor`.

    Raises:
        ValueError: an extent or a document that cannot be cut into equal chunks; document ends that are missing,
            decrease, or do not end at the extent; a layout that does not fit; no such dim or axis; with
            `HYPER_PARALLEL_CHECK_RANKS=1`, document ends that are not the same on the ranks of a group.
        TypeError: something that is no tensor.
    """
    axes = _dealt_axes(mesh, mesh_axes)
    local, layout, dim = _part("deal", tensor, mesh, dim, ())
    dealing = _Dealing("deal", mesh, dim, axes, as_sequence_order(order, None, per_document))
    used = [axis for axis in axes if layout.placements[axis].is_shard() or layout.partial[axis] is not None]
    if used:
        raise ValueError(
            f"For deal, the tensor should be whole on the mesh axes {dealing.names}, but got {layout.placements}: "
            "redistribute it to Replicate() there."
        )
    dealing.compare_ranks(local, layout, cu_seqlens)
    tokens = local.shape[dim]
    index = natural_tokens(dealing.order, dealing.ranks, tokens, _host_ends(cu_seqlens))
    length = tokens // dealing.ranks
    start = dealing.rank * length
    target = _with_dim_axes(layout, dim, (*layout.dim_axes(dim), *axes))
    return DTensor.from_layout(dealing.taken(local, index[start : start + length]), target)


def undeal(
    tensor: Any,
    mesh: DeviceMesh,
    dim: int,
    order: str | SequenceOrder | None = None,
    *,
    mesh_axes: MeshAxes = None,
    cu_seqlens: Any = None,
    per_document: bool | None = None,
    grad_placements: Sequence[Placement] | None = None,
) -> DTensor:
    """Return a dealt sequence in natural order, whole on the axes over which it was dealt: the inverse of `deal`.

    Called on every rank of the mesh: the ranks gather. Differentiable, as `redistribute` is: a rank gets the gradient
    of its own rows. Where each rank's queries give a share of the gradient of all keys, say so by `grad_placements`.

    Args:
        tensor: a DTensor whose `dim` the axes shard, innermost; or this rank's part of one, a tensor, which no other
            axis shards.
        mesh, dim, order, mesh_axes, cu_seqlens, per_document: as for `deal`, and the same as there.
        grad_placements: how ranks hold the gradient of the result, one placement per mesh axis: as the result lies, or
            Partial("sum") where each rank has a share of it, which the backward adds up and scatters. If not given, the
            gradient is taken to be the same on every rank of the axes. What `DistributedOp.grad_layouts` says of an
            operator's input can be given as it is. It is the same on every rank, and the backward runs on every one.

    Returns:
        The DTensor, `dim` no longer sharded over `mesh_axes`. Its `to_local()` is the whole sequence (of this group).

    Raises:
        ValueError: as for `deal`; grad_placements that do not fit; parts that differ in shape or dtype, on the host.
        TypeError: something that is no tensor, or grad_placements that are none.
        RuntimeError: another rank has failed or not come; with `HYPER_PARALLEL_CHECK_RANKS=1`, ranks whose orders,
            layouts or grad_placements differ.
    """
    axes = _dealt_axes(mesh, mesh_axes)
    local, layout, dim = _part("undeal", tensor, mesh, dim, axes)
    dealing = _Dealing("undeal", mesh, dim, axes, as_sequence_order(order, None, per_document))
    # An axis of extent 1 has no place among the others.
    held = tuple(axis for axis in layout.dim_axes(dim) if mesh.mesh_shape[axis] > 1)
    inner = tuple(axis for axis in axes if mesh.mesh_shape[axis] > 1)
    if held[len(held) - len(inner) :] != inner:
        raise ValueError(
            f"For undeal, dim {dim} should be sharded by the mesh axes {dealing.names}, innermost and in this "
            f"order, but got {layout.compact_str}."
        )
    kept = tuple(axis for axis in layout.dim_axes(dim) if axis not in axes)
    target = _with_dim_axes(layout, dim, kept)
    gradient = gradient_layout("undeal", target, grad_placements)
    dealing.compare_ranks(local, layout, cu_seqlens, gradient)
    tokens = local.shape[dim] * dealing.ranks
    # Before the ranks meet: what is refused here leaves no other rank waiting.
    index = dealt_positions(dealing.order, dealing.ranks, tokens, _host_ends(cu_seqlens))
    gathered = redistribute_local(local, layout, target, gradient)
    return DTensor.from_layout(dealing.taken(gathered, index), target)


@dataclass(frozen=True)
class _Dealing:
    """One dim, dealt over some axes of a mesh."""

    what: str
    mesh: DeviceMesh
    dim: int
    axes: tuple[int, ...]
    order: SequenceOrder

    @property
    def names(self) -> str:
        return f"({', '.join(self.mesh.axis_names[axis] for axis in self.axes)})"

    @property
    def ranks(self) -> int:
        count = 1
        for axis in self.axes:
            count *= self.mesh.mesh_shape[axis]
        return count

    @property
    def rank(self) -> int:
        """The number of this rank in its group."""
        number = 0
        for axis in self.axes:
            number = number * self.mesh.mesh_shape[axis] + self.mesh.get_local_rank(axis)
        return number

    def compare_ranks(self, local: Any, layout: Layout, cu_seqlens: Any, gradient: Layout | None = None) -> None:
        """With the check: RuntimeError for ranks that deal differently, ValueError for ends that differ in a group."""
        if RANK_CHECK.enabled:
            part = described_part(layout, local)
            text = f"{self.what}({part}, dim={self.dim}, {self.order}, mesh_axes={self.names}"
            text += "" if cu_seqlens is None else ", cu_seqlens"
            text += ")" if gradient is None else f", grad_placements={gradient.placements})"
            lengths = lengths_text({"cu_seqlens": cu_seqlens})
            compared = compare_texts(self.what, text, local, self.mesh, lengths)
            if lengths:
                # Whatever else shards the tensor makes groups, each with documents of its own.
                axes = (axis for dim in range(layout.ndim) for axis in layout.dim_axes(dim))
                compared.compare(tuple(sorted({*axes} - {*self.axes})))

    def taken(self, local: Any, index: IntArray) -> Any:
        """The elements of the dim; without a copy if they are one slice."""
        platform = get_platform()
        if not self.order.is_balanced:
            start = int(index[0]) if len(index) else 0
            return platform.narrow(local, self.dim, start, len(index))
        return platform.take(local, self.dim, Index(np.ascontiguousarray(index)))


def _dealt_axes(mesh: DeviceMesh, mesh_axes: MeshAxes) -> tuple[int, ...]:
    check_mesh(mesh)
    if mesh_axes is None:
        if "cp" in mesh.axis_names:
            mesh_axes = "cp"
        elif mesh.ndim == 1:
            mesh_axes = 0
        else:
            raise ValueError(
                f"For context parallelism, mesh_axes should say over which of {mesh.axis_names} a sequence is dealt, "
                'since there is no axis called "cp".'
            )
    chosen = tuple(mesh_axes) if isinstance(mesh_axes, tuple | list) else (mesh_axes,)
    axes = tuple(mesh.axis_index(axis) for axis in chosen)
    if not axes or len(set(axes)) != len(axes):
        raise ValueError(
            f"For context parallelism, mesh_axes should be different axes, at least one, but got {chosen}."
        )
    return axes


def _part(what: str, tensor: Any, mesh: DeviceMesh, dim: int, axes: tuple[int, ...]) -> tuple[Any, Layout, int]:
    """This rank's part, its layout, and the dim from the left. Of a plain tensor the axes shard that dim."""
    mesh.check_current_rank()
    if not isinstance(tensor, DTensor):
        check_plain_tensor(tensor, what)
    elif tensor.device_mesh is not mesh:
        raise ValueError(f"For {what}, the DTensor should lie on the mesh {mesh}, but got {tensor.device_mesh}.")
    rank = tensor.ndim
    if not isinstance(dim, int) or isinstance(dim, bool) or not -rank <= dim < rank:
        raise ValueError(f"For {what}, dim should be in {-rank}..{rank - 1}, but got {dim!r}.")
    if isinstance(tensor, DTensor):
        return tensor.to_local(), tensor.layout, dim % rank
    whole = Layout.from_tensor_map(mesh, (-1,) * rank)
    return tensor, _with_dim_axes(whole, dim % rank, axes), dim % rank


def _with_dim_axes(layout: Layout, dim: int, axes: tuple[int, ...]) -> Layout:
    """The layout with other axes on the dim."""
    tensor_map = list(layout.tensor_map)
    tensor_map[dim] = tuple(layout.mesh.ndim - 1 - axis for axis in axes) or -1
    return Layout.from_tensor_map(layout.mesh, tensor_map, layout.partial)


def _host_ends(cu_seqlens: Any) -> tuple[int, ...] | None:
    return None if cu_seqlens is None else get_platform().host_integers(cu_seqlens)
