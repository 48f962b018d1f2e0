# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Distributed custom operators: meshes, layouts, DTensors and the operators generated from ``specs/``.

Importing this package loads neither a framework nor the operator library: names are resolved on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hyper_parallel.core.dtensor.device_mesh import DeviceMesh, init_device_mesh
    from hyper_parallel.core.dtensor.dtensor import DTensor, distribute_tensor
    from hyper_parallel.core.dtensor.layout import Layout
    from hyper_parallel.core.dtensor.placement_types import Partial, Replicate, Shard, StridedShard
    from hyper_parallel.core.shard.dispatch_switch import (
        disable_dtensor_dispatch,
        dtensor_dispatch,
        enable_dtensor_dispatch,
    )
    from hyper_parallel.core.shard.gradients import reduce_gradient
    from hyper_parallel.distributed._builder.local_region import local_region
    from hyper_parallel.platform import get_platform

    from . import context_parallel, custom_ops, distributed

__all__ = [
    "DTensor",
    "DeviceMesh",
    "Layout",
    "Partial",
    "Replicate",
    "Shard",
    "StridedShard",
    "context_parallel",
    "custom_ops",
    "disable_dtensor_dispatch",
    "distribute_tensor",
    "distributed",
    "dtensor_dispatch",
    "enable_dtensor_dispatch",
    "get_platform",
    "init_device_mesh",
    "local_region",
    "reduce_gradient",
]

_MODULE_OF = {
    "DTensor": "hyper_parallel.core.dtensor.dtensor",
    "DeviceMesh": "hyper_parallel.core.dtensor.device_mesh",
    "Layout": "hyper_parallel.core.dtensor.layout",
    "Partial": "hyper_parallel.core.dtensor.placement_types",
    "Replicate": "hyper_parallel.core.dtensor.placement_types",
    "Shard": "hyper_parallel.core.dtensor.placement_types",
    "StridedShard": "hyper_parallel.core.dtensor.placement_types",
    "disable_dtensor_dispatch": "hyper_parallel.core.shard.dispatch_switch",
    "distribute_tensor": "hyper_parallel.core.dtensor.dtensor",
    "dtensor_dispatch": "hyper_parallel.core.shard.dispatch_switch",
    "enable_dtensor_dispatch": "hyper_parallel.core.shard.dispatch_switch",
    "get_platform": "hyper_parallel.platform",
    "init_device_mesh": "hyper_parallel.core.dtensor.device_mesh",
    "local_region": "hyper_parallel.distributed._builder.local_region",
    "reduce_gradient": "hyper_parallel.core.shard.gradients",
}


def __getattr__(name: str) -> Any:
    if name in ("context_parallel", "custom_ops", "distributed"):
        return importlib.import_module(f"hyper_parallel.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'hyper_parallel' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
