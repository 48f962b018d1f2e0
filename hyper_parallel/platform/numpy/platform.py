# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The NumPy platform."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import autograd.numpy as anp
import numpy as np
from autograd.tracer import Box, getval, isbox

from hyper_parallel.platform.dtensor_base import DTensorBase
from hyper_parallel.platform.index import Index
from hyper_parallel.platform.numpy.function import Function
from hyper_parallel.platform.numpy.virtual_ranks import current_world
from hyper_parallel.platform.peers import check_agreement, collective_facts
from hyper_parallel.platform.platform import Platform
from hyper_parallel.platform.reduction import reduce_arrays

if TYPE_CHECKING:
    from hyper_parallel.core.dtensor.device_mesh import DeviceMesh


class NumpyPlatform(Platform):
    """NumPy arrays, the ``autograd`` package, and the virtual ranks of ``run_ranks``."""

    name: ClassVar[str] = "numpy"
    Function: ClassVar[type] = Function
    DTensorBase: ClassVar[type] = DTensorBase

    @property
    def custom_ops(self) -> Any:
        operators: type = self._from_custom_ops("custom_ops", "NumpyCustomOps")
        return operators

    def is_tensor(self, value: object) -> bool:
        return isinstance(value, np.ndarray) or (isinstance(value, Box) and isinstance(value._value, np.ndarray | Box))

    def as_tensor(self, value: Any) -> Any:
        # What a sum over all elements gives is a scalar of NumPy.
        if isinstance(getval(value), np.generic):
            return anp.array(value)
        return super().as_tensor(value)

    def dtype_name(self, value: Any) -> str:
        return _dtype_name(value.dtype)

    def is_on_host(self, tensor: Any) -> bool:  # noqa: ARG002 - NumPy knows no other place
        return True

    def narrow(self, tensor: Any, dim: int, start: int, length: int) -> Any:
        return tensor[(slice(None),) * (dim % tensor.ndim) + (slice(start, start + length),)]

    def take(self, tensor: Any, dim: int, index: Index) -> Any:
        return tensor[(slice(None),) * (dim % tensor.ndim) + (index.places,)]

    def concatenate(self, tensors: Sequence[Any], dim: int) -> Any:
        return anp.concatenate(tensors, axis=dim)

    def combine(self, first: Any, second: Any, op: str) -> Any:
        return first + second if op == "sum" else {"max": anp.maximum, "min": anp.minimum}[op](first, second)

    def scaled(self, tensor: Any, factor: Any) -> Any:
        return (tensor * factor.reshape(-1)[0]).astype(tensor.dtype)

    def integer_tensor(self, values: Any, dtype: str, like: Any) -> Any:  # noqa: ARG002 - there is one device
        return np.asarray(values, dtype)

    def zeros_like(self, tensor: Any) -> Any:
        return np.zeros(tensor.shape, tensor.dtype)

    def zeros(self, shape: tuple[int, ...], like: Any) -> Any:
        return np.zeros(shape, like.dtype)

    @property
    def rank(self) -> int:
        return current_world()[1]

    @property
    def world_size(self) -> int:
        return current_world()[0].size

    def init_backend(self, device_type: str, world_size: int) -> None:  # noqa: ARG002 - run_ranks has made the world
        if device_type != "cpu":
            raise ValueError(f"device_type on the NumPy platform should be 'cpu', but got {device_type!r}")

    def get_group(self, mesh: DeviceMesh, axis: int) -> tuple[int, ...]:
        return mesh.get_rank_list_along_axis(axis)

    def all_reduce(self, tensor: Any, op: str, mesh: DeviceMesh, axis: int) -> Any:
        self.check_reducible(tensor, op)
        parts = _exchange(tensor, mesh, axis, f"all_reduce({op})")
        return reduce_arrays(parts, op)

    def reduce_scatter(self, tensor: Any, op: str, dim: int, mesh: DeviceMesh, axis: int) -> Any:
        self.check_reducible(tensor, op)
        parts = _exchange(tensor, mesh, axis, f"reduce_scatter({op}, dim={dim})")
        length = tensor.shape[dim] // len(parts)
        start = mesh.get_local_rank(axis) * length
        return reduce_arrays([self.narrow(part, dim, start, length) for part in parts], op)

    def all_gather(self, tensor: Any, dim: int, mesh: DeviceMesh, axis: int) -> Any:
        return np.concatenate(_exchange(tensor, mesh, axis, f"all_gather(dim={dim})"), axis=dim)


@lru_cache(maxsize=256)
def _dtype_name(dtype: Any) -> str:
    return np.dtype(dtype).name  # put together by NumPy on every call


def _exchange(tensor: Any, mesh: DeviceMesh, axis: int, what: str) -> list[Any]:
    """Return the tensors of all ranks along the axis; raise on every one of them if they do not match."""
    if isbox(tensor):
        raise TypeError(f"{what} has no gradient by itself: differentiate DTensor.redistribute, which has one")
    mesh.check_current_rank()
    ranks = mesh.get_rank_list_along_axis(axis)
    world, rank = current_world()
    if max(ranks) >= world.size:
        raise ValueError(
            f"{what} over the ranks {ranks} of {mesh} needs them all, but the world has {world.size}; "
            "run it inside run_ranks, on a mesh made there"
        )
    where = f"{what} over mesh axis {mesh.axis_names[axis]!r}"
    # A copy, since the caller may change its tensor while slower ranks still read.
    brought = world.exchange(ranks, rank, (what, np.array(tensor)), where)
    facts = [collective_facts(call, array.shape, _dtype_name(array.dtype)) for call, array in brought]
    check_agreement(where, ranks, facts)
    return [array for _, array in brought]
