# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The dispatcher: an operator called with DTensors, to its local kernel and back.

name -> preprocess -> cached plan (layouts of the outputs, what runs on this rank) -> checks -> run -> wrap.

A call of an operator with a layout rule is kept as a whole once it has been planned and checked. Its key is what plan
and checks depend on: for each tensor its spec (layout, shape, dtype, device), every other argument with its type, the
document lengths included, and the current sequence order. The same key again needs neither. Another shape or other
lengths are another key, so that nothing goes unchecked.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hyper_parallel.context_parallel.current_order import current_sequence_order
from hyper_parallel.core.dtensor.dtensor import DTensor
from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.dtensor.tensor_spec import tensor_spec
from hyper_parallel.core.shard.context_parallel.call_lengths import ReadIntegers
from hyper_parallel.core.shard.context_parallel.sequence_orders import SequenceOrder
from hyper_parallel.core.shard.dispatch_switch import _SWITCH
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp, typed
from hyper_parallel.core.shard.ops.parallel_ops_register import REGISTRY
from hyper_parallel.core.shard.rank_check import RANK_CHECK, compare_ranks
from hyper_parallel.platform import get_platform

from_layout = DTensor.from_layout
MOST_PLANS = 4096
MOST_CALLS = 4096
"""Kept for each operator; the oldest leaves first."""
MOST_OPERATORS = 4096


@dataclass(frozen=True)
class Plan:
    """What a call's layouts, attributes and the sequence order decide, so that it is decided once."""

    outputs: tuple[Layout, ...]
    implementation: Callable[..., Any]
    groups: int
    sequence_ranks: int = 1
    """How many ranks share the sequence of a group."""


@dataclass
class Operator:
    """What is known of a callable: its rule, and the calls that have been planned and checked."""

    op: DistributedOp
    func: Callable[..., Any]  # what runs on local tensors
    takes_bound: bool  # whether it takes all arguments by position, as they are bound
    is_keyed: bool  # whether calls are kept as a whole
    plain_wrap: bool
    follows_order: bool  # whether what runs may depend on the order in which sequences were dealt
    expands_itself: bool = False
    calls: dict[tuple[Any, ...], Plan] = field(default_factory=dict)


class OpDispatcher:
    """Runs registered operators on DTensors."""

    def __init__(self) -> None:
        self._operators: dict[Callable[..., Any], Operator] = {}
        self._plans: OrderedDict[Any, Plan] = OrderedDict()
        self._lock = threading.Lock()
        self._version = REGISTRY.version

    def dispatch(self, op_call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run `op_call` on the local tensors of its arguments and wrap what comes out.

        Args:
            op_call: The local operator: an operator of the framework, or a DFunction's local callable.
            args: Positional arguments with DTensors in any place.
            kwargs: Keyword arguments, likewise.

        Raises:
            RuntimeError: If no operator of that name is registered.
            ValueError: If layouts, shapes, lengths or values do not fit the operator, or, with
                `HYPER_PARALLEL_CHECK_RANKS=1`, lengths those of other ranks. Nothing has been launched then.
            TypeError: If an argument is missing, unknown or of the wrong type.
        """
        if _SWITCH.disabled:
            run = getattr(op_call, "run_checked", op_call)
            return run(*map(local_of, args), **{name: local_of(value) for name, value in kwargs.items()})
        if self._version is not REGISTRY.version:
            self.forget()
        known = self._operators.get(op_call) or self._operator(op_call)
        op = known.op
        order = current_sequence_order() if known.follows_order else None
        if RANK_CHECK.enabled:
            compare_ranks(op, args, kwargs, order)
        if not known.is_keyed:
            local_args, local_kwargs, cache_values = op.preprocess(args, kwargs)
            plan = self._plan(known, op_call, cache_values, order)
            ranks = (plan.sequence_ranks,) if plan.sequence_ranks != 1 else ()
            op.check_call(args, kwargs, plan.groups, *ranks)
            return op.wrap_output(plan.implementation(*local_args, **local_kwargs), plan.outputs)
        bound = op.bind_arguments(*args, **kwargs)  # type: ignore[misc]
        described, local = list(bound), list(bound)
        for index, value in enumerate(bound):
            if type(value) is DTensor:
                part, spec = value._local, value._spec
                local[index] = part
                if spec is None or spec.local_shape != part.shape:  # new, or resized in place
                    spec = value._spec = tensor_spec(value._layout, part)
                described[index] = spec
        key = (order, *described, *map(type, bound))  # with the types: 1, True and 1.0 are equal
        try:
            found = known.calls.get(key)
        except TypeError:  # a value that cannot be hashed
            found = None
        plan = found or self._checked(known, op_call, args, kwargs, key, bound, local)
        if known.takes_bound:
            output = plan.implementation(*local)
        else:
            names = op.rule.arguments  # type: ignore[union-attr]
            by_name = {name: local[names.index(name)] for name in kwargs}
            output = plan.implementation(*local[: len(args)], **by_name)
        layouts = plan.outputs
        if known.plain_wrap:
            if type(output) is tuple:
                if len(output) == len(layouts):
                    return tuple([from_layout(item, layout) for item, layout in zip(output, layouts, strict=True)])
            elif len(layouts) == 1 and type(output) is not list:
                return from_layout(output, layouts[0])
        return op.wrap_output(output, layouts)

    def _operator(self, op_call: Callable[..., Any]) -> Operator:
        name = get_platform().get_op_name(op_call)
        op = REGISTRY.find(name)
        if op is None:
            raise RuntimeError(REGISTRY.unknown(name))
        own = type(op)
        takes_bound = hasattr(op_call, "run_bound")
        is_keyed = (
            op.rule is not None
            and op.bind_arguments is not None
            and own.preprocess is DistributedOp.preprocess
            and own.check_call is DistributedOp.check_call
        )
        found = Operator(
            op,
            func=op_call.run_bound if takes_bound and is_keyed else op_call,  # type: ignore[attr-defined]
            takes_bound=takes_bound,
            is_keyed=is_keyed,
            plain_wrap=own.wrap_output is DistributedOp.wrap_output,
            follows_order=op.rule is None
            or op.rule.context_parallel is not None
            or own.get_expand_impl is not DistributedOp.get_expand_impl,
            expands_itself=own.get_expand_impl is not DistributedOp.get_expand_impl,
        )
        with self._lock:
            if len(self._operators) >= MOST_OPERATORS:
                self._operators.clear()
            self._operators[op_call] = found
        return found

    def _checked(
        self,
        known: Operator,
        op_call: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        key: tuple[Any, ...],
        bound: tuple[Any, ...],
        local: list[Any],
    ) -> Plan:
        """Plan and check a call, and keep it unless its key has a tensor in it, whose values may change.

        Document ends on the device that checks and a cut of the sequence depend on are read once, into `local`.
        """
        plan = self._plan(known, op_call, known.op.preprocess(args, kwargs)[2], key[0])
        checked = bound
        if plan.sequence_ranks != 1:
            checked = known.op.with_ends_read(bound)
            for index, value in enumerate(checked):
                # An operator with an expansion of its own gets the tensors that it expects.
                if type(value) is ReadIntegers and not known.expands_itself:
                    local[index] = value
        known.op.check_bound(checked, plan.groups, plan.sequence_ranks)
        is_tensor = get_platform().is_tensor
        if not any(is_tensor(value) for value in bound if type(value) is not DTensor):
            with self._lock:
                try:
                    known.calls[key] = plan
                except TypeError:  # cannot be hashed
                    return plan
                if len(known.calls) > MOST_CALLS:
                    del known.calls[next(iter(known.calls))]
        return plan

    def _plan(
        self,
        known: Operator,
        op_call: Callable[..., Any],
        cache_values: Sequence[Any],
        order: SequenceOrder | None,
    ) -> Plan:
        op = known.op
        key = (op, op_call, order, *(typed(value) for value in cache_values))
        with self._lock:
            plan = self._plans.get(key)
            if plan is not None:
                self._plans.move_to_end(key)
                return plan
        infer_result = op.infer_layout(cache_values)
        expanded = op.get_expand_impl(known.func, infer_result, cache_values)
        plan = Plan(
            tuple(infer_result[0]), expanded or known.func, op.groups(cache_values), op.sequence_ranks(cache_values)
        )
        with self._lock:
            self._plans[key] = plan
            while len(self._plans) > MOST_PLANS:
                self._plans.popitem(last=False)
        return plan

    def forget(self) -> None:
        """Drop everything known: an operator that has been registered may be another one of a known name."""
        with self._lock:
            self._version = REGISTRY.version
            self._operators = {}
            self._plans.clear()


def local_of(value: Any) -> Any:
    """A value with local tensors in the place of DTensors."""
    if isinstance(value, DTensor):
        return value.to_local()
    return type(value)(map(local_of, value)) if type(value) in (tuple, list) else value


_OP_DISPATCHER = OpDispatcher()
