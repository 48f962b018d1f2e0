# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Functions and modules of a model on a mesh: where DTensors become local tensors, and local tensors DTensors."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hyper_parallel.distributed._builder.function_module import FunctionModule
    from hyper_parallel.distributed._builder.local_region import local_region
    from hyper_parallel.distributed.apply import apply_sharding
    from hyper_parallel.distributed.recipe_spec import ModuleShardingSpec, PlacementMismatchError

__all__ = [
    "FunctionModule",
    "ModuleShardingSpec",
    "PlacementMismatchError",
    "apply_sharding",
    "local_region",
]

_MODULE_OF = {
    "FunctionModule": "hyper_parallel.distributed._builder.function_module",
    "ModuleShardingSpec": "hyper_parallel.distributed.recipe_spec",
    "PlacementMismatchError": "hyper_parallel.distributed.recipe_spec",
    "apply_sharding": "hyper_parallel.distributed.apply",
    "local_region": "hyper_parallel.distributed._builder.local_region",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'hyper_parallel.distributed' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
