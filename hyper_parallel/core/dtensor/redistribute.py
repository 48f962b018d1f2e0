# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""From one layout to another: which collectives and cuts lead there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.platform import get_platform

if TYPE_CHECKING:
    from hyper_parallel.core.dtensor.device_mesh import DeviceMesh

    class Function:
        """The platform's differentiable function."""

        @classmethod
        def apply(cls, *args: Any) -> Any: ...
else:
    Function = get_platform().Function


@dataclass(frozen=True)
class Step:
    """One operation along one mesh axis.

    ``reduce`` carries out the pending reduction ``op``; ``gather`` joins the innermost chunks of ``dim``; ``cut``
    keeps this rank's chunk of ``dim``; ``move`` is a gather of ``dim`` and a cut of ``to_dim`` in one; ``spread`` turns
    equal values into operands of the reduction ``op``.
    """

    kind: str
    axis: int
    dim: int = 0
    op: str = ""
    to_dim: int = 0

    def run(self, local: Any, mesh: DeviceMesh) -> Any:
        """Return this rank's part after the step."""
        platform = get_platform()
        if self.kind == "reduce":
            return platform.all_reduce(local, self.op, mesh, self.axis)
        if self.kind == "gather":
            return platform.all_gather(local, self.dim, mesh, self.axis)
        if self.kind == "move":
            return platform.all_to_all(local, self.to_dim, self.dim, mesh, self.axis)
        position = mesh.get_local_rank(self.axis)
        if self.kind == "cut":
            length = local.shape[self.dim] // mesh.mesh_shape[self.axis]
            return platform.narrow(local, self.dim, position * length, length)
        # The sum has the value on one rank only; avg, max and min of equal values are the value.
        return platform.zeros_like(local) if self.op == "sum" and position else local


@lru_cache(maxsize=4096)
def steps_between(source: Layout, target: Layout) -> tuple[Step, ...]:
    """Return the steps from one layout to another on the same mesh.

    Reductions come first, on the smallest parts. All gathers come before all cuts, since an axis may move from one
    dimension to another: at once, if it is the last to be gathered and the first to be cut. On a dimension, what both
    layouts have in common (the outer cuts) stays.
    """
    reduces, spreads = [], []
    for axis, (before, after) in enumerate(zip(source.partial, target.partial, strict=True)):
        if before is not None and before != after:
            reduces.append(Step("reduce", axis, op=before))
        if after is not None and before != after:
            spreads.append(Step("spread", axis, op=after))
    gathers, cuts = [], []  # for every dimension
    for dim in range(source.ndim):
        held, wanted = source.dim_axes(dim), target.dim_axes(dim)
        kept = _common_prefix(held, wanted)
        gathers.append([Step("gather", axis, dim=dim) for axis in reversed(held[kept:])])
        cuts.append([Step("cut", axis, dim=dim) for axis in wanted[kept:]])
    moves = _moves(gathers, cuts)
    return (*reduces, *chain(*gathers), *moves, *chain(*cuts), *spreads)


def _moves(gathers: list[list[Step]], cuts: list[list[Step]]) -> list[Step]:
    """Take out the gathers and cuts that are moves, and return these in the order in which they can be done."""
    destinations = {steps[0].axis: dim for dim, steps in enumerate(cuts) if steps}
    waiting = {
        dim: destinations[steps[-1].axis]
        for dim, steps in enumerate(gathers)
        if steps[-1:] and steps[-1].axis in destinations
    }
    moves = []
    while waiting:
        # A dimension takes a new cut only after its old ones have gone.
        free = [dim for dim, to_dim in waiting.items() if to_dim not in waiting]
        if not free:
            waiting.popitem()  # they wait for each other in a circle: one of them is gathered and cut
            continue
        to_dim = waiting.pop(free[0])
        axis = gathers[free[0]].pop().axis
        cuts[to_dim].pop(0)
        moves.append(Step("move", axis, dim=free[0], to_dim=to_dim))
    return moves


def _common_prefix(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    length = 0
    while length < min(len(first), len(second)) and first[length] == second[length]:
        length += 1
    return length


def redistribute_local(local: Any, source: Layout, target: Layout, gradient: Callable[[], Layout] | None = None) -> Any:
    """Return this rank's part of a tensor in layout ``target``, given its part in layout ``source``.

    Differentiable. A gradient is this rank's: for a replicated (or reduced) tensor the same on every rank, for a
    sharded one its chunk. So the gradient takes the way back, and Partial counts as Replicate on it.

    Where the ranks' gradients of the result are shares of one instead, ``gradient`` returns how that lies, Partial
    where they are to be added up. It is called in the backward.
    """
    source.mesh.check_current_rank()
    return _Redistribution.apply(local, source, target, gradient)


class _Redistribution(Function):
    @staticmethod
    def forward(ctx: Any, local: Any, source: Layout, target: Layout, gradient: Callable[[], Layout] | None) -> Any:
        ctx.source, ctx.target, ctx.gradient = source, target, gradient
        return _run(local, source, target)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        source: Layout = ctx.source
        target: Layout = ctx.target
        for step in steps_between(source, target):
            if step.op in ("max", "min"):
                raise ValueError(f"Partial({step.op!r}) has no gradient: redistribution from {source} to {target}")
            if step.op == "avg":  # each of the operands has its share of the gradient
                count = source.mesh.mesh_shape[step.axis]
                grad = grad / count if step.kind == "reduce" else grad * count
        held = _without_partial(target) if ctx.gradient is None else ctx.gradient()
        # A gradient that is to be differentiated takes its way back by the same rules, not by those of the collectives.
        run = _redistributed if get_platform().records_backward else _run
        return run(grad, held, _without_partial(source)), None, None, None


def _redistributed(local: Any, source: Layout, target: Layout) -> Any:
    return _Redistribution.apply(local, source, target, None)


def _run(local: Any, source: Layout, target: Layout) -> Any:
    for step in steps_between(source, target):
        local = step.run(local, source.mesh)
    return local


def _without_partial(layout: Layout) -> Layout:
    return Layout.from_tensor_map(layout.mesh, layout.tensor_map)
