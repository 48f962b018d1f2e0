# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The base of all distributed operators."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from hyper_parallel.context_parallel.current_order import current_sequence_order
from hyper_parallel.core.dtensor.dtensor import DTensor
from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.shard.context_parallel.call_lengths import read
from hyper_parallel.core.shard.context_parallel.expansion import Expansion
from hyper_parallel.core.shard.ops.layout_inference import Cut, Inference
from hyper_parallel.core.shard.ops.layout_rule import LayoutRule, plain_tensor
from hyper_parallel.core.shard.ops.parallel_ops_register import register_distributed_op
from hyper_parallel.platform import get_platform

Implementation = Callable[..., Any]

MOST_INFERENCES = 4096
"""Kept for each operator; the oldest leaves first."""


class DistributedOp:
    """How one operator runs on DTensors: which layouts it takes, what runs on each rank, how the outputs lie.

    A generated operator gives `rule`, `bind_arguments` and `check_arguments` and inherits the rest. One written by hand
    may override `preprocess`, `infer_layout`, `get_expand_impl` and `wrap_output` instead.

    Creating an instance registers it.

    Args:
        op_name: The name under which the dispatcher finds the operator.
    """

    rule: ClassVar[LayoutRule | None] = None
    bind_arguments: ClassVar[Callable[..., tuple[Any, ...]] | None] = None
    """Takes the call's arguments in any form and returns all of them in order, defaults filled in."""
    check_arguments: ClassVar[Callable[..., None] | None] = None
    """Takes the bound arguments and `groups`; raises for dtypes, global shapes, lengths and values that do not fit."""

    def __init__(self, op_name: str) -> None:
        self.op_name = op_name
        self._inferences: dict[tuple[Any, ...], Inference] = {}
        self._lock = threading.Lock()
        register_distributed_op(op_name, self)

    def preprocess(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Split a call into what runs on this rank and what its layout depends on.

        Returns:
            `(local_args, local_kwargs, cache_values)`: the call in the form the caller chose with local tensors in the
            place of DTensors, and for each argument in order the Layout of a tensor or the value of an attribute.
        """
        rule = self._needed_rule("preprocess")
        assert self.bind_arguments is not None
        bound = self.bind_arguments(*args, **kwargs)
        tensors = next(iter(rule.inputs.values()))
        cache_values = tuple(
            self._tensor_value(name, value) if name in tensors else _layout_value(value)
            for name, value in zip(rule.arguments, bound, strict=True)
        )
        # From the bound values: an operator of the framework takes lengths as integers, not as the caller's tensor.
        local_args = tuple(_local(value) for value in bound[: len(args)])
        local_kwargs = {name: _local(bound[rule.arguments.index(name)]) for name in kwargs}
        return local_args, local_kwargs, cache_values

    def infer_layout(self, cache_values: Sequence[Any]) -> tuple[tuple[Layout, ...], None]:
        """The layouts of the outputs. ValueError if the operator does not take these input layouts."""
        return self._infer(cache_values, "infer_layout").outputs, None

    def get_expand_impl(
        self,
        func: Implementation,
        infer_result: tuple[Any, ...],  # noqa: ARG002 - for operators that override this
        cache_values: Sequence[Any],
    ) -> Implementation | None:
        """What runs on this rank instead of `func`; None if `func` itself does."""
        if self.rule is None:
            return None
        inference = self._infer(cache_values, "get_expand_impl")
        expansion = None
        if inference.sequence is not None:
            values = dict(zip(self.rule.arguments, cache_values, strict=True))
            order = current_sequence_order()
            expansion = func = Expansion(self.op_name, func, self.rule, inference.sequence, order, values)
        return _with_cuts(self.op_name, func, self.rule.arguments, inference.cuts) if inference.cuts else expansion

    def groups(self, cache_values: Sequence[Any]) -> int:
        """Number of data-parallel groups that have packed documents of their own."""
        return 1 if self.rule is None else self._infer(cache_values, "groups").groups

    def group_axes(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], lengths: Mapping[str, Any]
    ) -> tuple[int, ...] | None:
        """The mesh axes along which ranks have documents of their own; None if the call's layouts are refused.

        `lengths` are arguments of the call whose values may differ. The answer does not depend on them, and so is the
        same on every rank.
        """
        rule = self._needed_rule("group_axes")
        by_position = [None if name in lengths else value for name, value in zip(rule.arguments, args, strict=False)]
        by_name = {name: None if name in lengths else value for name, value in kwargs.items()}
        try:
            found = self._infer(self.preprocess(tuple(by_position), by_name)[2], "group_axes").group_axes
        except (TypeError, ValueError):
            return None
        tensors = next(iter(rule.inputs.values()))  # residuals, one for each row of a batch
        parts = [value.layout for name, value in lengths.items() if name in tensors and isinstance(value, DTensor)]
        sharded = (axis for layout in parts for dim in range(layout.ndim) for axis in layout.dim_axes(dim))
        return tuple(dict.fromkeys((*found, *sharded)))

    def sequence_ranks(self, cache_values: Sequence[Any]) -> int:
        """Number of ranks that share the sequence of a group."""
        sequence = None if self.rule is None else self._infer(cache_values, "sequence_ranks").sequence
        return 1 if sequence is None else sequence.ranks

    def grad_layouts(self, *args: Any, **kwargs: Any) -> dict[str, Layout]:
        """The layouts that the gradients of a call's tensors have on each rank, before anything is reduced.

        Takes the arguments of the call, tensors as DTensors. A gradient is Shard where its input is, Partial(sum) over
        the other mesh axes that shard the operator, Replicate over those that shard nothing: `reduce_gradient(gradient,
        layout)` adds it up.

        Returns:
            Argument name -> layout, for every tensor that was given.
        """
        return dict(self._infer(self.preprocess(args, kwargs)[2], "grad_layouts").gradients)

    def check_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], groups: int, sequence_ranks: int = 1) -> None:
        """Check dtypes, global shapes, lengths and values of one call, before anything is launched.

        There are that many data-parallel groups, and `sequence_ranks` share the sequence of each.
        """
        if self.bind_arguments is not None and self.check_arguments is not None:
            self.check_bound(self.bind_arguments(*args, **kwargs), groups, sequence_ranks)

    def check_bound(self, bound: Sequence[Any], groups: int, sequence_ranks: int = 1) -> None:
        """The same of arguments that have been bound."""
        if self.check_arguments is None:
            return
        spread = {"data_parallel_groups": groups} if groups != 1 else {}
        if sequence_ranks != 1 and self._checks_sequence_ranks:
            spread["context_parallel_ranks"] = sequence_ranks
        self.check_arguments(*bound, **spread)

    @cached_property
    def _checks_sequence_ranks(self) -> bool:
        check = self.check_arguments
        return check is not None and "context_parallel_ranks" in inspect.signature(check).parameters

    def with_ends_read(self, bound: Sequence[Any]) -> tuple[Any, ...]:
        """Bound arguments whose document ends, on which the cut of a sequence depends, are on the host."""
        rule = self._needed_rule("with_ends_read")
        ends = set(rule.context_parallel.lengths.values()) if rule.context_parallel else set()
        return tuple(read(value) if name in ends else value for name, value in zip(rule.arguments, bound, strict=True))

    def wrap_output(self, output: Any, layouts: Sequence[Layout]) -> Any:
        """Local outputs as DTensors: a tuple for several, else the one."""
        if isinstance(output, tuple | list):
            if len(output) != len(layouts):
                raise RuntimeError(
                    f"For {self.op_name}, {len(output)} outputs came back, but {len(layouts)} have layouts."
                )
            return tuple(DTensor.from_layout(item, layout) for item, layout in zip(output, layouts, strict=True))
        if len(layouts) != 1:
            raise RuntimeError(f"For {self.op_name}, one output came back, but {len(layouts)} have layouts.")
        return DTensor.from_layout(output, layouts[0])

    def _needed_rule(self, method: str) -> LayoutRule:
        if self.rule is None:
            raise NotImplementedError(
                f"{type(self).__name__} for {self.op_name} has neither a rule nor its own {method}."
            )
        return self.rule

    def _infer(self, cache_values: Sequence[Any], method: str) -> Inference:
        rule = self._needed_rule(method)
        key = tuple(map(typed, cache_values))
        found = self._inferences.get(key)
        if found is None:
            found = rule.infer(self.op_name, dict(zip(rule.arguments, cache_values, strict=True)))
            with self._lock:
                self._inferences[key] = found
                if len(self._inferences) > MOST_INFERENCES:
                    del self._inferences[next(iter(self._inferences))]
        return found

    def _tensor_value(self, name: str, value: Any) -> Any:
        """What the layout may depend on of a tensor argument: its Layout, None, or that it is a plain tensor."""
        if value is None:
            return None
        if isinstance(value, DTensor):
            return value.layout
        if get_platform().is_tensor(value):
            own = self._needed_rule("preprocess").group_values
            if any(name in names for names in own.values()):
                return type(value)
            raise TypeError(plain_tensor(self.op_name, name))
        raise TypeError(f"For {self.op_name}, {name} should be a DTensor, but got a {type(value).__name__}.")


def typed(value: Any) -> Any:
    """A value as a cache key in which 1, True, 1.0 and "1" differ, 0.0 and -0.0 too, and nan equals itself."""
    if isinstance(value, Layout) or value is None:
        return value
    if isinstance(value, float):
        return (float, value.hex())
    return (type(value), value)


def _local(value: Any) -> Any:
    return value.to_local() if isinstance(value, DTensor) else value


def _layout_value(value: Any) -> Any:
    """What the layout may depend on of an argument that is no tensor: its value, or of lengths that they are given."""
    return value if value is None or isinstance(value, str | int | float | bool) else type(value)


def _with_cuts(op: str, func: Implementation, arguments: tuple[str, ...], cuts: tuple[Cut, ...]) -> Implementation:
    """`func` on arguments of which the replicated ones are cut to this rank's part first."""
    narrow = get_platform().narrow
    position = {name: index for index, name in enumerate(arguments)}

    def cut(value: Any, part: Cut) -> Any:
        length, rest = divmod(value.shape[part.dim], part.count)
        if rest:
            raise ValueError(
                f"For {op}, {part.dim_name} (dim {part.dim}) of {part.argument} should be divisible by {part.count}, "
                f"to be cut like the tensors that are sharded there, but got {value.shape[part.dim]}."
            )
        return narrow(value, part.dim, part.index * length, length)

    def run(*args: Any, **kwargs: Any) -> Any:
        local_args, local_kwargs = list(args), dict(kwargs)
        for part in cuts:
            store: Any = local_kwargs if part.argument in local_kwargs else local_args
            key: Any = part.argument if part.argument in local_kwargs else position[part.argument]
            store[key] = cut(store[key], part)
        return func(*local_args, **local_kwargs)

    return run
