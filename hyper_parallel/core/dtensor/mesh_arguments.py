# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of what a device mesh is made of."""

from __future__ import annotations

import math
from collections.abc import Sequence


def checked_shape(mesh_shape: Sequence[int]) -> tuple[int, ...]:
    """Return the extents as a tuple; each is at least 1."""
    shape = _checked_integers("mesh_shape", mesh_shape)
    if not shape or min(shape) < 1:
        raise ValueError(f"mesh_shape should hold at least one extent, each at least 1, but got {shape}")
    return shape


def checked_names(names: Sequence[str] | None, shape: tuple[int, ...]) -> tuple[str, ...] | None:
    """Return the names as a tuple: as many as there are extents, all different; None stays None."""
    if names is None:
        return None
    if not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"mesh_dim_names should be a tuple of str, but got {names!r}")
    if len(names) != len(shape):
        raise ValueError(f"mesh_dim_names should name the {len(shape)} axes of mesh_shape {shape}, but got {names!r}")
    if len(set(names)) != len(names):
        raise ValueError(f"mesh_dim_names should be different names, but got {names!r}")
    if "" in names or "None" in names:
        raise ValueError(f"an axis should not be called '' or 'None' (which means unsplit in a layout): {names!r}")
    return tuple(names)


def checked_ranks(rank_list: Sequence[int] | None, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the ranks as a tuple that fills the mesh; 0, 1, 2, ... for None."""
    count = math.prod(shape)
    if rank_list is None:
        return tuple(range(count))
    ranks = _checked_integers("rank_list", rank_list)
    if len(ranks) != count:
        raise ValueError(
            f"rank_list should hold the {count} ranks of mesh_shape {shape}, but got {len(ranks)}: {ranks}"
        )
    if min(ranks) < 0 or len(set(ranks)) != len(ranks):
        raise ValueError(f"rank_list should hold different ranks from 0 on, but got {ranks}")
    return ranks


def _checked_integers(what: str, values: Sequence[int]) -> tuple[int, ...]:
    if not isinstance(values, tuple | list):
        raise TypeError(f"{what} should be a tuple of int, but got {values!r} ({type(values).__name__})")
    if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        raise TypeError(f"{what} should hold int only, but got {values!r}")
    return tuple(values)
