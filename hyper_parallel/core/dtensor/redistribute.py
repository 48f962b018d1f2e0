# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""From one layout to another: which collectives and cuts lead there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
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
    keeps this rank's chunk of ``dim``; ``spread`` turns equal values into operands of the reduction ``op``.
    """

    kind: str
    axis: int
    dim: int = 0
    op: str = ""

    def run(self, local: Any, mesh: DeviceMesh) -> Any:
        """Return this rank's part after the step."""
        platform = get_platform()
        if self.kind == "reduce":
            return platform.all_reduce(local, self.op, mesh, self.axis)
        if self.kind == "gather":
            return platform.all_gather(local, self.dim, mesh, self.axis)
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
    dimension to another. On a dimension, what both layouts have in common (the outer cuts) stays.
    """
    reduces, gathers, cuts, spreads = [], [], [], []
    for axis, (before, after) in enumerate(zip(source.partial, target.partial, strict=True)):
        if before is not None and before != after:
            reduces.append(Step("reduce", axis, op=before))
        if after is not None and before != after:
            spreads.append(Step("spread", axis, op=after))
    for dim in range(source.ndim):
        held, wanted = source.dim_axes(dim), target.dim_axes(dim)
        kept = _common_prefix(held, wanted)
        gathers += [Step("gather", axis, dim=dim) for axis in reversed(held[kept:])]
        cuts += [Step("cut", axis, dim=dim) for axis in wanted[kept:]]
    return (*reduces, *gathers, *cuts, *spreads)


def _common_prefix(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    length = 0
    while length < min(len(first), len(second)) and first[length] == second[length]:
        length += 1
    return length


def redistribute_local(local: Any, source: Layout, target: Layout) -> Any:
    """Return this rank's part of a tensor in layout ``target``, given its part in layout ``source``.

    Differentiable. A gradient is this rank's: for a replicated (or reduced) tensor the same on every rank, for a
    sharded one its chunk. So the gradient takes the way back, and Partial counts as Replicate on it.
    """
    source.mesh.check_current_rank()
    return _Redistribution.apply(local, source, target)


class _Redistribution(Function):
    @staticmethod
    def forward(ctx: Any, local: Any, source: Layout, target: Layout) -> Any:
        ctx.source, ctx.target = source, target
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
        return _run(grad, _without_partial(target), _without_partial(source)), None, None


def _run(local: Any, source: Layout, target: Layout) -> Any:
    for step in steps_between(source, target):
        local = step.run(local, source.mesh)
    return local


def _without_partial(layout: Layout) -> Layout:
    return Layout.from_tensor_map(layout.mesh, layout.tensor_map)
