# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Distributed tensors: this rank's part of a tensor, and the layout of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.dtensor.placement_types import Placement, Replicate
from hyper_parallel.core.shard.rank_check import RANK_CHECK, compare_tensors
from hyper_parallel.platform import get_platform
from hyper_parallel.platform.tensor_origin import is_from_elsewhere, what_it_is

if TYPE_CHECKING:
    from hyper_parallel.platform.dtensor_base import DTensorBase
else:
    DTensorBase = get_platform().DTensorBase


class DTensor(DTensorBase):
    """A tensor distributed over a mesh. Made by ``from_local`` or ``distribute_tensor``; immutable.

    It goes into operators registered with hyper_parallel, and only there. Gradients do not flow through the object:
    they arrive at the local tensors it was made from.
    """

    __slots__ = ()

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        raise TypeError("make a DTensor with DTensor.from_local(local, mesh, placements) or distribute_tensor")

    @classmethod
    def from_local(
        cls,
        local: Any,
        mesh: DeviceMesh,
        placements: Sequence[Placement],
        *,
        shape: Sequence[int] | None = None,
    ) -> DTensor:
        """Return the DTensor of which this rank holds ``local``. Every rank's part has the same shape.

        Args:
            local: a tensor of the framework.
            mesh: the mesh, made on this rank.
            placements: one placement per mesh axis.
            shape: the shape of the whole tensor. It follows from the local one; given, it is checked, so that parts of
                different extents (uneven shards, which are not supported) are found.

        Raises:
            TypeError: ``local`` is not a tensor of the framework.
            ValueError: placements that do not fit, a rank outside of the mesh, a shape that does not agree.
        """
        check_plain_tensor(local, "DTensor.from_local")
        layout = Layout.from_placements(mesh, placements, local.ndim)
        mesh.check_current_rank()
        result = cls.from_layout(local, layout)
        if shape is not None:
            check_shape(layout, tuple(shape), tuple(local.shape))
        return result

    def to_local(self) -> Any:
        """Return this rank's part, the very tensor that is held (on MindSpore a new object on the same memory)."""
        return self._local

    @property
    def layout(self) -> Layout:
        """The layout, interned: equal layouts are the same object."""
        return self._layout

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh."""
        return self._layout._mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """The placement on every mesh axis."""
        return self._layout._placements

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole tensor."""
        if self._global_shape is None:
            self._global_shape = self._layout.get_global_shape(self._local.shape)
        return self._global_shape

    @property
    def local_shape(self) -> tuple[int, ...]:
        """The shape of this rank's part."""
        return tuple(self._local.shape)

    @property
    def dtype(self) -> Any:
        """The framework's dtype."""
        return self._local.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._layout.ndim

    def redistribute(
        self,
        mesh: DeviceMesh,
        placements: Sequence[Placement],
        *,
        grad_placements: Sequence[Placement] | None = None,
    ) -> DTensor:
        """Return the same tensor with other placements on the same mesh. Called on every rank of the mesh.

        Shards are gathered and cut, pending reductions carried out; nothing is communicated that need not be.

        Args:
            mesh: the mesh of this tensor.
            placements: those of the result, one per mesh axis.
            grad_placements: how ranks hold the gradient of the result, one per mesh axis: as the result lies, or
                Partial("sum") where each rank has a share, which the backward adds up. If not given, the gradient of a
                replicated tensor is taken to be the same on every rank. It has to be the same on every rank, and the
                backward to run on every one of them.

        Raises:
            TypeError: grad_placements that are no placements.
            ValueError: another mesh, placements that do not fit, or a dimension that cannot be cut evenly; on the host
                also ranks whose parts differ in shape or dtype.
            RuntimeError: another rank has failed or not come; with ``HYPER_PARALLEL_CHECK_RANKS=1``, ranks whose parts
                or layouts differ.
        """
        from hyper_parallel.core.dtensor.redistribute import gradient_layout, redistribute_local

        if mesh is not self.device_mesh:
            raise ValueError(f"a DTensor stays on its mesh {self.device_mesh}, but got {mesh!r}")
        target = Layout.from_placements(mesh, placements, self.ndim)
        gradient = gradient_layout("redistribute", target, grad_placements)
        if RANK_CHECK.enabled:  # also where this rank has nothing to do: another one may have
            compare_tensors("redistribute", self._local, self._layout, target, gradient)
        if target is self._layout and gradient is None:
            return self
        target.get_local_shape(self.shape)
        return DTensor.from_layout(redistribute_local(self._local, self._layout, target, gradient), target)

    def full_tensor(self) -> Any:
        """Return the whole tensor, on every rank of the mesh. Called on every one of them."""
        return self.redistribute(self.device_mesh, (Replicate(),) * self.device_mesh.ndim).to_local()

    def __repr__(self) -> str:
        return f"DTensor(shape={self.shape}, dtype={get_platform().dtype_name(self._local)}, {self._layout!r})"


def distribute_tensor(tensor: Any, mesh: DeviceMesh, placements: Sequence[Placement]) -> DTensor:
    """Return a DTensor cut from a tensor that every rank holds whole. Nothing is communicated.

    The local part is a view of ``tensor`` where the framework has views.

    Raises:
        TypeError: ``tensor`` is not a tensor of the framework.
        ValueError: a dimension that cannot be cut evenly, a Partial placement, a rank outside of the mesh.
    """
    check_plain_tensor(tensor, "distribute_tensor")
    layout = Layout.from_placements(mesh, placements, tensor.ndim)
    if layout.is_partial():
        raise ValueError(
            f"distribute_tensor takes Shard and Replicate only, but got {layout.placements}: a whole tensor has no "
            "pending reduction; make a Partial one with DTensor.from_local"
        )
    mesh.check_current_rank()
    platform = get_platform()
    local = tensor
    for dim, length in enumerate(layout.get_local_shape(tuple(tensor.shape))):
        if layout.dim_axes(dim):
            local = platform.narrow(local, dim, layout.get_split_id(dim) * length, length)
    return DTensor.from_layout(local, layout)


def check_plain_tensor(value: object, where: str) -> None:
    """Raise TypeError if the value is not a tensor of the framework, or is a DTensor."""
    if isinstance(value, DTensor):
        raise TypeError(f"{where} takes a plain tensor, but got a DTensor; use its redistribute or to_local")
    platform = get_platform()
    if not platform.is_tensor(value):
        if is_from_elsewhere(type(value)):
            raise TypeError(f"{where}: the tensor {what_it_is(value)}")
        raise TypeError(f"{where} takes a tensor of {platform.name}, but got {type(value).__name__}: {value!r}")


def check_shape(layout: Layout, shape: tuple[int, ...], local_shape: tuple[int, ...]) -> None:
    """Raise ValueError if a tensor of this shape cannot be cut evenly, or this rank's part has another shape."""
    expected = layout.get_local_shape(shape)
    if expected != local_shape:
        raise ValueError(
            f"a tensor of shape {shape} with the layout {layout} has parts of shape {expected}, but rank "
            f"{layout.mesh.rank} got one of {local_shape}; uneven shards are not supported: pad the tensor"
        )
