# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The meshes on which cases lie."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

LINE = {"cp": 2}
GRID = {"dp": 2, "cp": 2}
IDLE = {"dp": 2, "cp": 2, "tp": 2}
"""A mesh whose last axis only replicates."""
UNEQUAL = {"dp": 2, "cp": 3}
MESHES: tuple[Mapping[str, int], ...] = (LINE, GRID, {"cp": 3}, UNEQUAL, IDLE)


def meshes_of(ranks: int) -> tuple[Mapping[str, int], ...]:
    """The meshes that have so many ranks."""
    return tuple(mesh for mesh in MESHES if prod(mesh.values()) == ranks)
