# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The MindSpore platform."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import mindspore as ms
import numpy as np
from mindspore import mint, ops

from hyper_parallel.platform.index import Index
from hyper_parallel.platform.mindspore import collectives
from hyper_parallel.platform.mindspore.dtensor_base import MindSporeDTensorBase
from hyper_parallel.platform.mindspore.function import Function, check_not_recorded
from hyper_parallel.platform.mindspore.graph_mode import refuse_graph_mode
from hyper_parallel.platform.mindspore.host_arrays import to_array, to_tensor
from hyper_parallel.platform.peers import among_ranks
from hyper_parallel.platform.platform import Platform

if TYPE_CHECKING:
    from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
    from hyper_parallel.platform.modules import Modules

# mccl's own words are "AllGather failed".
_WAITING = "mindspore, which waits MS_CPU_COMM_OP_TIMEOUT seconds for a rank on the CPU"


class MindSporePlatform(Platform):
    """Tensors and autograd of MindSpore in PyNative mode, and the ranks of ``mindspore.communication``."""

    name: ClassVar[str] = "mindspore"
    Function: ClassVar[type] = Function
    DTensorBase: ClassVar[type] = MindSporeDTensorBase

    @property
    def custom_ops(self) -> Any:
        operators: type = self._from_custom_ops("custom_ops", "MindSporeCustomOps")
        return operators

    def called_function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function.construct if isinstance(function, ms.nn.Cell) else function

    @cached_property
    def modules(self) -> Modules:
        from hyper_parallel.platform.mindspore.modules import MindSporeModules

        return MindSporeModules()

    def is_tensor(self, value: object) -> bool:
        return isinstance(value, ms.Tensor) and not isinstance(value, MindSporeDTensorBase)

    def dtype_name(self, value: Any) -> str:
        return str(value.dtype).lower()  # "BFloat16"

    def prepare_function(self, function: type) -> None:
        refuse_graph_mode(function)

    def is_on_host(self, tensor: Any) -> bool:  # noqa: ARG002 - operators run on one device, wherever a tensor was made
        return self._target == "CPU"

    @cached_property
    def _target(self) -> str:
        target: str = ms.get_context("device_target")  # takes 15 us
        return target

    def any_nonzero(self, tensor: Any) -> bool:
        return bool(np.any(to_array(tensor) != 0))  # MindSpore does not compare bfloat16 on the CPU

    def narrow(self, tensor: Any, dim: int, start: int, length: int) -> Any:
        return mint.narrow(tensor, dim, start, length)

    def take(self, tensor: Any, dim: int, index: Index) -> Any:
        places = index.tensor(self._target, to_tensor, ms.Tensor)
        if tensor.dtype == ms.bfloat16 and self._target == "CPU":  # has no such kernel; float32 holds every value
            return ops.gather(tensor.astype(ms.float32), places, dim).astype(ms.bfloat16)
        return ops.gather(tensor, places, dim)

    def concatenate(self, tensors: Sequence[Any], dim: int) -> Any:
        return mint.cat([*tensors], dim)

    def combine(self, first: Any, second: Any, op: str) -> Any:
        if first.dtype == ms.bfloat16 and self._target == "CPU":  # rounded once, as the sum of two is anyway
            wide = self.combine(first.astype(ms.float32), second.astype(ms.float32), op)
            return wide.astype(ms.bfloat16)
        return {"sum": mint.add, "max": mint.maximum, "min": mint.minimum}[op](first, second)

    def scaled(self, tensor: Any, factor: Any) -> Any:
        # Rounded once; and not every pair of dtypes has a product on the CPU.
        wide = ms.float32 if tensor.dtype in (ms.float16, ms.bfloat16) else tensor.dtype
        return (tensor.astype(wide) * factor.reshape(()).astype(wide)).astype(tensor.dtype)

    def integer_tensor(self, values: Any, dtype: str, like: Any) -> Any:  # noqa: ARG002 - there is one device
        return to_tensor(np.asarray(to_array(values), dtype))

    def zeros_like(self, tensor: Any) -> Any:
        return ops.zeros_like(tensor)  # mint's does not take bfloat16 on the CPU

    def zeros(self, shape: tuple[int, ...], like: Any) -> Any:
        return ops.zeros(shape, like.dtype)

    @property
    def rank(self) -> int:
        return collectives.rank()

    @property
    def world_size(self) -> int:
        return collectives.world_size()

    @property
    def session(self) -> object:
        return collectives.is_initialized()

    def init_backend(self, device_type: str, world_size: int) -> None:
        collectives.init_backend(device_type, world_size)

    def create_groups(self, mesh: DeviceMesh) -> tuple[str, ...]:
        return collectives.create_groups(mesh)

    def create_merged_group(self, mesh: DeviceMesh, axes: tuple[int, ...]) -> str:
        return collectives.create_merged_group(mesh, axes)

    def get_group(self, mesh: DeviceMesh, axis: int) -> str:
        groups = mesh.groups
        if groups is None:
            raise ValueError(
                f"{mesh} was made with init_backend=False and only describes layouts; communication needs a mesh from "
                "init_device_mesh(...) with init_backend=True, made on every rank"
            )
        group: str | None = groups[axis]
        if group is None:
            raise ValueError(f"{mesh} was flattened before there was communication: call flatten again, on every rank")
        return group

    def all_reduce(self, tensor: Any, op: str, mesh: DeviceMesh, axis: int) -> Any:
        self.check_reducible(tensor, op)
        with self._collective(f"all_reduce({op})", tensor, mesh, axis) as (group, ranks):
            return collectives.all_reduce(tensor, op, group, ranks)

    def all_gather(self, tensor: Any, dim: int, mesh: DeviceMesh, axis: int) -> Any:
        with self._collective(f"all_gather(dim={dim})", tensor, mesh, axis) as (group, ranks):
            return collectives.all_gather(tensor, dim, group, ranks)

    @contextmanager
    def _collective(self, what: str, tensor: Any, mesh: DeviceMesh, axis: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """The group and ranks of a collective, which says where it was left alone."""
        check_not_recorded(f"an {what.partition('(')[0]}", (tensor,))
        tensor.shape  # noqa: B018 - waits for the tensor, whose failure is not that of another rank
        group = self.get_group(mesh, axis)
        with among_ranks(what, mesh, axis, _WAITING):
            yield group, mesh.get_rank_list_along_axis(axis)
