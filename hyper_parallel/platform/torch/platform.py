# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The torch platform."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch._subclasses.fake_tensor import is_fake

from hyper_parallel.core.dtensor.mesh_geometry import parallel_ranks
from hyper_parallel.platform.environment import number_from_environment
from hyper_parallel.platform.index import Index
from hyper_parallel.platform.peers import among_ranks
from hyper_parallel.platform.platform import Platform
from hyper_parallel.platform.torch.agreement import check_on_host
from hyper_parallel.platform.torch.dtensor_base import TorchDTensorBase
from hyper_parallel.platform.torch.kernel_source import given_kernel
from hyper_parallel.platform.torch.opaque import opaque

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
    from hyper_parallel.platform.modules import Modules

# The names since torch 2.13, which warns of the older ones.
_all_gather: Any = getattr(functional, "all_gather_single", None) or functional.all_gather_tensor
_reduce_scatter: Any = getattr(functional, "reduce_scatter_single", None) or functional.reduce_scatter_tensor
_BACKENDS = {"cpu": "gloo", "cuda": "nccl", "npu": "hccl"}


class TorchPlatform(Platform):
    """Tensors, autograd and process groups of torch."""

    name: ClassVar[str] = "torch"
    Function: ClassVar[type] = torch.autograd.Function
    DTensorBase: ClassVar[type] = TorchDTensorBase
    symbolic_integers: ClassVar[tuple[type, ...]] = (torch.SymInt,)

    @property
    def custom_ops(self) -> Any:
        operators: type = self._from_custom_ops("custom_ops", "TorchCustomOps")
        return operators

    @cached_property
    def modules(self) -> Modules:
        from hyper_parallel.platform.torch.modules import TorchModules

        return TorchModules()

    def load_kernel(self, op_name: str) -> Callable[..., Any]:
        return given_kernel() or super().load_kernel(op_name)

    def get_op_name(self, func: Any) -> str:
        if isinstance(func, torch._ops.OpOverload):
            func = func.overloadpacket
        return super().get_op_name(func)

    def is_foreign(self, kind: type) -> bool:
        return _is_dtensor_of_torch(kind)

    def apply_to_foreign(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from hyper_parallel.platform.torch.torch_dtensor import apply_to_torch_dtensors

        return apply_to_torch_dtensors(function, args, kwargs)

    def called_function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function.forward if isinstance(function, torch.nn.Module) else function

    @property
    def records_backward(self) -> bool:
        return torch.is_grad_enabled()

    def is_tensor(self, value: object) -> bool:
        kind = type(value)
        return kind is torch.Tensor or (issubclass(kind, torch.Tensor) and not _is_dtensor_of_torch(kind))

    def dtype_name(self, value: Any) -> str:
        return str(value.dtype).removeprefix("torch.")

    def uncompiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        # What torch.compiler.disable does, without a wrapper's cost in every call and without importing the compiler:
        # a traced caller breaks its graph here, and the function's own frames, with all below, are not traced.
        function._torchdynamo_disable = True  # type: ignore[attr-defined]
        function._torchdynamo_disable_msg = "operators run as they are"  # type: ignore[attr-defined]
        frames: Any = torch._C._dynamo.eval_frame
        if hasattr(frames, "set_code_exec_strategy"):  # torch 2.7 and later
            skip = frames._FrameAction.SKIP
            frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))
        return function

    def described(self, tensor: Any) -> tuple[Any, ...]:
        return (tensor.dtype, tensor.device)

    def is_on_host(self, tensor: Any) -> bool:
        on_host: bool = tensor.device.type in ("cpu", "meta")  # a meta tensor is whatever a kernel takes
        return on_host

    def has_values(self, tensor: Any) -> bool:
        return not (tensor.is_meta or is_fake(tensor))

    def narrow(self, tensor: Any, dim: int, start: int, length: int) -> Any:
        return tensor.narrow(dim, start, length)

    def take(self, tensor: Any, dim: int, index: Index) -> Any:
        device = tensor.device
        return tensor.index_select(dim, index.tensor(device, lambda places: _constant(places, device), torch.Tensor))

    def concatenate(self, tensors: Sequence[Any], dim: int) -> Any:
        return torch.cat([*tensors], dim)

    def combine(self, first: Any, second: Any, op: str) -> Any:
        if op == "sum":
            return first + second
        return torch.maximum(first, second) if op == "max" else torch.minimum(first, second)

    def scaled(self, tensor: Any, factor: Any) -> Any:
        message = "a gradient that the forward kernel has computed has no derivative of its own"
        return opaque(message, ((tensor * factor.detach().reshape(())).to(tensor.dtype),), factor)[0]

    def integer_tensor(self, values: Any, dtype: str, like: Any) -> Any:
        return torch.as_tensor(values, dtype=getattr(torch, dtype), device=like.device)

    def zeros_like(self, tensor: Any) -> Any:
        return torch.zeros_like(tensor)

    def zeros(self, shape: tuple[int, ...], like: Any) -> Any:
        return like.new_zeros(shape)

    @property
    def rank(self) -> int:
        return dist.get_rank() if _is_initialized() else number_from_environment("RANK", 0)

    @property
    def world_size(self) -> int:
        return dist.get_world_size() if _is_initialized() else number_from_environment("WORLD_SIZE", 1)

    @property
    def session(self) -> object:
        # Process groups end with the default group that they were made under.
        return dist.group.WORLD if _is_initialized() else None

    def init_backend(self, device_type: str, world_size: int) -> None:
        if device_type not in _BACKENDS:
            raise ValueError(f"device_type on torch should be one of {', '.join(_BACKENDS)}, but got {device_type!r}")
        if _is_initialized():
            return
        backend = _BACKENDS[device_type]
        missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
        if not missing:
            dist.init_process_group(backend)
        elif world_size == 1:
            store = dist.HashStore()  # type: ignore[attr-defined]
            dist.init_process_group(backend, store=store, rank=0, world_size=1)
        else:
            raise RuntimeError(
                f"the environment variables {', '.join(missing)} are not set, so the {world_size} ranks cannot find "
                "each other; start the ranks with torchrun, or call torch.distributed.init_process_group first"
            )

    def create_groups(self, mesh: DeviceMesh) -> Sequence[Any]:
        ranks = torch.tensor(mesh.rank_list, dtype=torch.int).reshape(mesh.mesh_shape)
        of_torch = dist.device_mesh.DeviceMesh(mesh.device_type, ranks, mesh_dim_names=mesh.mesh_dim_names)
        return [of_torch.get_group(axis) for axis in range(mesh.ndim)]

    def create_merged_group(self, mesh: DeviceMesh, axes: tuple[int, ...]) -> Any:
        groups = list(parallel_ranks(mesh.mesh_shape, mesh.rank_list, axes))
        if len(groups) == 1:
            return dist.group.WORLD
        # torch wants every group of the world made on every rank, in one order.
        make: Any = dist.new_subgroups_by_enumeration
        return make([list(ranks) for ranks in groups])[0]

    def get_group(self, mesh: DeviceMesh, axis: int) -> Any:
        groups = mesh.groups
        if groups is None:
            raise ValueError(
                f"{mesh} was made with init_backend=False and only describes layouts; communication needs a mesh from "
                "init_device_mesh(...) with init_backend=True, made on every rank"
            )
        if groups[axis] is None:
            raise ValueError(f"{mesh} was flattened before there was communication: call flatten again, on every rank")
        return groups[axis]

    def all_reduce(self, tensor: Any, op: str, mesh: DeviceMesh, axis: int) -> Any:
        self.check_reducible(tensor, op)
        with self._collective(f"all_reduce({op})", tensor, mesh, axis) as group:
            if tensor.dtype == torch.bool:  # not every backend reduces bool
                return _finished(functional.all_reduce(tensor.to(torch.uint8), op, group)).to(torch.bool)
            # An average is a sum divided here: gloo has none of its own.
            total = _finished(functional.all_reduce(tensor, "sum" if op == "avg" else op, group))
        return total / mesh.mesh_shape[axis] if op == "avg" else total

    def all_gather(self, tensor: Any, dim: int, mesh: DeviceMesh, axis: int) -> Any:
        with self._collective(f"all_gather(dim={dim})", tensor, mesh, axis) as group:
            gathered = _finished(_all_gather(tensor.contiguous(), dim, group))
        ranks = mesh.get_rank_list_along_axis(axis)
        ascending = sorted(ranks)
        if list(ranks) == ascending:
            return gathered
        # torch keeps the ranks of a group in ascending order, whatever order the mesh has.
        parts = gathered.tensor_split(len(ranks), dim)
        return torch.cat([parts[ascending.index(rank)] for rank in ranks], dim)

    def reduce_scatter(self, tensor: Any, op: str, dim: int, mesh: DeviceMesh, axis: int) -> Any:
        self.check_reducible(tensor, op)
        ranks = mesh.get_rank_list_along_axis(axis)
        ascending = sorted(ranks)  # as in a group of torch
        with self._collective(f"reduce_scatter({op}, dim={dim})", tensor, mesh, axis) as group:
            if list(ranks) != ascending:
                chunks = tensor.tensor_split(len(ranks), dim)
                tensor = torch.cat([chunks[ranks.index(rank)] for rank in ascending], dim)
            total = _finished(_reduce_scatter(tensor.contiguous(), "sum", dim, group))
        return total / len(ranks) if op == "avg" else total

    def all_to_all(self, tensor: Any, split_dim: int, concat_dim: int, mesh: DeviceMesh, axis: int) -> Any:
        ranks = mesh.get_rank_list_along_axis(axis)
        ascending = sorted(ranks)  # as in a group of torch
        with self._collective(f"all_to_all(dim={concat_dim} to {split_dim})", tensor, mesh, axis) as group:
            chunks = tensor.tensor_split(len(ranks), split_dim)
            sent = torch.stack([chunks[ranks.index(rank)] for rank in ascending])
            received = _finished(functional.all_to_all_single(sent, None, None, group))
        return torch.cat([received[ascending.index(rank)] for rank in ranks], concat_dim)

    @contextmanager
    def _collective(self, what: str, tensor: Any, mesh: DeviceMesh, axis: int) -> Iterator[Any]:
        """The group of a collective, whose ranks agree on it, and which says where it was left alone."""
        group = self.get_group(mesh, axis)
        with among_ranks(what, mesh, axis, self.name):
            check_on_host(what, tensor, group, mesh.get_rank_list_along_axis(axis))
            yield group


def _constant(places: npt.NDArray[np.int64], device: torch.device) -> torch.Tensor:
    """A tensor that calls in any mode may share: one made in inference mode could not be saved for a backward."""
    if torch.is_inference_mode_enabled():
        with torch.inference_mode(False):
            return torch.tensor(places, device=device)
    return torch.tensor(places, device=device)


@lru_cache(maxsize=512)
def _is_dtensor_of_torch(kind: type) -> bool:
    # Nobody has one without this module, which need not be loaded for the question.
    own = getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)
    return own is not None and issubclass(kind, own)


def _finished(pending: Any) -> Any:
    """Wait for a collective and return its result as a plain tensor, which kernels can read."""
    wait: Any = functional.wait_tensor
    return wait(pending)


def _is_initialized() -> bool:
    return dist.is_available() and dist.is_initialized()
