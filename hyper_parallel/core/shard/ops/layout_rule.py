# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The layout rule: which shardings an operator takes, and how its outputs lie.

Mesh axes are assigned to dim *names*, not to positions of tensors. A dim name has one sharding in the whole operator;
whatever has the dim either lies that way already or is replicated, and is then cut to its part without communication.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.core.dtensor.layout import Layout

Axes = tuple[int, ...]
"""Mesh axes counted from the left, the outermost first."""


@dataclass(frozen=True)
class ContextParallel:
    """How an operator is cut along the sequence.

    Attributes:
        query: The dim that is cut, in whichever format has it.
        key: The dim of which each block of query rows sees a window.
        mask: "causal" (aligned to the bottom right) or "full".
        lengths: Packed dims with the argument that holds their cumulative document ends.
    """

    query: tuple[str, ...]
    key: tuple[str, ...]
    mask: str
    lengths: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cut:
    """A replicated tensor's dim that is cut to this rank's part: `index` of `count` equal parts."""

    argument: str
    dim: int
    index: int
    count: int


@dataclass(frozen=True)
class Inference:
    """What the rule makes of one set of input layouts."""

    outputs: tuple[Layout, ...]
    cuts: tuple[Cut, ...]
    groups: int
    """Number of data-parallel groups over which packed documents are spread."""


@dataclass(frozen=True)
class LayoutRule:
    """Dims of every tensor per format, and which of them may be sharded.

    Attributes:
        arguments: Every argument in the order of the call.
        inputs: format -> tensor argument -> dims.
        outputs: format -> output -> dims.
        shard: Dims that may lie on mesh axes; every other dim must be replicated.
        format_argument: The attribute that names the format, if one does.
        format_rank: The tensor whose rank tells the format, if one does.
        combine: output -> "sum", "max", "min" or "same", for outputs that lack a dim of `shard`.
        context_parallel: The operator's cut along the sequence, if it has one.
    """

    arguments: tuple[str, ...]
    inputs: Mapping[str, Mapping[str, tuple[str, ...]]]
    outputs: Mapping[str, Mapping[str, tuple[str, ...]]]
    shard: tuple[str, ...]
    format_argument: str = ""
    format_rank: str = ""
    combine: Mapping[str, str] = field(default_factory=dict)
    context_parallel: ContextParallel | None = None

    def format_of(self, op: str, values: Mapping[str, Any]) -> str:
        """The format of a call; `values` maps arguments to layouts (tensors) or values (attributes)."""
        if self.format_argument:
            name = values[self.format_argument]
            if name not in self.inputs:
                known = ", ".join(self.inputs)
                raise ValueError(f"For {op}, {self.format_argument} should be one of {known}, but got {name!r}.")
            return str(name)
        if self.format_rank:
            rank = len(values[self.format_rank].tensor_map)
            by_rank = {len(dims[self.format_rank]): name for name, dims in self.inputs.items()}
            if rank not in by_rank:
                known = " or ".join(str(number) for number in by_rank)
                raise ValueError(f"For {op}, {self.format_rank} should have {known} dims, but got {rank}.")
            return by_rank[rank]
        return next(iter(self.inputs))

    def infer(self, op: str, values: Mapping[str, Any]) -> Inference:
        """Check the input layouts of a call and derive the rest.

        Args:
            op: The operator's name, for messages.
            values: Argument -> Layout (a tensor), None (an absent tensor) or the value (an attribute).

        Raises:
            ValueError: If the layouts are not ones that the operator takes.
        """
        form = self.format_of(op, values)
        given = {name: values[name] for name in self.inputs[form] if values[name] is not None}
        call = _Call(op, self, form, given)
        call.check_mesh()
        call.check_tensors()
        axes = call.assign_axes()
        call.check_context_parallel(axes)
        call.check_axes_once(axes)
        return Inference(call.output_layouts(axes), call.cuts(axes), call.groups(axes))


class _Call:
    """One inference: the layouts of the tensors that were given, in one format."""

    def __init__(self, op: str, rule: LayoutRule, form: str, layouts: Mapping[str, Layout]) -> None:
        self.op = op
        self.rule = rule
        self.form = form
        self.layouts = layouts
        self.dims = rule.inputs[form]

    @property
    def mesh(self) -> DeviceMesh:
        return next(iter(self.layouts.values())).mesh

    def axis_words(self, axes: Axes) -> str:
        return "(" + ", ".join(self.mesh.axis_names[axis] for axis in axes) + ")" if axes else "no axis"

    def place(self, name: str, dim: int) -> str:
        return f"{self.dims[name][dim]} (dim {dim}) of {name}"

    def check_mesh(self) -> None:
        first = next(iter(self.layouts))
        for name, layout in self.layouts.items():
            if layout.mesh is not self.mesh and layout.mesh != self.mesh:
                raise ValueError(
                    f"For {self.op}, {name} should lie on the mesh of {first}, {self.mesh}, but got {layout.mesh}."
                )

    def check_tensors(self) -> None:
        """Rank, Partial and dims that must be replicated."""
        for name, layout in self.layouts.items():
            dims, tensor_map = self.dims[name], layout.tensor_map
            if len(tensor_map) != len(dims):
                raise ValueError(
                    f"For {self.op}, {name} should have the {len(dims)} dims ({', '.join(dims)}) "
                    f"of format {self.form}, but got {len(tensor_map)} dims with tensor_map={tensor_map}."
                )
            if layout.is_partial():
                raise ValueError(
                    f"For {self.op}, {name} should not be Partial, but got placements={layout.placements}. "
                    "Redistribute it to Replicate() or Shard(dim) first."
                )
            for index, dim in enumerate(dims):
                if layout.dim_axes(index) and dim not in self.rule.shard:
                    raise ValueError(
                        f"For {self.op}, {self.place(name, index)} should be replicated, "
                        f"but got tensor_map={tensor_map}."
                    )

    def assign_axes(self) -> dict[str, Axes]:
        """Every dim's mesh axes; tensors that have the dim agree or are replicated there."""
        axes: dict[str, Axes] = {}
        owner: dict[str, str] = {}
        for name, layout in self.layouts.items():
            for index, dim in enumerate(self.dims[name]):
                found = layout.dim_axes(index)
                if not found:
                    continue
                if dim in axes and axes[dim] != found:
                    first = owner[dim]
                    raise ValueError(
                        f"For {self.op}, {self.place(name, index)} should be sharded over {self.axis_words(axes[dim])} "
                        f"like {self.place(first, self.dims[first].index(dim))}, or replicated, "
                        f"but got {self.axis_words(found)}: tensor_map={layout.tensor_map}."
                    )
                axes.setdefault(dim, found)
                owner.setdefault(dim, name)
        return axes

    def sequence_dims(self) -> tuple[str | None, str | None]:
        """The query and the key dim of this format."""
        context = self.rule.context_parallel
        if context is None:
            return None, None
        present = {dim for dims in self.dims.values() for dim in dims}
        query = next((dim for dim in context.query if dim in present), None)
        return query, next((dim for dim in context.key if dim in present), None)

    def owner(self, dim: str) -> str:
        """Dim `dim` as a place in the first given tensor that has it."""
        name = next(name for name in self.layouts if dim in self.dims[name])
        return self.place(name, self.dims[name].index(dim))

    def check_context_parallel(self, axes: Mapping[str, Axes]) -> None:
        """The key dim lies on all axes of the query dim (data parallelism), or neither is sharded."""
        query, key = self.sequence_dims()
        if query is None or key is None:
            return
        of_query, of_key = axes.get(query, ()), axes.get(key, ())
        if of_query[: len(of_key)] != of_key:
            raise ValueError(
                f"For {self.op}, {self.owner(key)} should be sharded over the first axes of {self.owner(query)}, "
                f"{self.axis_words(of_query)}, or replicated, but got {self.axis_words(of_key)}."
            )
        if of_query != of_key:
            raise ValueError(
                f"For {self.op}, {self.owner(query)} should be sharded only over axes that shard {self.owner(key)} "
                f"too, {self.axis_words(of_key)}, but got {self.axis_words(of_query)}: context parallelism is not "
                "supported. "
                f"Redistribute so that {query} is replicated over {self.axis_words(of_query[len(of_key) :])}."
            )

    def check_axes_once(self, axes: Mapping[str, Axes]) -> None:
        """No mesh axis shards two dims of the operator, but for the key dim, which follows the query dim."""
        _, key = self.sequence_dims()
        taken: dict[int, str] = {}
        for dim, found in axes.items():
            if dim == key:
                continue
            for axis in found:
                if axis in taken:
                    raise ValueError(
                        f"For {self.op}, the mesh axis {self.mesh.axis_names[axis]} should shard one dim, "
                        f"but got both {self.owner(taken[axis])} and {self.owner(dim)}."
                    )
                taken[axis] = dim

    def output_layouts(self, axes: Mapping[str, Axes]) -> tuple[Layout, ...]:
        return tuple(self.output_layout(name, dims, axes) for name, dims in self.rule.outputs[self.form].items())

    def output_layout(self, name: str, dims: tuple[str, ...], axes: Mapping[str, Axes]) -> Layout:
        """An output has the axes of its own dims; the other axes in use are combined as the rule says."""
        own = {axis for dim in dims for axis in axes.get(dim, ())}
        combine = self.rule.combine.get(name, "same")
        partial: list[str | None] = [None] * self.mesh.ndim
        if combine != "same":
            for axis in {axis for found in axes.values() for axis in found} - own:
                partial[axis] = combine
        last = self.mesh.ndim - 1
        tensor_map = tuple(_entry(tuple(last - axis for axis in axes.get(dim, ()))) for dim in dims)
        return Layout.from_tensor_map(self.mesh, tensor_map, tuple(partial))

    def cuts(self, axes: Mapping[str, Axes]) -> tuple[Cut, ...]:
        """What has to be cut of tensors that are replicated on a dim that another one has sharded."""
        found = []
        for name, layout in self.layouts.items():
            for index, dim in enumerate(self.dims[name]):
                if axes.get(dim) and not layout.dim_axes(index):
                    part, count = self.part(axes[dim])
                    found.append(Cut(name, index, part, count))
        return tuple(found)

    def part(self, axes: Axes) -> tuple[int, int]:
        """This rank's part and the number of parts of a dim on `axes`, in mixed radix."""
        index, count = 0, 1
        coordinate = self.mesh.get_coordinate()
        if coordinate is None:
            raise ValueError(f"For {self.op}, rank {self.mesh.rank} is not on the mesh {self.mesh} of the arguments.")
        for axis in axes:
            index = index * self.mesh.mesh_shape[axis] + coordinate[axis]
            count *= self.mesh.mesh_shape[axis]
        return index, count

    def groups(self, axes: Mapping[str, Axes]) -> int:
        """How many groups hold documents of their own: one for each part of the key dim."""
        _, key = self.sequence_dims()
        count = 1
        for axis in axes.get(key, ()) if key else ():
            count *= self.mesh.mesh_shape[axis]
        return count


def _entry(axes: Axes) -> int | Axes:
    """One entry of a tensor_map: -1, one axis, or several."""
    if not axes:
        return -1
    return axes[0] if len(axes) == 1 else axes
