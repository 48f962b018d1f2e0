# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""One inference of a layout rule: from the layouts of a call's inputs to those of its outputs and gradients."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.shard.ops.dim_names import named_dims, with_rest
from hyper_parallel.core.shard.ops.sequence_inference import SequenceCut, SequenceInference

if TYPE_CHECKING:
    from hyper_parallel.core.shard.ops.layout_rule import LayoutRule

Axes = tuple[int, ...]
"""Mesh axes counted from the left, the outermost first."""


@dataclass(frozen=True)
class Cut:
    """A replicated tensor's dim that is cut to this rank's part: `index` of `count` equal parts."""

    argument: str
    dim: int
    dim_name: str
    index: int
    count: int


@dataclass(frozen=True)
class Inference:
    """What a rule makes of one set of input layouts.

    Attributes:
        outputs: The layouts of the outputs that are returned, in order.
        cuts: What is cut of replicated inputs before the kernel runs.
        groups: Number of data-parallel groups over which packed documents are spread.
        group_axes: The mesh axes along which these groups lie.
        gradients: Tensor argument -> the layout of its gradient.
        sequence: This rank's share of a sequence that several ranks have; None if there is none.
    """

    outputs: tuple[Layout, ...]
    cuts: tuple[Cut, ...]
    groups: int
    group_axes: Axes
    gradients: Mapping[str, Layout]
    sequence: SequenceCut | None


class LayoutInference:
    """The layouts of the tensors that were given, in one format, checked and worked out step by step."""

    def __init__(
        self, op: str, rule: LayoutRule, form: str, layouts: Mapping[str, Layout], values: Mapping[str, Any]
    ) -> None:
        self.op = op
        self.rule = rule
        self.form = form
        self.layouts = layouts
        self.values = values
        self.dims: dict[str, tuple[str, ...]] = {}
        self.rest: tuple[str, ...] = ()
        self.axes: dict[str, Axes] = {}
        self.linear: dict[int, tuple[str, ...]] = {}

    def run(self) -> Inference:
        self.check_mesh()
        self.dims, self.rest = named_dims(self.op, self.rule, self.form, self.layouts, self.values)
        self.check_replicated()
        self.check_partial()
        self.assign_axes()
        self.sequence.check()
        self.tie_together()
        self.check_axes_once()
        groups, cut = self.group_axes(), self.sequence.cut()
        count = math.prod(self.mesh.mesh_shape[axis] for axis in groups)
        return Inference(self.outputs(), self.cuts(), count, groups, self.gradients(), cut)

    @cached_property
    def sequence(self) -> SequenceInference:
        return SequenceInference(self)

    @property
    def mesh(self) -> DeviceMesh:
        return next(iter(self.layouts.values())).mesh

    def axis_words(self, axes: Axes) -> str:
        return "(" + ", ".join(self.mesh.axis_names[axis] for axis in axes) + ")" if axes else "no axis"

    def place(self, name: str, index: int) -> str:
        return f"{self.dims[name][index]} (dim {index}) of {name}"

    def owner(self, dim: str) -> str:
        """Dim `dim` as a place in the first given tensor that has it sharded, else in the first that has it."""
        return self.place(*self.owner_of(dim))

    def owner_of(self, dim: str) -> tuple[str, int]:
        """The tensor and the number of the dim there."""
        places = [(name, self.dims[name].index(dim)) for name in self.layouts if dim in self.dims[name]]
        sharded = [(name, index) for name, index in places if self.layouts[name].dim_axes(index)]
        return (sharded or places)[0]

    def check_mesh(self) -> None:
        first = next(iter(self.layouts))
        for name, layout in self.layouts.items():
            if layout.mesh is not self.mesh and layout.mesh != self.mesh:
                raise ValueError(
                    f"For {self.op}, {name} should lie on the mesh of {first}, {self.mesh}, but got {layout.mesh}."
                )

    def check_replicated(self) -> None:
        for name, layout in self.layouts.items():
            for index, dim in enumerate(self.dims[name]):
                if layout.dim_axes(index) and not self.rule.may_shard(dim):
                    raise ValueError(
                        f"For {self.op}, {self.place(name, index)} should be replicated, "
                        f"but got tensor_map={layout.tensor_map}.{self.sequence.gather_hint(name, dim)}"
                    )

    def check_partial(self) -> None:
        """Partial inputs: none, or on an axis exactly one group in which the operator is linear."""
        for axis in range(self.mesh.ndim):
            partial = {name: layout.partial[axis] for name, layout in self.layouts.items() if layout.partial[axis]}
            if not partial:
                continue
            group = next((group for group in self.rule.linear if self.given(group) == set(partial)), None)
            if group is None or set(partial.values()) != {"sum"}:
                raise ValueError(self.partial_message(next(iter(partial)), axis))
            self.linear[axis] = group

    def given(self, group: tuple[str, ...]) -> set[str]:
        return {name for name in group if name in self.layouts}

    def partial_message(self, name: str, axis: int) -> str:
        layout = self.layouts[name]
        head = f"For {self.op}, {name} should not be Partial, but got placements={layout.placements}. "
        if self.rule.linear:
            groups = " or ".join("{" + ", ".join(group) + "}" for group in self.rule.linear)
            head = (
                f"For {self.op}, on axis {self.mesh.axis_names[axis]} exactly the inputs {groups} may be Partial(sum), "
                f"but got {name} with placements={layout.placements}. "
            )
        return head + "Redistribute it to Replicate() or Shard(dim) first."

    def assign_axes(self) -> None:
        """Every dim's mesh axes; tensors that have the dim agree or are replicated there."""
        owner: dict[str, str] = {}
        for name, layout in self.layouts.items():
            for index, dim in enumerate(self.dims[name]):
                found = layout.dim_axes(index)
                if not found:
                    continue
                if dim in self.axes and self.axes[dim] != found:
                    first = owner[dim]
                    expected = self.axis_words(self.axes[dim])
                    raise ValueError(
                        f"For {self.op}, {self.place(name, index)} should be sharded over {expected} "
                        f"like {self.place(first, self.dims[first].index(dim))}, or replicated, "
                        f"but got {self.axis_words(found)}: tensor_map={layout.tensor_map}."
                    )
                self.axes.setdefault(dim, found)
                owner.setdefault(dim, name)

    def tie_together(self) -> None:
        """Dims that are cut alike: where one is sharded and another replicated, the other is cut too."""
        present = {dim for dims in self.dims.values() for dim in dims}
        for group in self.rule.together:
            sharded = [dim for dim in group if self.axes.get(dim)]
            for dim in sharded[1:]:
                if self.axes[dim] != self.axes[sharded[0]]:
                    raise ValueError(
                        f"For {self.op}, {self.owner(dim)} should be sharded like {self.owner(sharded[0])}, over "
                        f"{self.axis_words(self.axes[sharded[0]])}, but got {self.axis_words(self.axes[dim])}."
                    )
            if sharded:
                self.axes |= {dim: self.axes[sharded[0]] for dim in group if dim in present}

    def check_axes_once(self) -> None:
        """No mesh axis shards two dims of the operator, but for dims that follow another one."""
        key = self.sequence.key
        taken: dict[int, str] = {}
        for dim, found in self.axes.items():
            for axis in found:
                if axis in self.linear:
                    raise ValueError(
                        f"For {self.op}, {self.owner(dim)} should not be sharded over {self.mesh.axis_names[axis]}, "
                        f"because {self.linear[axis][0]} is Partial(sum) on it."
                    )
                if dim != key and axis in taken and not self.tied(taken[axis], dim):
                    raise ValueError(
                        f"For {self.op}, the mesh axis {self.mesh.axis_names[axis]} should shard one dim, "
                        f"but got both {self.owner(taken[axis])} and {self.owner(dim)}."
                    )
                if dim != key:
                    taken.setdefault(axis, dim)

    def tied(self, first: str, second: str) -> bool:
        return any(first in group and second in group for group in self.rule.together)

    def sharding_axes(self) -> set[int]:
        """Mesh axes that shard some dim of the operator."""
        return {axis for found in self.axes.values() for axis in found}

    def layout(self, dims: tuple[str, ...], partial: Mapping[int, str]) -> Layout:
        last = self.mesh.ndim - 1
        entries = (tuple(last - axis for axis in self.axes.get(dim, ())) for dim in dims)
        tensor_map = tuple(axes[0] if len(axes) == 1 else axes or -1 for axes in entries)
        return Layout.from_tensor_map(self.mesh, tensor_map, tuple(partial.get(axis) for axis in range(last + 1)))

    def outputs(self) -> tuple[Layout, ...]:
        """An output has the axes of its own dims; the other axes in use are combined as the rule says."""
        contracted = {axis for dim in self.rule.reduce for axis in self.axes.get(dim, ())}
        sums = dict.fromkeys((*contracted, *self.linear), "sum")
        found = []
        for name, dims in self.returned_outputs().items():
            own = {axis for dim in dims for axis in self.axes.get(dim, ())}
            combine = self.rule.combine.get(name, "same")
            others = self.sharding_axes() - own - contracted
            combined = dict.fromkeys(others, combine) if combine != "same" else {}
            found.append(self.layout(dims, combined | sums))
        return tuple(found)

    def returned_outputs(self) -> dict[str, tuple[str, ...]]:
        """The outputs that this call returns, with their dims."""
        return {
            name: with_rest(dims, self.rest)
            for name, dims in self.rule.outputs[self.form].items()
            if name not in self.rule.when or self.values[self.rule.when[name]]
        }

    def gradients(self) -> dict[str, Layout]:
        """An input's gradient is Shard where the input is, Partial(sum) over what else shards the operator.

        That covers axes that shard only dims it lacks, and axes over which it was replicated and cut: each rank then
        has the gradient of its own part. On an axis where the inputs of a linear group are Partial, their gradients are
        whole and those of the other inputs are sums.
        """
        found = {}
        for name, layout in self.layouts.items():
            own = {axis for index in range(len(self.dims[name])) for axis in layout.dim_axes(index)}
            partial = dict.fromkeys(self.sharding_axes() - own, "sum")
            partial |= {axis: "sum" for axis, group in self.linear.items() if name not in group}
            found[name] = Layout.from_tensor_map(
                layout.mesh, layout.tensor_map, tuple(partial.get(axis) for axis in range(self.mesh.ndim))
            )
        return found

    def cuts(self) -> tuple[Cut, ...]:
        """What has to be cut of tensors that are replicated on a dim that another one has sharded."""
        found = []
        for name, layout in self.layouts.items():
            for index, dim in enumerate(self.dims[name]):
                if self.axes.get(dim) and not layout.dim_axes(index):
                    part, count = self.part(self.axes[dim])
                    found.append(Cut(name, index, dim, part, count))
        return tuple(found)

    def part(self, axes: Axes) -> tuple[int, int]:
        """This rank's part and the number of parts of a dim on `axes`, in mixed radix."""
        coordinate = self.mesh.get_coordinate()
        if coordinate is None:
            raise ValueError(f"For {self.op}, rank {self.mesh.rank} is not on the mesh {self.mesh} of the arguments.")
        index, count = 0, 1
        for axis in axes:
            index = index * self.mesh.mesh_shape[axis] + coordinate[axis]
            count *= self.mesh.mesh_shape[axis]
        return index, count

    def group_axes(self) -> Axes:
        """The mesh axes whose parts hold documents of their own: one group for each part of the packed dims."""
        packed = self.rule.packed.get(self.form, ())
        for dim in packed[1:]:
            if self.axes.get(dim, ()) != self.axes.get(packed[0], ()):
                raise ValueError(
                    f"For {self.op}, {self.owner(dim)} should be sharded like {self.owner(packed[0])}, because both "
                    "hold the same documents."
                )
        return self.axes.get(packed[0], ()) if packed else ()
