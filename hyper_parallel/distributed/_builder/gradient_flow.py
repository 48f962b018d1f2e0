# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""How gradients lie in the regions of a tree, and what each boundary does to them.

A rank's forward does its own part of the work. Where a mesh axis cuts the work of a region, what is replicated on the
axis gets on each rank the gradient of that rank's part: it is *partial*, and the sum over the axis is the gradient.
Where an axis cuts nothing, every rank computes the same, and gradients are *whole*. Outside of all boundaries they are
whole.

So a boundary sums what its region leaves partial and what is to be whole around it; and it shares what is whole on one
side out among the ranks, where it is to be partial on the other. Shards need neither: each rank has its chunk's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hyper_parallel.core.dtensor.placement_types import Partial, Placement

Axes = tuple[int, ...]
Placements = Sequence[Placement]


class Moved(Protocol):
    """An input or output that goes from one placement to another."""

    source: tuple[Placement, ...]
    target: tuple[Placement, ...]


@dataclass
class Edge:
    """What happens to the gradient of one input or output.

    Attributes:
        sums: the mesh axes over which it is summed.
        shares: among how many ranks it is shared out.
    """

    sums: Axes = ()
    shares: int = 1


@dataclass
class Region:
    """The work inside of one boundary.

    Attributes:
        extents: the extents of the mesh.
        inputs: the declared inputs by name.
        outputs: the declared outputs by name.
        parameters: the placements of its parameters.
        declares: whether the boundary has any contract for inputs or outputs.
        parent: the region around it.
        own: the axes that cut its work.
        inner: the axes on which a boundary inside of it communicates.
        cut: `own`, and those that cut the work around it and on which its boundary does nothing.
    """

    extents: tuple[int, ...]
    inputs: Mapping[str, Moved]
    outputs: Mapping[str, Moved]
    parameters: Iterable[Placements]
    declares: bool
    parent: Region | None
    own: set[int] = field(default_factory=set)
    inner: set[int] = field(default_factory=set)
    cut: set[int] = field(default_factory=set)

    def touched(self) -> set[int]:
        """Return the axes on which the boundary or its region is anything but replicated."""
        edges = [*self.inputs.values(), *self.outputs.values()]
        placements = [*(edge.source for edge in edges), *(edge.target for edge in edges)]
        return self.own | axes_that_cut(self.extents, placements) if self.declares else set()

    def is_partial_around(self, axis: int) -> bool:
        """Return whether gradients of what is replicated on the axis are partial outside of the boundary."""
        return self.parent is not None and axis in self.parent.cut and axis in self.touched()

    def input_edge(self, item: Moved, declared: Placements | None) -> Edge:
        """Return what happens to an input's gradient; ``declared`` is how the backward yields it, if that is said."""
        unfinished = [axis for axis in sorted(self.own) if item.target[axis].is_replicate()]
        if declared is not None:
            unfinished = [axis for axis, placement in enumerate(declared) if placement == Partial("sum")]
        sums, shared = [], []
        for axis in range(len(self.extents)):
            wanted_partial = self.is_partial_around(axis) and item.source[axis].is_replicate()
            stays = wanted_partial and item.target[axis].is_replicate()
            if axis in unfinished and not stays:
                sums.append(axis)
            elif wanted_partial and axis not in unfinished:
                shared.append(axis)
        return Edge(tuple(sums), math.prod(self.extents[axis] for axis in shared))

    def output_edges(self, item: Moved) -> tuple[Edge, Edge]:
        """Return what happens to an output's gradient when it arrives, and after it was redistributed backwards."""
        sums, shared = [], []
        for axis in range(len(self.extents)):
            arrives_partial = self.is_partial_around(axis) and item.target[axis].is_replicate()
            wanted_partial = axis in self.own and item.source[axis].is_replicate() and self._is_partial_inside(axis)
            if arrives_partial and not wanted_partial:
                sums.append(axis)
            elif wanted_partial and not arrives_partial:
                shared.append(axis)
        return Edge(sums=tuple(sums)), Edge(shares=math.prod(self.extents[axis] for axis in shared))

    def _is_partial_inside(self, axis: int) -> bool:
        """Whether a replicated output's gradient is shared out among the ranks along an axis that cuts the work.

        Not if all outputs are whole there and no boundary inside has made them so: then the forward has communicated by
        itself, and its reduction passes the whole gradient on to every rank, as redistribution does.
        """
        return axis in self.inner or any(not item.source[axis].is_replicate() for item in self.outputs.values())


def axes_that_cut(extents: Sequence[int], placements: Iterable[Placements]) -> set[int]:
    """Return the axes of more than one rank on which any of the placements is not Replicate."""
    return {
        axis
        for of_tensor in placements
        for axis, item in enumerate(of_tensor)
        if extents[axis] > 1 and not item.is_replicate()
    }


def derive(regions: Sequence[Region]) -> None:
    """Find out what cuts the work of every region; outer ones stand first."""
    for region in reversed(regions):
        inside = [*(item.target for item in region.inputs.values()), *(item.source for item in region.outputs.values())]
        region.own |= axes_that_cut(region.extents, [*inside, *region.parameters])
        parent = region.parent
        if parent is None:
            continue
        if not region.declares:  # a part of what is around it
            parent.own |= region.own
            parent.inner |= region.inner
            continue
        outside = [
            *(item.source for item in region.inputs.values()),
            *(item.target for item in region.outputs.values()),
        ]
        parent.own |= axes_that_cut(region.extents, outside)
        parent.inner |= region.touched()
    for region in regions:
        around = set() if region.parent is None else region.parent.cut - region.touched()
        region.cut = region.own | around
