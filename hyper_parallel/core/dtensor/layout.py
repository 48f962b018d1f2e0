# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Layouts: how one tensor lies on a mesh."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any

from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.core.dtensor.placement_map import (
    PartialOps,
    Split,
    TensorMap,
    check_mesh,
    check_partial_ops,
    checked_partial,
    checked_placements,
    has_placement,
    partial_ops,
    placements_of_split,
    split_of_names,
    split_of_placements,
    split_of_tensor_map,
    tensor_map_of_split,
)
from hyper_parallel.core.dtensor.placement_types import Partial, Placement, Replicate, check_reduce_op

__all__ = ["DeviceMesh", "Layout"]

_INTERNED: dict[tuple[DeviceMesh, Split, PartialOps], Layout] = {}
_BY_PLACEMENTS: dict[tuple[DeviceMesh, tuple[Placement, ...], int], Layout] = {}
_lock = threading.Lock()


class Layout:
    """How a tensor lies on a mesh: which axes split which dimension, and which reductions are pending.

    The layout of a DTensor is frozen and interned: equal ones are the same object. ``Layout.from_device_mesh`` gives an
    open one that the ``set_...`` methods change; ``freeze()`` returns its interned equal. ``tensor_map`` has an
    entry per dimension: -1 for unsplit, a mesh axis counted from the right, or a tuple of them, outermost first.
    """

    __slots__ = ("__weakref__", "_frozen", "_hash", "_mesh", "_partial", "_placements", "_split", "_tensor_map")

    _mesh: DeviceMesh
    _partial: PartialOps
    _placements: tuple[Placement, ...]
    _split: Split | None  # None as long as the number of dimensions is not known
    _tensor_map: TensorMap | None
    _frozen: bool
    _hash: int

    @classmethod
    def from_device_mesh(cls, mesh: DeviceMesh) -> Layout:
        """Return an open layout, replicated over every axis, whose number of dimensions is not known yet."""
        check_mesh(mesh)
        layout = cls.__new__(cls)
        layout._mesh = mesh
        layout._frozen = False
        layout._hash = 0
        layout._assign_placements((Replicate(),) * mesh.ndim)
        return layout

    @classmethod
    def from_placements(cls, mesh: DeviceMesh, placements: Sequence[Placement], ndim: int) -> Layout:
        """Return the interned layout of a tensor of ``ndim`` dimensions with these placements.

        Raises:
            ValueError: not one placement per axis, a dimension out of range, a split_factor that does not fit.
        """
        key = (mesh, checked_placements(mesh, placements), ndim)
        found = _BY_PLACEMENTS.get(key)
        if found is None:
            layout = cls._restore_open(mesh, key[1])
            layout.placement_to_tensor_map(ndim)
            found = _BY_PLACEMENTS[key] = layout.freeze()
        return found

    @classmethod
    def from_tensor_map(
        cls, mesh: DeviceMesh, tensor_map: Sequence[Any], partial: Sequence[str | None] | None = None
    ) -> Layout:
        """Return the interned layout with this tensor map and these pending reductions (per axis, from the left).

        The order of an axis of extent 1 among others on one dimension means nothing and is made uniform.

        Raises:
            ValueError: an axis that does not exist, is used twice, or splits although its reduction is pending.
        """
        layout = cls.from_device_mesh(mesh)
        layout._assign_split(split_of_tensor_map(mesh, tensor_map), checked_partial(mesh, partial))
        return layout.freeze()

    def freeze(self) -> Layout:
        """Return the interned layout that is equal to this one; ValueError if its dimensions are not known yet."""
        if self._frozen:
            return self
        # Through the placements, so that two spellings of one layout become one object.
        split = split_of_placements(self._mesh, self._placements, self.ndim)
        key = (self._mesh, split, self._partial)
        with _lock:
            found = _INTERNED.get(key)
            if found is None:
                found = self._copy()
                found._assign_split(split, self._partial)
                found._hash = hash(key)
                found._frozen = True
                _INTERNED[key] = found
        return found

    @property
    def is_frozen(self) -> bool:
        """Whether this is an interned layout that cannot be changed."""
        return self._frozen

    @property
    def mesh(self) -> DeviceMesh:
        """The mesh."""
        return self._mesh

    @property
    def partial(self) -> PartialOps:
        """The pending reduction of every mesh axis from the left, or None."""
        return self._partial

    @property
    def placements(self) -> tuple[Placement, ...]:
        """The placement on every mesh axis from the left."""
        return self._placements

    @property
    def ndim(self) -> int:
        """The number of dimensions of the tensor."""
        return len(self._known_split())

    @property
    def tensor_map(self) -> TensorMap:
        """The split of every dimension, by mesh axes counted from the right."""
        self._known_split()
        assert self._tensor_map is not None
        return self._tensor_map

    @property
    def alias_tensor_map(self) -> tuple[str | tuple[str, ...], ...]:
        """The split of every dimension by axis names: "None", a name, or a tuple of names, outermost first."""
        entries: list[str | tuple[str, ...]] = []
        for axes in self._known_split():
            names = tuple(self._mesh.axis_names[axis] for axis in axes)
            entries.append(names if len(names) > 1 else names[0] if names else "None")
        return tuple(entries)

    @property
    def alias_placements(self) -> tuple[tuple[str, Placement], ...]:
        """Every mesh axis by name, with its placement."""
        return tuple(zip(self._mesh.axis_names, self._placements, strict=True))

    @property
    def compact_str(self) -> str:
        """One line for messages, such as ``[dp, None, (cp, tp)] + sum over pp``."""
        if self._split is None:
            return str(self._placements)
        dims = [f"({', '.join(item)})" if isinstance(item, tuple) else item for item in self.alias_tensor_map]
        pending = [f" + {op} over {name}" for name, op in zip(self._mesh.axis_names, self._partial, strict=True) if op]
        return f"[{', '.join(dims)}]{''.join(pending)}"

    def is_partial(self) -> bool:
        """Return whether a reduction over some axis is pending."""
        return any(op is not None for op in self._partial)

    def dim_axes(self, dim: int) -> tuple[int, ...]:
        """Return the mesh axes that split ``dim``, counted from the left, outermost first."""
        split = self._known_split()
        if not -len(split) <= dim < len(split):
            raise ValueError(f"dim should be in {-len(split)}..{len(split) - 1} for the layout {self}, but got {dim}")
        return split[dim]

    def get_dim_split_num(self, dim: int) -> int:
        """Return into how many chunks ``dim`` is split."""
        return math.prod(self._mesh.mesh_shape[axis] for axis in self.dim_axes(dim))

    def get_split_id(self, dim: int) -> int:
        """Return which of these chunks this rank holds."""
        coordinate = self._mesh.own_coordinate()
        chunk = 0
        for axis in self.dim_axes(dim):
            chunk = chunk * self._mesh.mesh_shape[axis] + coordinate[axis]
        return chunk

    def get_global_shape(self, local_shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the whole tensor, given the shape of every rank's part."""
        self._check_rank(local_shape)
        return tuple(extent * self.get_dim_split_num(dim) for dim, extent in enumerate(local_shape))

    def get_local_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of every rank's part, given the shape of the whole tensor.

        Raises:
            ValueError: a dimension that cannot be split evenly.
        """
        self._check_rank(global_shape)
        for dim, extent in enumerate(global_shape):
            shards = self.get_dim_split_num(dim)
            if extent % shards:
                names = ", ".join(self._mesh.axis_names[axis] for axis in self.dim_axes(dim))
                raise ValueError(
                    f"dim {dim} of shape {tuple(global_shape)} has extent {extent}, which should be divisible by the "
                    f"{shards} shards over the mesh axes ({names}); pad it or choose another layout"
                )
        return tuple(extent // self.get_dim_split_num(dim) for dim, extent in enumerate(global_shape))

    def set_tensor_map(self, tensor_map: Sequence[Any]) -> None:
        """Set the split of every dimension. Pending reductions stay."""
        self._check_open()
        self._assign_split(split_of_tensor_map(self._mesh, tensor_map), self._partial)

    def set_partial_by_dev_axis(self, axis: int | str, op: str = "sum") -> None:
        """Make the reduction ``op`` over a mesh axis (name, or position from the left) pending."""
        self._check_open()
        check_reduce_op(op)
        index = self._mesh.axis_index(axis)
        ops = tuple(op if other == index else pending for other, pending in enumerate(self._partial))
        check_partial_ops(self._mesh, ops)
        if self._split is not None:
            self._assign_split(self._split, ops)
            return
        if self._placements[index].is_shard():
            raise ValueError(f"mesh axis {self._mesh.axis_names[index]!r} cannot be Partial: {self._placements[index]}")
        self._assign_placements((*self._placements[:index], Partial(op), *self._placements[index + 1 :]))

    def tensor_map_to_placement(self) -> tuple[Placement, ...]:
        """Return the placements that say the same as the tensor map and the pending reductions."""
        self._known_split()
        return self._placements

    def placement_to_tensor_map(self, ndim: int) -> TensorMap:
        """Take the tensor to have ``ndim`` dimensions; set and return the tensor map that the placements give."""
        self._check_open()
        if not isinstance(ndim, int) or isinstance(ndim, bool) or ndim < 0:
            raise ValueError(f"ndim should be a number of dimensions, but got {ndim!r}")
        self._assign_split(split_of_placements(self._mesh, self._placements, ndim), self._partial)
        return self.tensor_map

    def __call__(self, *entries: Any) -> Layout:
        """Return a new open layout on the same mesh: one entry per dimension, or one placement per mesh axis.

        ``layout("dp", "None", ("cp", "tp"))`` or ``layout(Shard(0), Replicate())``. With placements the number of
        dimensions stays open until ``placement_to_tensor_map``.
        """
        layout = Layout.from_device_mesh(self._mesh)
        if len(entries) == 1 and isinstance(entries[0], tuple | list) and has_placement(entries[0]):
            entries = tuple(entries[0])
        if has_placement(entries):
            layout._assign_placements(checked_placements(self._mesh, entries))
        else:
            layout._assign_split(split_of_names(self._mesh, entries), layout._partial)
        return layout

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Layout):
            return NotImplemented
        return self._content() == other._content()

    def __hash__(self) -> int:
        return self._hash if self._frozen else hash(self._content())

    def __repr__(self) -> str:
        return f"Layout({self.compact_str} on {self._mesh})"

    def __copy__(self) -> Layout:
        return self if self._frozen else self._copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Layout:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._split is None:
            return Layout._restore_open, (self._mesh, self._placements)
        return Layout.from_tensor_map, (self._mesh, self._tensor_map, self._partial)

    @classmethod
    def _restore_open(cls, mesh: DeviceMesh, placements: tuple[Placement, ...]) -> Layout:
        layout = cls.from_device_mesh(mesh)
        layout._assign_placements(placements)
        return layout

    def _assign_placements(self, placements: tuple[Placement, ...]) -> None:
        self._placements = placements
        self._partial = partial_ops(placements)
        self._split = None
        self._tensor_map = None

    def _assign_split(self, split: Split, partial: PartialOps) -> None:
        self._placements = placements_of_split(self._mesh, split, partial)
        self._partial = partial
        self._split = split
        self._tensor_map = tensor_map_of_split(self._mesh, split)

    def _copy(self) -> Layout:
        layout = Layout._restore_open(self._mesh, self._placements)
        if self._split is not None:
            layout._assign_split(self._split, self._partial)
        return layout

    def _content(self) -> tuple[Any, ...]:
        return (self._mesh, self._placements if self._split is None else self._split, self._partial)

    def _known_split(self) -> Split:
        if self._split is None:
            raise ValueError(
                f"the layout {self._placements} does not know the number of dimensions of its tensor yet; "
                "call placement_to_tensor_map(ndim) or set_tensor_map(...) first"
            )
        return self._split

    def _check_open(self) -> None:
        if self._frozen:
            raise ValueError(
                f"{self} is frozen, since DTensors may share it; make a new one with Layout.from_device_mesh(mesh) "
                "or by calling this one: layout('dp', 'None')"
            )

    def _check_rank(self, shape: Sequence[int]) -> None:
        if len(shape) != self.ndim:
            raise ValueError(f"{self} describes a tensor of {self.ndim} dimensions, but got the shape {tuple(shape)}")
