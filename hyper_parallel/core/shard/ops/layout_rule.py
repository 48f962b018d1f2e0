# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The layout rule: which shardings an operator takes, and how its outputs and gradients lie.

Mesh axes are assigned to dim *names*, not to positions of tensors. A dim name has one sharding in the whole operator;
whatever has the dim either lies that way already or is replicated, and is then cut to its part without communication.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.shard.ops.layout_inference import Inference, LayoutInference

REST = "..."
"""In a tensor's dims: any number of dims, the same ones in every tensor that has it."""


@dataclass(frozen=True)
class ContextParallel:
    """How an operator is cut along the sequence.

    Attributes:
        query: The dim that is cut, in whichever format has it.
        key: The dim of which each block of query rows sees a window.
        mask: "causal" (aligned to the bottom right), "full", or a function of the attributes' values that gives one of
            them.
        lengths: Packed dims with the argument that holds their cumulative document ends.
        leading_zero: The lengths arguments that start with a zero.
        counts: Dims whose extent is the number of documents.
        ratio: The attribute with the ratio of compressed keys and the argument with the residual, if keys are so.
        positions: Arguments and outputs that hold positions in a key dim -> that dim.
        require: What must hold while several ranks share the sequence; `check_arguments` looks at it.
    """

    query: tuple[str, ...]
    key: tuple[str, ...]
    mask: str | Callable[[dict[str, Any]], str]
    lengths: Mapping[str, str] = field(default_factory=dict)
    leading_zero: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()
    ratio: tuple[str, str] | None = None
    positions: Mapping[str, str] = field(default_factory=dict)
    require: tuple[str, ...] = ()


@dataclass(frozen=True)
class LayoutRule:
    """Dims of every tensor per format, and which of them may be sharded.

    Attributes:
        arguments: Every argument in the order of the call.
        inputs: format -> tensor argument -> dims.
        outputs: format -> output -> dims.
        shard: Dims that may lie on mesh axes, `...` for every dim of a `...`; every other dim must be replicated.
        format_argument: The attribute that names the format, if one does.
        format_rank: The tensor whose rank tells the format, if one does.
        combine: output -> "sum", "max", "min" or "same", for outputs that lack a dim of `shard`.
        reduce: Contracted dims that may be sharded: every output is then Partial(sum).
        linear: Groups of inputs: where exactly one group is Partial(sum), so is every output.
        together: Groups of dims that are cut alike.
        axes: dim name -> the attribute that chooses it among the dims of a `...`.
        when: output -> the attribute without which it is not returned.
        group_values: format -> tensors that hold each data-parallel group's own values, as lengths do.
        packed: format -> packed dims: each part of them is a data-parallel group with documents of its own.
        lengths: Arguments that hold the document ends of a data-parallel group.
        context_parallel: The operator's cut along the sequence, if it has one.
    """

    arguments: tuple[str, ...]
    inputs: Mapping[str, Mapping[str, tuple[str, ...]]]
    outputs: Mapping[str, Mapping[str, tuple[str, ...]]]
    shard: tuple[str, ...]
    format_argument: str = ""
    format_rank: str = ""
    combine: Mapping[str, str] = field(default_factory=dict)
    reduce: tuple[str, ...] = ()
    linear: tuple[tuple[str, ...], ...] = ()
    together: tuple[tuple[str, ...], ...] = ()
    axes: Mapping[str, str] = field(default_factory=dict)
    when: Mapping[str, str] = field(default_factory=dict)
    group_values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    packed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lengths: tuple[str, ...] = ()
    context_parallel: ContextParallel | None = None

    @cached_property
    def shared_lengths(self) -> frozenset[str]:
        """Arguments whose integers all ranks of a group should have alike: lengths, and what else a cut depends on."""
        context = self.context_parallel
        cut = (*context.lengths.values(), *(context.ratio or ())[1:]) if context else ()
        return frozenset((*self.lengths, *cut))

    @cached_property
    def of_group(self) -> frozenset[str]:
        """Arguments that differ between data-parallel groups, in their extents too."""
        return frozenset((*self.shared_lengths, *(name for names in self.group_values.values() for name in names)))

    def format_of(self, op: str, values: Mapping[str, Any]) -> str:
        """The format of a call; `values` maps arguments to layouts (tensors) or values (attributes)."""
        if self.format_argument:
            name = values[self.format_argument]
            if not isinstance(name, str):
                raise TypeError(f"For {op}, {self.format_argument} should be of type str, but got {name!r}.")
            if name not in self.inputs:
                known = ", ".join(repr(form) for form in self.inputs)
                raise ValueError(f"For {op}, {self.format_argument} should be one of {known}, but got {name!r}.")
            return name
        if self.format_rank:
            rank = len(values[self.format_rank].tensor_map)
            by_rank = {len(dims[self.format_rank]): name for name, dims in self.inputs.items()}
            if rank not in by_rank:
                known = " or ".join(str(number) for number in by_rank)
                raise ValueError(f"For {op}, {self.format_rank} should have {known} dims, but got {rank}.")
            return by_rank[rank]
        return next(iter(self.inputs))

    def may_shard(self, dim: str) -> bool:
        """Whether a dim may lie on mesh axes."""
        return dim in self.shard or dim in self.reduce or (dim.startswith(REST) and REST in self.shard)

    def infer(self, op: str, values: Mapping[str, Any]) -> Inference:
        """Check the input layouts of a call and derive the rest.

        Args:
            op: The operator's name, for messages.
            values: Argument -> Layout (a tensor), None (an absent tensor) or the value (an attribute).

        Raises:
            ValueError: If the layouts are not ones that the operator takes.
            TypeError: If a tensor is a plain one.
        """
        form = self.format_of(op, values)
        own = self.group_values.get(form, ())
        layouts: dict[str, Layout] = {}
        for name in self.inputs[form]:
            value = values[name]
            if isinstance(value, Layout) and name not in own:
                layouts[name] = value
            elif isinstance(value, Layout) and value.is_partial():
                raise ValueError(
                    f"For {op}, {name} should not be Partial, but got placements={value.placements}: each "
                    "data-parallel group has its own values."
                )
            elif value is not None and name not in own:
                raise TypeError(plain_tensor(op, name))
        if not layouts:
            raise TypeError(f"For {op}, at least one of its tensors should be a DTensor.")
        return LayoutInference(op, self, form, layouts, values).run()


def plain_tensor(op: str, name: str) -> str:
    """The message for a plain tensor among DTensors."""
    return (
        f"For {op}, {name} should be a DTensor because another argument is one, but got a plain tensor. "
        f"Distribute it: distribute_tensor({name}, mesh, placements)."
    )
