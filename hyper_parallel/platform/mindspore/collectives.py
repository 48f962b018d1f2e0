# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Ranks, groups and collectives of ``mindspore.communication``: mccl on the CPU, hccl on Ascend.

mccl's reduction does not take float64, uint8 and bool, its gather of a list not int16 and bool, and no other works.
So on the CPU every collective is a gather of bytes, and reductions are carried out on each rank, in the order of the
ranks: their results are those of the NumPy platform, bit for bit.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

import mindspore as ms
import numpy as np
from mindspore import communication, mint
from mindspore.communication import GlobalComm
from mindspore.mint import distributed

from hyper_parallel.core.dtensor.mesh_geometry import ranks_through
from hyper_parallel.platform.environment import number_from_environment
from hyper_parallel.platform.mindspore.host_arrays import to_array, to_tensor
from hyper_parallel.platform.peers import check_agreement, collective_facts
from hyper_parallel.platform.reduction import reduce_arrays

if TYPE_CHECKING:
    from hyper_parallel.core.dtensor.device_mesh import DeviceMesh

_BACKENDS = {"cpu": "mccl", "npu": "hccl"}
_LAUNCHER = ("MS_ROLE", "MS_WORKER_NUM", "MS_SCHED_HOST", "MS_SCHED_PORT")
_FACTS_BYTES = 256
_created: set[str] = set()


def is_initialized() -> bool:
    """Return whether communication has been started."""
    started: bool = GlobalComm.INITED
    return started


def rank() -> int:
    """Return the number of this rank, before communication is started from the launcher's environment."""
    if is_initialized():
        number: int = communication.get_rank()
        return number
    return number_from_environment("MS_NODE_ID", 0)


def world_size() -> int:
    """Return the number of ranks."""
    if is_initialized():
        number: int = communication.get_group_size()
        return number
    return number_from_environment("MS_WORKER_NUM", 1)


def init_backend(device_type: str, size: int) -> None:
    """Start communication between ``size`` ranks. A single rank needs none."""
    if device_type not in _BACKENDS:
        raise ValueError(f"device_type on MindSpore should be one of {', '.join(_BACKENDS)}, but got {device_type!r}")
    if is_initialized() or size == 1:
        return
    missing = [name for name in _LAUNCHER if not os.environ.get(name)]
    if missing:
        raise RuntimeError(
            f"the environment variables {', '.join(missing)} are not set, so the {size} ranks cannot find each other; "
            "start the ranks with msrun, or call mindspore.communication.init first"
        )
    communication.init(_BACKENDS[device_type])


def create_groups(mesh: DeviceMesh) -> tuple[str, ...]:
    """Create this rank's groups along the axes of a mesh and return their names, empty for an axis of one rank."""
    return tuple(_create_group(tuple(sorted(mesh.get_rank_list_along_axis(axis)))) for axis in range(mesh.ndim))


def create_merged_group(mesh: DeviceMesh, axes: tuple[int, ...]) -> str:
    """Create this rank's group along several axes together and return its name."""
    return _create_group(tuple(sorted(ranks_through(mesh.own_coordinate(), mesh.mesh_shape, mesh.rank_list, axes))))


def _create_group(ranks: tuple[int, ...]) -> str:
    if len(ranks) == 1:
        return ""
    listed = ",".join(str(member) for member in ranks)
    name = f"hyper_parallel_{hashlib.sha256(listed.encode()).hexdigest()[:16]}"
    if name not in _created:
        communication.create_group(name, list(ranks))
        _created.add(name)
    return name


def all_gather(tensor: Any, dim: int, group: str, ranks: tuple[int, ...]) -> Any:
    """Return the concatenation along ``dim`` of the tensors of ``ranks``, in that order."""
    if len(ranks) == 1:
        return tensor
    if GlobalComm.BACKEND == "mccl":
        return to_tensor(np.concatenate(_exchange(tensor, f"all_gather(dim={dim})", group, ranks), axis=dim))
    return mint.cat(_in_order(_gathered(tensor.contiguous(), group, len(ranks)), ranks), dim)


def all_reduce(tensor: Any, op: str, group: str, ranks: tuple[int, ...]) -> Any:
    """Return the elementwise sum, avg, max or min of the tensors of ``ranks``."""
    if len(ranks) == 1:
        return tensor
    if GlobalComm.BACKEND == "mccl":
        return to_tensor(reduce_arrays(_exchange(tensor, f"all_reduce({op})", group, ranks), op))
    # hccl reduces in place, has no average, and does not take bool.
    total = tensor.astype(ms.int32) if tensor.dtype == ms.bool_ else tensor.copy()
    distributed.all_reduce(total, "sum" if op == "avg" else op, group)
    return (total / len(ranks) if op == "avg" else total).astype(tensor.dtype)


def _gathered(tensor: Any, group: str, count: int) -> list[Any]:
    """Return the tensors of the ranks of a group, in ascending order of the ranks."""
    parts = [mint.empty_like(tensor) for _ in range(count)]
    distributed.all_gather(parts, tensor, group)
    return parts


def _in_order(parts: list[Any], ranks: tuple[int, ...]) -> list[Any]:
    """Return what the ranks have brought in the order of ``ranks``; groups keep them in ascending order."""
    ascending = sorted(ranks)
    return [parts[ascending.index(member)] for member in ranks]


def _exchange(tensor: Any, what: str, group: str, ranks: tuple[int, ...]) -> list[Any]:
    """Return the arrays of all ranks, in the order of ``ranks``; raise on every rank if they do not match."""
    array = np.ascontiguousarray(to_array(tensor)).reshape(tensor.shape)
    # mccl does not compare sizes: one rank fails, the others go on with what happens to lie in memory.
    own = collective_facts(what, array.shape, array.dtype.name).encode()[:_FACTS_BYTES].ljust(_FACTS_BYTES)
    found = _in_order(_gather_arrays(np.frombuffer(own, np.int8), group, len(ranks)), ranks)
    check_agreement(what, ranks, [bytes(fact.view(np.uint8)).decode().rstrip() for fact in found])
    if array.size == 0:
        return [array] * len(ranks)
    parts = _gather_arrays(array.reshape(-1).view(np.int8), group, len(ranks))
    return _in_order([part.view(array.dtype).reshape(array.shape) for part in parts], ranks)


def _gather_arrays(array: Any, group: str, count: int) -> list[Any]:
    parts = [to_tensor(np.zeros_like(array)) for _ in range(count)]
    distributed.all_gather(parts, to_tensor(array), group)
    return [part.asnumpy() for part in parts]
