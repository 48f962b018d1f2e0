# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The dispatcher: an operator called with DTensors, to its local kernel and back.

name -> preprocess -> cached plan (layouts of the outputs, what runs on this rank) -> checks -> run -> wrap.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp
from hyper_parallel.core.shard.ops.parallel_ops_register import REGISTRY
from hyper_parallel.platform import get_platform

MOST_PLANS = 4096


@dataclass(frozen=True)
class Plan:
    """What a call's layouts and attributes decide, so that it is decided once."""

    outputs: tuple[Layout, ...]
    implementation: Callable[..., Any]
    groups: int


class OpDispatcher:
    """Runs registered operators on DTensors; plans are kept, the least recently used one leaves first."""

    def __init__(self) -> None:
        self._plans: OrderedDict[Any, Plan] = OrderedDict()
        self._lock = threading.Lock()

    def dispatch(self, op_call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run `op_call` on the local tensors of its arguments and wrap what comes out.

        Args:
            op_call: The local operator: an operator of the framework, or a DFunction's local callable.
            args: Positional arguments with DTensors in any place.
            kwargs: Keyword arguments, likewise.

        Raises:
            RuntimeError: If no operator of that name is registered.
            ValueError: If layouts, shapes, lengths or values do not fit the operator. Nothing has been launched then.
            TypeError: If an argument is missing, unknown or of the wrong type.
        """
        name = get_platform().get_op_name(op_call)
        op = REGISTRY.find(name)
        if op is None:
            raise RuntimeError(REGISTRY.unknown(name))
        local_args, local_kwargs, cache_values = op.preprocess(args, kwargs)
        plan = self._plan(op, op_call, cache_values)
        op.check_call(args, kwargs, plan.groups)
        return op.wrap_output(plan.implementation(*local_args, **local_kwargs), plan.outputs)

    def _plan(self, op: DistributedOp, op_call: Callable[..., Any], cache_values: Sequence[Any]) -> Plan:
        key = (op, op_call, *(typed(value) for value in cache_values))
        with self._lock:
            plan = self._plans.get(key)
            if plan is not None:
                self._plans.move_to_end(key)
                return plan
        infer_result = op.infer_layout(cache_values)
        expanded = op.get_expand_impl(op_call, infer_result, cache_values)
        plan = Plan(tuple(infer_result[0]), expanded or op_call, op.groups(cache_values))
        with self._lock:
            self._plans[key] = plan
            while len(self._plans) > MOST_PLANS:
                self._plans.popitem(last=False)
        return plan


def typed(value: Any) -> Any:
    """A value as a cache key in which 1, True, 1.0 and "1" differ, 0.0 and -0.0 too, and nan equals itself."""
    if isinstance(value, Layout) or value is None:
        return value
    if isinstance(value, float):
        return (float, value.hex())
    return (type(value), value)


_OP_DISPATCHER = OpDispatcher()
