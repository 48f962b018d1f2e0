# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Declaring boundaries in a module tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.core.dtensor.placement_map import check_mesh
from hyper_parallel.distributed._builder.boundary import boundary_of, set_boundary
from hyper_parallel.distributed._builder.contract import suggestion
from hyper_parallel.distributed._builder.parameter_cuts import check_ties, check_values_of, cut, cut_parts
from hyper_parallel.distributed._builder.plan import chosen_specs, globs_of, nearest_boundaries, planned
from hyper_parallel.distributed._builder.undeclared_parts import warn_of_undeclared_parts
from hyper_parallel.distributed.recipe_spec import ModuleShardingSpec
from hyper_parallel.platform import get_platform

ModuleType = TypeVar("ModuleType")
MODES = ("production", "validate")


def apply_sharding(
    module: ModuleType,
    mesh: DeviceMesh,
    plan_overrides: Mapping[str, ModuleShardingSpec | None],
    mode: str = "production",
) -> ModuleType:
    """Give modules of a tree the boundaries of a plan, in place. Called on every rank of the mesh.

    The declared parameters become this rank's part of them; they stay the same objects, under the same names. Every
    rank has them whole before. If anything is wrong with the plan, nothing is changed.

    Args:
        module: the root: ``nn.Module`` on torch, ``nn.Cell`` on MindSpore.
        mesh: the mesh, made on this rank.
        plan_overrides: a boundary for each module name ("" is the root) or glob (``"layers.*.attn"``; ``*`` matches
            dots too, and never the root). An exact name goes before a glob; with None it has no boundary.
        mode: "production" works on local tensors. "validate" keeps DTensors and compares the inputs and outputs of
            every boundary with its declaration, at the cost of collectives. It warns (RuntimeWarning) of parameters
            that are cut where no outputs are declared.

    Returns:
        The module.

    Raises:
        TypeError: something else than a module, a mesh or a plan.
        ValueError: a key that matches nothing, two globs that differ about a module, names or mesh axes that do not
            exist, a parameter that cannot be cut evenly, a tree that has boundaries already.
        PlacementMismatchError: in validate mode, parameters that differ between the ranks; by the calls of the
            modules, whatever else is not as declared.
        RuntimeError: a platform without modules.
    """
    modules = get_platform().modules
    if not modules.is_module(module):
        raise TypeError(f"apply_sharding takes a module ({modules.Module.__name__}), but got {type(module).__name__}")
    check_mesh(mesh)
    mesh.check_current_rank()
    if mode not in MODES:
        meant = suggestion(str(mode), MODES, most=1)
        raise ValueError(f"mode should be 'production' or 'validate', but got {mode!r}; {meant}")
    tree = modules.named_modules(module)
    for name, below in tree.items():
        if boundary_of(below) is not None:
            raise ValueError(
                f"module {name!r} has a boundary already; declare all boundaries of a tree in one plan, once"
            )
    specs = chosen_specs(tree, plan_overrides)
    boundaries = planned(tree, mesh, specs, globs_of(tree, plan_overrides), validate=mode == "validate")
    check_ties(tree, boundaries)
    if mode == "validate":
        check_values_of(boundaries)
        warn_of_undeclared_parts(boundaries, specs, nearest_boundaries(tree, specs))
    cut(cut_parts(boundaries))
    for boundary in boundaries:
        set_boundary(boundary)
    return module
