# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The sequence in an inference: on which mesh axes query and key dim lie, and what that makes of a rank's rows.

The key dim lies on a prefix of the query dim's axes. Ranks that agree there are a group with documents of its own; its
sequence is dealt over the axes that are left, those of context parallelism.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hyper_parallel.core.dtensor.placement_types import Replicate

if TYPE_CHECKING:
    from hyper_parallel.core.shard.ops.layout_inference import Axes, LayoutInference


@dataclass(frozen=True)
class SequenceCut:
    """One rank's share of the sequence of its group, as far as layouts tell.

    Attributes:
        form: The format of the call.
        query: The dim that is cut.
        key: The dim of which a rank sees windows; "" if the format has none.
        rank: This rank's number in its group.
        ranks: How many ranks share the sequence: more than one.
        axes: The names of the mesh axes over which it is dealt, for messages.
        inputs: Every given tensor with its dims.
        outputs: The dims of every output that is returned.
        combine: How the parts of every output are combined.
    """

    form: str
    query: str
    key: str
    rank: int
    ranks: int
    axes: str
    inputs: Mapping[str, tuple[str, ...]]
    outputs: tuple[tuple[str, ...], ...]
    combine: tuple[str, ...]


class SequenceInference:
    """The part of an inference that looks at query and key dim."""

    def __init__(self, inference: LayoutInference) -> None:
        self.inference = inference
        context = inference.rule.context_parallel
        present = {dim for dims in inference.dims.values() for dim in dims}
        in_format = {dim for dims in inference.rule.inputs[inference.form].values() for dim in dims}
        self.query = next((dim for dim in context.query if dim in present), "") if context else ""
        self.key = next((dim for dim in context.key if dim in in_format), "") if context else ""

    def check(self) -> None:
        """ValueError unless the key dim lies on a prefix of the query dim's axes."""
        axes = self.inference.axes
        of_query, of_key = axes.get(self.query, ()), axes.get(self.key, ())
        if self.query and of_query[: len(of_key)] != of_key:
            where, owner = self.inference.axis_words, self.inference.owner
            raise ValueError(
                f"For {self.inference.op}, {owner(self.key)} should be sharded over the first axes of "
                f"{owner(self.query)}, {where(of_query)}, or replicated, but got {where(of_key)}."
                + self.gather_hint(self.inference.owner_of(self.key)[0], self.key)
            )

    def gather_hint(self, name: str, dim: str) -> str:
        """The call that makes a key dim whole which somebody has sharded who means context parallelism."""
        if not dim or dim != self.key:
            return ""
        layout, axes = self.inference.layouts[name], self.inference.axes
        kept = 0
        held = layout.dim_axes(self.inference.dims[name].index(dim))
        if self.inference.rule.may_shard(dim):
            # As far as the queries lie on the same axes, these are groups with keys of their own.
            for first, second in zip(axes.get(self.query, ()), held, strict=False):
                if first != second:
                    break
                kept += 1
        whole = tuple(
            Replicate() if axis in held[kept:] else placement for axis, placement in enumerate(layout.placements)
        )
        return f" Gather it first: {name} = {name}.redistribute({name}.device_mesh, {whole})."

    @property
    def axes(self) -> Axes:
        """The axes of context parallelism."""
        axes = self.inference.axes
        return axes.get(self.query, ())[len(axes.get(self.key, ())) :] if self.query else ()

    def cut(self) -> SequenceCut | None:
        """What the expansion has to know; None if no sequence is shared."""
        if not self.axes:
            return None
        inference = self.inference
        rank, ranks = inference.part(self.axes)
        if ranks == 1:
            return None
        own = inference.rule.inputs[inference.form]
        inputs = {name: own[name] for name in inference.rule.group_values.get(inference.form, ())} | inference.dims
        outputs = inference.returned_outputs()
        return SequenceCut(
            inference.form,
            self.query,
            self.key,
            rank,
            ranks,
            inference.axis_words(self.axes),
            inputs,
            tuple(outputs.values()),
            tuple(inference.rule.combine.get(name, "same") for name in outputs),
        )
