# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Device meshes: ranks arranged in a grid whose axes tensors are distributed over."""

from __future__ import annotations

import difflib
import math
import threading
from collections.abc import Sequence
from typing import Any

from hyper_parallel.core.dtensor.mesh_arguments import checked_names, checked_ranks, checked_shape
from hyper_parallel.core.dtensor.mesh_geometry import ranks_through, unravel
from hyper_parallel.platform import get_platform
from hyper_parallel.platform.environment import how_to_start, unseen_ranks

_MESHES: dict[tuple[Any, ...], DeviceMesh] = {}
_SUB_MESHES: dict[tuple[Any, ...], DeviceMesh] = {}
_lock = threading.Lock()


class DeviceMesh:
    """A grid of ranks, as one rank sees it. Made by ``init_device_mesh``; immutable, and equal only to itself.

    ``mesh["tp"]`` and ``mesh["dp", "cp"]`` are the sub-meshes of these axes through this rank, on the groups of the
    whole mesh; ``flatten`` makes one axis of all.

    Attributes:
        device_type: the device that the tensors live on, such as "cpu".
        mesh_shape: extent of every axis.
        mesh_dim_names: names of the axes, or None for an unnamed mesh.
        axis_names: the names, or "dim_0", "dim_1", ... for an unnamed mesh.
        rank_list: the ranks in row-major order of their coordinates.
        rank: the rank that sees the mesh.
        root: the mesh from ``init_device_mesh`` that this one is part of; the mesh itself if it is that one.
        root_axes: for every axis the axes of the root that it consists of, outermost first.
    """

    __iter__ = None  # indexing by axis number does not make a mesh a sequence

    __slots__ = (
        "__weakref__",
        "_coordinate",
        "_handles",
        "axis_names",
        "device_type",
        "mesh_dim_names",
        "mesh_shape",
        "rank",
        "rank_list",
        "root",
        "root_axes",
    )

    def __init__(
        self,
        device_type: str,
        mesh_shape: tuple[int, ...],
        mesh_dim_names: tuple[str, ...] | None,
        rank_list: tuple[int, ...],
        rank: int,
        root: DeviceMesh | None = None,
        root_axes: tuple[tuple[int, ...], ...] | None = None,
    ) -> None:
        self.device_type = device_type
        self.mesh_shape = mesh_shape
        self.mesh_dim_names = mesh_dim_names
        self.axis_names = mesh_dim_names or tuple(f"dim_{axis}" for axis in range(len(mesh_shape)))
        self.rank_list = rank_list
        self.rank = rank
        self.root = root or self
        self.root_axes = root_axes or tuple((axis,) for axis in range(len(mesh_shape)))
        # Of a root: axes -> the platform's handle of the ranks along them; None as long as there is no communication.
        self._handles: dict[tuple[int, ...], Any] | None = None
        self._coordinate = unravel(rank_list.index(rank), mesh_shape) if rank in rank_list else None

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.mesh_shape)

    def size(self, axis: int | str | None = None) -> int:
        """Return the number of ranks, of the whole mesh or along ``axis``."""
        return math.prod(self.mesh_shape) if axis is None else self.get_device_num_along_axis(axis)

    def axis_index(self, axis: int | str) -> int:
        """Return the position of an axis, given by name or position, counted from the left.

        Raises:
            ValueError: the mesh has no such axis.
            TypeError: ``axis`` is neither str nor int.
        """
        if isinstance(axis, str):
            if axis in self.axis_names:
                return self.axis_names.index(axis)
            close = difflib.get_close_matches(axis, self.axis_names, n=1)
            suggestion = f"; did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"the mesh has the axes {self.axis_names}, but got {axis!r}{suggestion}")
        if not isinstance(axis, int) or isinstance(axis, bool):
            raise TypeError(f"a mesh axis should be a name or a position, but got {axis!r} ({type(axis).__name__})")
        if not 0 <= axis < self.ndim:
            raise ValueError(f"a mesh axis should be in 0..{self.ndim - 1}, but got {axis} for the mesh {self}")
        return axis

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Return this rank's position on every axis, or None if the rank is not part of the mesh."""
        return self._coordinate

    def own_coordinate(self) -> tuple[int, ...]:
        """Return this rank's position on every axis; ValueError if the rank is not part of the mesh."""
        if self._coordinate is None:
            raise ValueError(
                f"rank {self.rank} is not part of the mesh {self}: only the ranks {self.rank_list} may use it"
            )
        return self._coordinate

    def check_current_rank(self) -> None:
        """Raise ValueError if another rank than the one that made this mesh uses it, or one outside of it."""
        self.own_coordinate()
        current = get_platform().rank
        if current != self.rank:
            raise ValueError(
                f"rank {current} uses a mesh that was made on rank {self.rank}; every rank makes its own: "
                "call init_device_mesh inside the function that the ranks run"
            )

    def get_local_rank(self, axis: int | str) -> int:
        """Return this rank's position on ``axis``."""
        return self.own_coordinate()[self.axis_index(axis)]

    def get_device_num_along_axis(self, axis: int | str) -> int:
        """Return the number of ranks along ``axis``."""
        return self.mesh_shape[self.axis_index(axis)]

    def get_rank_list_along_axis(self, axis: int | str) -> tuple[int, ...]:
        """Return the ranks that differ from this one on ``axis`` only, in the order of their positions."""
        index = self.axis_index(axis)
        return ranks_through(self.own_coordinate(), self.mesh_shape, self.rank_list, (index,))

    @property
    def groups(self) -> tuple[Any, ...] | None:
        """The platform's handle for every axis; None if the mesh only describes layouts (or needs no handles)."""
        handles = self.root._handles
        return None if handles is None else tuple(handles.get(axes) for axes in self.root_axes)

    def get_group(self, axis: int | str) -> Any:
        """Return the platform's handle of those ranks: a process group on torch, the ranks on NumPy."""
        return get_platform().get_group(self, self.axis_index(axis))

    def __getitem__(self, axes: str | int | Sequence[str | int]) -> DeviceMesh:
        """Return the sub-mesh of some axes, by name or number, through this rank: on every rank the one it is in.

        The same axes give the same object. Nothing is communicated, and no groups are made.

        Raises:
            ValueError: no such axis, an axis twice, another order than the mesh's, a rank outside of the mesh.
            TypeError: something that is neither a name nor a position.
        """
        chosen = tuple(axes) if isinstance(axes, tuple | list) else (axes,)
        indices = [self.axis_index(axis) for axis in chosen]
        if not indices or len(set(indices)) != len(indices):
            raise ValueError(f"a sub-mesh should have at least one axis, each once, but got {axes!r}")
        if indices != sorted(indices):
            raise ValueError(f"the axes of a sub-mesh should be in the order of {self.axis_names}, but got {axes!r}")
        names = self.mesh_dim_names and tuple(self.mesh_dim_names[index] for index in indices)
        return _sub_mesh(self.root, tuple(self.root_axes[index] for index in indices), names)

    def flatten(self, name: str | None = None) -> DeviceMesh:
        """Return the mesh with all its axes made one, in their order: ``mesh["dp", "cp"].flatten()``.

        Called on every rank of the root, since the ranks of several axes need a group of their own. The same mesh and
        name give the same object.

        Args:
            name: of the axis; the names joined by "_" if not given, such as "dp_cp". An unnamed mesh stays unnamed.

        Raises:
            ValueError: a name that no axis may have, a rank outside of the mesh.
        """
        if name is None and self.mesh_dim_names is not None:
            name = "_".join(self.mesh_dim_names)
        axes = tuple(axis for of_axis in self.root_axes for axis in of_axis)
        names = checked_names(None if name is None else (name,), (self.size(),))
        mesh = _sub_mesh(self.root, (axes,), names)
        handles = self.root._handles
        if handles is not None and axes not in handles:
            handles[axes] = get_platform().create_merged_group(self.root, axes)
        return mesh

    def __repr__(self) -> str:
        axes = ", ".join(f"{name}={extent}" for name, extent in zip(self.axis_names, self.mesh_shape, strict=True))
        order = "" if self.rank_list == tuple(range(len(self.rank_list))) else f", rank_list={self.rank_list}"
        return f"DeviceMesh({self.device_type}, {axes}{order})"

    def __copy__(self) -> DeviceMesh:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceMesh:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Loaded on another rank, a mesh is that rank's view of it.
        if self.root is not self:
            return _sub_mesh, (self.root, self.root_axes, self.mesh_dim_names)
        return _interned, (self.device_type, self.mesh_shape, self.mesh_dim_names, self.rank_list)


def init_device_mesh(
    device_type: str,
    mesh_shape: Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
    rank_list: Sequence[int] | None = None,
    init_backend: bool = True,
) -> DeviceMesh:
    """Arrange ranks in a grid. Called on every rank with the same arguments.

    The same arguments on the same rank give the same object.

    Args:
        device_type: where the tensors live, such as "cpu" or "npu".
        mesh_shape: extent of every axis, outermost first.
        mesh_dim_names: a name for every axis, such as ("dp", "tp").
        rank_list: the ranks in row-major order of their coordinates; 0, 1, 2, ... if not given.
        init_backend: start communication if it is not yet there, and create the groups of the mesh. Without it the
            mesh describes layouts only, and may have any number of ranks.

    Raises:
        TypeError: an argument of another type.
        ValueError: extents below 1, names that repeat or do not fit, a rank_list that repeats ranks or does not
            fill the mesh; with ``init_backend``, a mesh that is not exactly the world.
        RuntimeError: the environment does not say how to reach the other ranks.
    """
    shape = checked_shape(mesh_shape)
    names = checked_names(mesh_dim_names, shape)
    ranks = checked_ranks(rank_list, shape)
    if not isinstance(device_type, str):
        raise TypeError(f"device_type should be a str such as 'cpu', but got {device_type!r}")
    if not device_type:
        raise ValueError("device_type should be the name of a device such as 'cpu', but got an empty string")
    if init_backend:
        _check_world(shape, ranks)
        get_platform().init_backend(device_type, get_platform().world_size)
    mesh = _interned(device_type, shape, names, ranks)
    if init_backend and mesh._handles is None:
        _set_groups(mesh, get_platform().create_groups(mesh))
    return mesh


def mesh_of_groups(
    device_type: str,
    shape: tuple[int, ...],
    names: tuple[str, ...] | None,
    ranks: tuple[int, ...],
    groups: Sequence[Any],
) -> DeviceMesh:
    """Return the mesh of these ranks, for which the platform has made a group for every axis already."""
    mesh = _interned(device_type, shape, names, ranks)
    if mesh._handles is None:
        _set_groups(mesh, groups)
    return mesh


def _set_groups(mesh: DeviceMesh, groups: Sequence[Any] | None) -> None:
    if groups is not None:
        mesh._handles = {(axis,): group for axis, group in enumerate(groups)}


def _sub_mesh(root: DeviceMesh, root_axes: tuple[tuple[int, ...], ...], names: tuple[str, ...] | None) -> DeviceMesh:
    if root_axes == root.root_axes and names == root.mesh_dim_names:
        return root
    axes = tuple(axis for of_axis in root_axes for axis in of_axis)
    ranks = ranks_through(root.own_coordinate(), root.mesh_shape, root.rank_list, axes)
    shape = tuple(math.prod(root.mesh_shape[axis] for axis in of_axis) for of_axis in root_axes)
    key = (root, root_axes, names)
    with _lock:
        mesh = _SUB_MESHES.get(key)
        if mesh is None:
            mesh = _SUB_MESHES[key] = DeviceMesh(root.device_type, shape, names, ranks, root.rank, root, root_axes)
    return mesh


def _interned(
    device_type: str, shape: tuple[int, ...], names: tuple[str, ...] | None, ranks: tuple[int, ...]
) -> DeviceMesh:
    platform = get_platform()
    rank = platform.rank
    key = (device_type, shape, names, ranks, rank, platform.session)
    with _lock:
        mesh = _MESHES.get(key)
        if mesh is None:
            mesh = _MESHES[key] = DeviceMesh(device_type, shape, names, ranks, rank)
    return mesh


def _check_world(shape: tuple[int, ...], ranks: tuple[int, ...]) -> None:
    world_size, platform = get_platform().world_size, get_platform().name
    if len(ranks) != world_size:
        raise ValueError(
            f"a mesh of shape {shape} has {len(ranks)} ranks, but the world has {world_size}"
            + (
                unseen_ranks(platform)
                or f"; start as many ranks as the mesh has ({how_to_start(platform, len(ranks))}), or give "
                "init_backend=False for a mesh that only describes layouts"
            )
        )
    if max(ranks) >= world_size:
        raise ValueError(f"rank_list should hold the ranks 0..{world_size - 1} of the world, but got {ranks}")
