# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Device meshes: ranks arranged in a grid whose axes tensors are distributed over."""

from __future__ import annotations

import difflib
import math
import threading
from collections.abc import Sequence
from typing import Any

from hyper_parallel.platform import get_platform

_MESHES: dict[tuple[Any, ...], DeviceMesh] = {}
_lock = threading.Lock()


class DeviceMesh:
    """A grid of ranks, as one rank sees it. Made by ``init_device_mesh``; immutable, and equal only to itself.

    Attributes:
        device_type: the device that the tensors live on, such as "cpu".
        mesh_shape: extent of every axis.
        mesh_dim_names: names of the axes, or None for an unnamed mesh.
        axis_names: the names, or "dim_0", "dim_1", ... for an unnamed mesh.
        rank_list: the ranks in row-major order of their coordinates.
        rank: the rank that sees the mesh.
    """

    __slots__ = (
        "__weakref__",
        "_coordinate",
        "axis_names",
        "device_type",
        "groups",
        "mesh_dim_names",
        "mesh_shape",
        "rank",
        "rank_list",
    )

    def __init__(
        self,
        device_type: str,
        mesh_shape: tuple[int, ...],
        mesh_dim_names: tuple[str, ...] | None,
        rank_list: tuple[int, ...],
        rank: int,
    ) -> None:
        self.device_type = device_type
        self.mesh_shape = mesh_shape
        self.mesh_dim_names = mesh_dim_names
        self.axis_names = mesh_dim_names or tuple(f"dim_{axis}" for axis in range(len(mesh_shape)))
        self.rank_list = rank_list
        self.rank = rank
        self.groups: Any = None
        self._coordinate = _unravel(rank_list.index(rank), mesh_shape) if rank in rank_list else None

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
        coordinate = self.own_coordinate()
        stride = math.prod(self.mesh_shape[index + 1 :])
        first = _ravel(coordinate, self.mesh_shape) - coordinate[index] * stride
        return tuple(self.rank_list[first + step * stride] for step in range(self.mesh_shape[index]))

    def get_group(self, axis: int | str) -> Any:
        """Return the platform's handle of those ranks: a process group on torch, the ranks on NumPy."""
        return get_platform().get_group(self, self.axis_index(axis))

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
    shape = _checked_shape(mesh_shape)
    names = _checked_names(mesh_dim_names, shape)
    ranks = _checked_ranks(rank_list, shape)
    if not isinstance(device_type, str):
        raise TypeError(f"device_type should be a str such as 'cpu', but got {device_type!r}")
    if not device_type:
        raise ValueError("device_type should be the name of a device such as 'cpu', but got an empty string")
    if init_backend:
        _check_world(shape, ranks)
        get_platform().init_backend(device_type, get_platform().world_size)
    mesh = _interned(device_type, shape, names, ranks)
    if init_backend and mesh.groups is None:
        mesh.groups = get_platform().create_groups(mesh)
    return mesh


def mesh_of_groups(
    device_type: str, shape: tuple[int, ...], names: tuple[str, ...] | None, ranks: tuple[int, ...], groups: Any
) -> DeviceMesh:
    """Return the mesh of these ranks, for which the platform's communication ``groups`` exist already."""
    mesh = _interned(device_type, shape, names, ranks)
    if mesh.groups is None:
        mesh.groups = groups
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


def _checked_shape(mesh_shape: Sequence[int]) -> tuple[int, ...]:
    shape = _checked_integers("mesh_shape", mesh_shape)
    if not shape or min(shape) < 1:
        raise ValueError(f"mesh_shape should hold at least one extent, each at least 1, but got {shape}")
    return shape


def _checked_names(names: Sequence[str] | None, shape: tuple[int, ...]) -> tuple[str, ...] | None:
    if names is None:
        return None
    if not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"mesh_dim_names should be a tuple of str, but got {names!r}")
    if len(names) != len(shape):
        raise ValueError(f"mesh_dim_names should name the {len(shape)} axes of mesh_shape {shape}, but got {names!r}")
    if len(set(names)) != len(names):
        raise ValueError(f"mesh_dim_names should be different names, but got {names!r}")
    if "" in names or "None" in names:
        raise ValueError(f"an axis should not be called '' or 'None' (which means unsplit in a layout): {names!r}")
    return tuple(names)


def _checked_ranks(rank_list: Sequence[int] | None, shape: tuple[int, ...]) -> tuple[int, ...]:
    count = math.prod(shape)
    if rank_list is None:
        return tuple(range(count))
    ranks = _checked_integers("rank_list", rank_list)
    if len(ranks) != count:
        raise ValueError(
            f"rank_list should hold the {count} ranks of mesh_shape {shape}, but got {len(ranks)}: {ranks}"
        )
    if min(ranks) < 0 or len(set(ranks)) != len(ranks):
        raise ValueError(f"rank_list should hold different ranks from 0 on, but got {ranks}")
    return ranks


def _checked_integers(what: str, values: Sequence[int]) -> tuple[int, ...]:
    if not isinstance(values, tuple | list):
        raise TypeError(f"{what} should be a tuple of int, but got {values!r} ({type(values).__name__})")
    if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        raise TypeError(f"{what} should hold int only, but got {values!r}")
    return tuple(values)


def _check_world(shape: tuple[int, ...], ranks: tuple[int, ...]) -> None:
    world_size = get_platform().world_size
    if len(ranks) != world_size:
        raise ValueError(
            f"a mesh of shape {shape} has {len(ranks)} ranks, but the world has {world_size}; start as many ranks as "
            "the mesh has, or give init_backend=False for a mesh that only describes layouts"
        )
    if max(ranks) >= world_size:
        raise ValueError(f"rank_list should hold the ranks 0..{world_size - 1} of the world, but got {ranks}")


def _unravel(position: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    coordinate = []
    for extent in reversed(shape):
        position, index = divmod(position, extent)
        coordinate.append(index)
    return tuple(reversed(coordinate))


def _ravel(coordinate: tuple[int, ...], shape: tuple[int, ...]) -> int:
    position = 0
    for index, extent in zip(coordinate, shape, strict=True):
        position = position * extent + index
    return position
