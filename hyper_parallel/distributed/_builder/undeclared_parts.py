# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Plans that cut parameters and say nothing of what comes out: each rank returns its part of the result."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

from hyper_parallel.distributed._builder.boundary import Boundary
from hyper_parallel.distributed._builder.contract import listed
from hyper_parallel.distributed._builder.gradient_flow import axes_that_cut
from hyper_parallel.distributed.recipe_spec import ModuleShardingSpec, declared


def warn_of_undeclared_parts(
    boundaries: Sequence[Boundary], specs: Mapping[str, ModuleShardingSpec], around: Mapping[str, str | None]
) -> None:
    """Warn of every region whose parameters are cut, while neither it nor one around it declares its outputs.

    Args:
        boundaries: those of a tree.
        specs: what each declares, by name.
        around: for every module the boundary around it.
    """
    cut: dict[str, list[str]] = {}
    for boundary in boundaries:
        paths = [
            item.path
            for item in boundary.parameters
            if axes_that_cut(boundary.mesh.mesh_shape, [item.layout.placements])
        ]
        region = _undeclared_region(boundary.name, specs, around) if paths else None
        if region is not None:
            below = boundary.name[len(region) :].lstrip(".")
            cut.setdefault(region, []).extend(f"{below}.{path}" if below else path for path in paths)
    for region, paths in cut.items():
        missing = " and no ".join(field for field in ("in_src", "out_src") if getattr(specs[region], field) is None)
        warnings.warn(
            f"For module {region!r}, parameters are cut ({listed(paths)}), but it has no {missing}: each rank returns "
            "what it makes of its own part. Declare how inputs arrive (in_src) and how the forward yields its outputs "
            "(out_src; with out_dst to sum or gather them). out_src={'out': None} says that they are right as is.",
            RuntimeWarning,
            stacklevel=3,
        )


def _undeclared_region(
    name: str, specs: Mapping[str, ModuleShardingSpec], around: Mapping[str, str | None]
) -> str | None:
    """The boundary that the work of ``name`` leaves without a declaration; None if there is none."""
    declaring = []
    region: str | None = name
    while region is not None:
        if specs[region].in_src is not None or specs[region].out_src is not None:
            declaring.append(region)
        region = around[region]
    if not declaring:
        return name
    innermost = specs[declaring[0]]
    # A forward on DTensors yields DTensors, which say how they lie.
    is_told = innermost.out_src is not None or (innermost.region_dispatch and declared(innermost.in_src))
    return None if is_told or len(declaring) > 1 else declaring[0]
