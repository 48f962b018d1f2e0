# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A layout rule written by hand. It is wrong: docs/verify.md finds out where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hyper_parallel import Layout
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp


class RunningSumOp(DistributedOp):
    """Batch and sequence may be sharded; the output lies like the first dims of x."""

    def preprocess(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        x, weight, *rest = args
        return (x.to_local(), weight.to_local(), *rest), kwargs, (x.layout, weight.layout)

    def infer_layout(self, cache_values: Sequence[Any]) -> tuple[tuple[Layout, ...], None]:
        x, weight = cache_values
        if x.is_partial() or weight.is_partial():
            raise ValueError("acme_running_sum: x and weight should have no pending reduction")
        if x.tensor_map[2] != -1 or weight.tensor_map[0] != -1:
            raise ValueError("acme_running_sum: the hidden size should be replicated")
        return (Layout.from_tensor_map(x.mesh, x.tensor_map[:2]),), None
