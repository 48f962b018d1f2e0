# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients of a sharded operator: each rank has its own part, and nothing is reduced unless asked for."""

from __future__ import annotations

from typing import Any

from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.shard.rank_check import RANK_CHECK, compare_tensors
from hyper_parallel.platform import get_platform


def reduce_gradient(gradient: Any, layout: Layout) -> Any:
    """Reduce a rank's gradient over every mesh axis on which `layout` is Partial.

    Args:
        gradient: The local gradient, of the shape of the local input.
        layout: How it lies on the mesh: from `DistributedOp.grad_layouts(...)`.

    Returns:
        The local gradient, whole on those axes: the same on every rank along them.

    Raises:
        RuntimeError: If another rank failed or did not answer in time; with `HYPER_PARALLEL_CHECK_RANKS=1`, if the
            ranks do not reduce the same.
    """
    if RANK_CHECK.enabled:
        compare_tensors("reduce_gradient", gradient, layout)
    for axis, op in enumerate(layout.partial):
        if op is not None:
            gradient = get_platform().all_reduce(gradient, op, layout.mesh, axis)
    return gradient
