# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Operators on torch's own DTensors: the same layout rule, torch DTensors out, torch DTensors as gradients.

Imported on the first such call only: whoever does not use ``torch.distributed.tensor`` does not pay for it.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
import torch.distributed._functional_collectives as functional
import torch.distributed.tensor as torch_tensor
from torch.distributed.tensor.placement_types import _StridedShard

from hyper_parallel.core.dtensor.device_mesh import DeviceMesh, mesh_of_groups
from hyper_parallel.core.dtensor.dtensor import DTensor, check_shape
from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.dtensor.placement_types import Partial, Placement, Replicate, Shard, StridedShard
from hyper_parallel.core.shard.ops.parallel_ops_register import get_distributed_op
from hyper_parallel.platform import get_platform

TorchDTensor = torch_tensor.DTensor

_MESHES: weakref.WeakKeyDictionary[Any, tuple[object, DeviceMesh]] = weakref.WeakKeyDictionary()


def apply_to_torch_dtensors(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a DFunction of which some arguments are torch DTensors, and return torch DTensors on their mesh.

    The gradient of an input is a torch DTensor with the placements of ``DistributedOp.grad_layouts``: Partial(sum)
    where the ranks' parts are still to be added up. ``full_tensor()`` or ``redistribute`` adds them.

    Raises:
        TypeError: torch's DTensors together with those of hyper_parallel, or with plain tensors.
        ValueError: uneven shards, placements that have no equal here, or layouts that the operator does not take.
    """
    names = _parameters(function.forward)
    given = {names[place] if place < len(names) else f"argument {place}": value for place, value in enumerate(args)}
    if repeated := given.keys() & kwargs.keys():
        raise TypeError(f"For {function._op_name}, {', '.join(repeated)} should be given once, but got it twice.")
    given |= kwargs
    torch_mesh = next(value.device_mesh for value in given.values() if isinstance(value, TorchDTensor))
    adopted = {name: _adopted(function, name, value) for name, value in given.items()}

    def call(target: Callable[..., Any]) -> Any:
        values = list(adopted.values())
        return target(*values[: len(args)], **{name: adopted[name] for name in kwargs})

    traced = [name for name, value in given.items() if isinstance(value, TorchDTensor) and value.requires_grad]
    op = get_distributed_op(function._op_name) if traced and torch.is_grad_enabled() and function._op_name else None
    if op is not None:
        gradients = call(op.grad_layouts)
        for name in traced:
            adopted[name] = _traced(op.op_name, name, given[name], adopted[name].layout, gradients.get(name))
    outputs = call(function.apply)
    if isinstance(outputs, tuple):
        return tuple(_released(output, torch_mesh) for output in outputs)
    return _released(outputs, torch_mesh)


@lru_cache(maxsize=1024)
def _parameters(forward: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(forward).parameters)[1:]


def _adopted(function: Any, name: str, value: Any) -> Any:
    """A torch DTensor as one of ours, detached; anything else as it is."""
    if isinstance(value, DTensor):
        raise TypeError(
            f"For {function._op_name}, {name} is a hyper_parallel DTensor but another argument is a DTensor of "
            "torch.distributed.tensor: give DTensors of one kind."
        )
    if not isinstance(value, TorchDTensor):
        return value
    mesh = _mesh_of(value.device_mesh)
    mesh.own_coordinate()
    where = f"For {function._op_name}, {name}"
    placements = tuple(_placement_from_torch(where, placement) for placement in value.placements)
    _check_shard_order(where, value)
    layout = Layout.from_placements(mesh, placements, value.ndim)
    with torch.no_grad():
        local = _finished(value.to_local())
    try:
        check_shape(layout, tuple(value.shape), tuple(local.shape))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    return DTensor.from_layout(local, layout)


def _traced(op: str, name: str, value: Any, layout: Layout, gradient: Layout | None) -> DTensor:
    """A torch DTensor as one of ours whose gradient comes back as a torch DTensor."""
    if gradient is None:
        raise ValueError(f"For {op}, {name} has no gradient of a known layout. Detach it.")
    placements = [_placement_to_torch(placement) for placement in gradient.placements]
    local = value.to_local(grad_placements=placements)
    if isinstance(local, functional.AsyncCollectiveTensor):
        local = _Finished.apply(local)  # type: ignore[no-untyped-call]
    return DTensor.from_layout(local, layout)


class _Finished(torch.autograd.Function):
    """A pending tensor waited for: ``wait`` alone would cut it off from its history."""

    @staticmethod
    def forward(ctx: Any, pending: Any) -> Any:  # noqa: ARG004 - what autograd passes
        return _finished(pending)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:  # noqa: ARG004
        return grad


def _finished(local: Any) -> Any:
    """A local tensor that kernels can read: one that a collective still fills is waited for."""
    return local.wait() if isinstance(local, functional.AsyncCollectiveTensor) else local


def _released(output: Any, torch_mesh: Any) -> Any:
    """One of our DTensors as a torch DTensor."""
    if not isinstance(output, DTensor):
        return output
    placements = [_placement_to_torch(placement) for placement in output.placements]
    return TorchDTensor.from_local(output.to_local(), torch_mesh, placements, run_check=False)


def _mesh_of(torch_mesh: Any) -> DeviceMesh:
    """The mesh of the same ranks and names, on the process groups of torch's mesh."""
    session = get_platform().session
    kept = _MESHES.get(torch_mesh)
    if kept is None or kept[0] is not session:
        names = torch_mesh.mesh_dim_names
        ranks: Sequence[int] = torch_mesh.mesh.flatten().tolist()
        mesh = mesh_of_groups(
            torch_mesh.device_type,
            tuple(torch_mesh.shape),
            tuple(names) if names else None,
            tuple(ranks),
            torch_mesh.get_all_groups(),
        )
        kept = _MESHES[torch_mesh] = (session, mesh)
    return kept[1]


def _placement_from_torch(where: str, placement: Any) -> Placement:
    kind = type(placement)
    if kind is torch_tensor.Shard:
        return Shard(placement.dim)
    if kind is torch_tensor.Replicate:
        return Replicate()
    if kind is torch_tensor.Partial and placement.reduce_op in ("sum", "avg", "max", "min"):
        return Partial(placement.reduce_op)
    if kind is _StridedShard:
        return StridedShard(placement.dim, int(placement.split_factor))
    raise ValueError(f"{where} should be Shard, Replicate or Partial of sum, avg, max or min, but got {placement}.")


def _placement_to_torch(placement: Placement) -> Any:
    if isinstance(placement, StridedShard):
        return _StridedShard(placement.dim, split_factor=placement.split_factor)
    if isinstance(placement, Shard):
        return torch_tensor.Shard(placement.dim)
    if isinstance(placement, Partial):
        return torch_tensor.Partial(placement.reduce_op)
    return torch_tensor.Replicate()


def _check_shard_order(where: str, value: Any) -> None:
    """Refuse what the placements alone do not tell: several Shard of one dim in another order than the mesh's."""
    for entry in getattr(value._spec, "shard_order", None) or ():
        if list(entry.mesh_dims) != sorted(entry.mesh_dims):
            raise ValueError(
                f"{where} shards dim {entry.tensor_dim} over the mesh axes {tuple(entry.mesh_dims)} in that order; "
                "redistribute it so that the left axis makes the outer cut."
            )
