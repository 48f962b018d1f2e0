# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Whether the ranks hold what a declaration says. It takes collectives for each tensor: for validate mode."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from hyper_parallel.core.dtensor.dtensor import DTensor
from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.shard.rank_check import gathered
from hyper_parallel.distributed.recipe_spec import PlacementMismatchError
from hyper_parallel.platform import get_platform

MOST_DIMS = 15
"""As many extents are compared before values are."""
SAME, DIFFERENT, UNTOLD = 0, 1, 2


def check_values(local: Any, layout: Layout, module: str, stage: str, name: str, *, suspect: bool = False) -> None:
    """Compare what the ranks of a mesh hold. All of them come to the same verdict.

    Args:
        local: this rank's part, in ``layout`` as declared.
        suspect: warn of parts that are declared Shard or Partial but are the same on every rank.

    Raises:
        PlacementMismatchError: parts of different shapes, or different values where Replicate is declared.
    """
    like = DTensor.from_layout(get_platform().modules.detached(local), layout)
    _check_shapes(like, module, stage, name)
    found = gathered([_verdict(like, axis) for axis in range(layout.mesh.ndim)], like.to_local(), layout.mesh)
    for axis, (axis_name, placement) in enumerate(layout.alias_placements):
        verdicts = {of_rank[axis] for of_rank in found}
        if placement.is_replicate() and DIFFERENT in verdicts:
            raise PlacementMismatchError(
                module,
                stage,
                name,
                layout.placements,
                f"values that differ between the ranks along {axis_name!r}",
                f"Declare how they lie there (Shard, or Partial if they are to be summed), or give every rank along "
                f"{axis_name!r} the same.",
            )
        if suspect and not placement.is_replicate() and verdicts == {SAME} and layout.mesh.mesh_shape[axis] > 1:
            whole = "every rank passes the whole" if stage == "in_src" else "the forward has them whole"
            warnings.warn(
                f"For module {module!r}, {stage} declares {placement} on {axis_name!r} for {name!r}, but all ranks "
                f"along it hold the same values. That may be chance; if {whole}, declare Replicate().",
                RuntimeWarning,
                stacklevel=4,
            )


def _check_shapes(like: DTensor, module: str, stage: str, name: str) -> None:
    shape = like.local_shape
    numbers = [len(shape), *shape, *([0] * MOST_DIMS)][: 1 + MOST_DIMS]
    found = gathered(numbers, like.to_local(), like.device_mesh)
    if any(of_rank != found[0] for of_rank in found):
        ranks = like.device_mesh.rank_list
        listed = ", ".join(
            f"{tuple(of_rank[1 : 1 + of_rank[0]])} on rank {rank}" for rank, of_rank in zip(ranks, found, strict=True)
        )
        raise PlacementMismatchError(
            module, stage, name, like.placements, f"parts of different shapes: {listed}", "Every part has the same."
        )


def _verdict(like: DTensor, axis: int) -> int:
    """Compare along an axis with the part of its first rank."""
    mesh = like.device_mesh
    if mesh.mesh_shape[axis] == 1:
        return SAME
    platform = get_platform()
    gathered_values = platform.all_gather(like.to_local().reshape(-1), 0, mesh, axis)
    parts = platform.modules.to_array(gathered_values).reshape(mesh.mesh_shape[axis], -1)
    if like.placements[axis].is_replicate():
        return SAME if all(_is_close(parts[0], part) for part in parts[1:]) else DIFFERENT
    if not np.any(parts) or (parts.dtype.kind not in "fc" and np.all(parts == parts.flat[0])):
        return UNTOLD  # tells nothing, as a mask does that lets all through
    return SAME if all(np.array_equal(parts[0], part) for part in parts[1:]) else DIFFERENT


def _is_close(first: Any, other: Any) -> bool:
    """Whether two parts differ by rounding at most: ranks may sum in different orders."""
    if first.dtype.kind not in "fc":
        return np.array_equal(first, other)
    finite = np.abs(first[np.isfinite(first)])
    scale = float(finite.max()) if finite.size else 0.0
    tolerance = scale * float(np.sqrt(np.finfo(first.dtype).eps))
    return np.allclose(first, other, rtol=0.0, atol=tolerance, equal_nan=True)
