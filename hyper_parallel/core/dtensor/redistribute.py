# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""From one layout to another: which collectives and cuts lead there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.dtensor.placement_types import Partial, Placement, Replicate
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
    keeps this rank's chunk of ``dim``; ``scatter`` is a reduction and a cut of ``dim`` in one; ``move`` is a gather of
    ``dim`` and a cut of ``to_dim`` in one; ``spread`` turns equal values into operands of the reduction ``op``.
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
        if self.kind == "scatter":
            return platform.reduce_scatter(local, self.op, self.dim, mesh, self.axis)
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
    dimension to another: at once, if it is the last to be gathered and the first to be cut. Where nothing is gathered,
    the smallest parts are those after the cuts, and a sum along an axis that cuts is a scatter. On a dimension, what
    both layouts have in common (the outer cuts) stays.
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
    if not any(gathers):
        return (*_cuts_and_reductions(reduces, list(chain(*cuts))), *spreads)
    moves = _moves(gathers, cuts)
    return (*reduces, *chain(*gathers), *moves, *chain(*cuts), *spreads)


def _cuts_and_reductions(reduces: list[Step], cuts: list[Step]) -> list[Step]:
    """Return the steps of a way on which nothing is gathered, in their order."""
    cut_along = {step.axis for step in cuts}
    # Along the axis of a cut a reduction is one step with it, or comes before: afterwards the ranks have other chunks.
    sums = {step.axis: step.op for step in reduces if step.axis in cut_along and step.op in ("sum", "avg")}
    before = [step for step in reduces if step.axis in cut_along and step.axis not in sums]
    behind = [step for step in reduces if step.axis not in cut_along]
    cuts = [replace(step, kind="scatter", op=sums[step.axis]) if step.axis in sums else step for step in cuts]
    return [*before, *cuts, *behind]


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


def gradient_layout(what: str, target: Layout, placements: Sequence[Placement] | None) -> Layout | None:
    """Return how ranks hold the gradient of a tensor in layout ``target``; None if it lies as the tensor does.

    Raises:
        TypeError: something that is no sequence of placements.
        ValueError: placements other than those of the tensor, but for Partial("sum").
    """
    if placements is None:
        return None
    whole = _without_partial(target)
    try:
        found = Layout.from_placements(target.mesh, placements, target.ndim)
    except (TypeError, ValueError) as error:
        raise type(error)(f"For {what}, grad_placements: {error}") from None
    # Layouts are compared, since a dim may be written in several ways.
    if found.tensor_map != whole.tensor_map or not set(found.partial) <= {None, "sum"}:
        choices = [f"{item}" if item.is_shard() else f"{item} or {Partial('sum')}" for item in whole.placements]
        raise ValueError(
            f"For {what}, grad_placements should say how ranks hold the gradient of the result, on each of the axes "
            f"{target.mesh.axis_names} {', '.join(choices)}, but got {tuple(placements)}. {Partial('sum')} stands "
            f"where each rank has a share of it, {Replicate()} where all have the same."
        )
    return found if found.is_partial() else None


Gradient = Layout | Callable[[], Layout] | None
"""How ranks hold a gradient, where it is not as the tensor lies; or what returns that in the backward."""


def redistribute_local(local: Any, source: Layout, target: Layout, gradient: Gradient = None) -> Any:
    """Return this rank's part of a tensor in layout ``target``, given its part in layout ``source``.

    Differentiable. A gradient is this rank's: for a replicated (or reduced) tensor the same on every rank, for a
    sharded one its chunk. So the gradient takes the way back, and Partial counts as Replicate on it.

    Where the ranks' gradients of the result are shares of one instead, ``gradient`` says how that lies, Partial where
    they are to be added up.
    """
    source.mesh.check_current_rank()
    return _Redistribution.apply(local, source, target, gradient)


class _Redistribution(Function):
    @staticmethod
    def forward(ctx: Any, local: Any, source: Layout, target: Layout, gradient: Gradient) -> Any:
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
                grad = grad * count if step.kind == "spread" else grad / count
        gradient = ctx.gradient
        if gradient is not None and not isinstance(gradient, Layout):  # which could be called, too
            gradient = gradient()
        held = gradient or _without_partial(target)
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
