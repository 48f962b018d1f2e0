# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""From a plan to boundaries: which module has which, and what follows for inputs, outputs and parameters."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.distributed._builder.boundary import Boundary, transitions
from hyper_parallel.distributed._builder.contract import Transition, listed, on_mesh, suggestion
from hyper_parallel.distributed._builder.function_module import FunctionModule
from hyper_parallel.distributed._builder.gradient_flow import Edge, Region, axes_that_cut, derive
from hyper_parallel.distributed._builder.input_binding import InputBinding
from hyper_parallel.distributed._builder.region_parameters import RegionParameter, RegionParameters
from hyper_parallel.distributed.recipe_spec import ModuleShardingSpec, declared
from hyper_parallel.platform import get_platform

Tree = Mapping[str, Any]


def chosen_specs(tree: Tree, plan: Mapping[str, ModuleShardingSpec | None]) -> dict[str, ModuleShardingSpec]:
    """Return the boundary of every module that has one, by name, outer ones first.

    Raises:
        TypeError: a plan that is not made of names and specs.
        ValueError: a key that matches nothing, or two that differ about one module.
    """
    if not isinstance(plan, Mapping):
        raise TypeError(f"plan_overrides should map module names to ModuleShardingSpec, but got {plan!r}")
    for key, spec in plan.items():
        if not isinstance(key, str) or not (spec is None or isinstance(spec, ModuleShardingSpec)):
            raise TypeError(f"plan_overrides should map module names to ModuleShardingSpec, but has {key!r}: {spec!r}")
    by_glob = globs_of(tree, plan)
    found: dict[str, ModuleShardingSpec] = {}
    first_names: dict[int, str] = {}
    for name, module in tree.items():
        spec = plan[name] if name in plan else plan[by_glob[name]] if name in by_glob else None
        first = first_names.setdefault(id(module), name)
        if spec is not None and first == name:
            found[name] = spec
        elif spec is not None and found.get(first) != spec:
            raise ValueError(f"the modules {first!r} and {name!r} are one object, but have different boundaries")
    return found


def globs_of(tree: Tree, plan: Mapping[str, ModuleShardingSpec | None]) -> dict[str, str]:
    """Return the glob that matches a module, for every module that is not in the plan by its name.

    Raises:
        ValueError: a key that matches nothing, or two that differ about one module.
    """
    by_glob: dict[str, str] = {}
    for key in plan:
        if key in tree:
            continue
        matched = [name for name in tree if name and fnmatch.fnmatchcase(name, key)]
        if not matched:
            raise ValueError(f"plan_overrides has {key!r}, which matches no module: {suggestion(key, tree)}")
        for name in matched:
            if name in plan:
                continue
            other = by_glob.setdefault(name, key)
            if plan[other] != plan[key]:
                raise ValueError(
                    f"plan_overrides has {other!r} and {key!r}, which both match the module {name!r} and differ; "
                    f"declare {name!r} by its name"
                )
    return by_glob


def planned(
    tree: Tree,
    mesh: DeviceMesh,
    specs: Mapping[str, ModuleShardingSpec],
    globs: Mapping[str, str],
    *,
    validate: bool,
) -> list[Boundary]:
    """Return the boundaries of a tree, outer ones first. Nothing is changed.

    Args:
        tree: all modules by name.
        mesh: the mesh of the placements.
        specs: the boundary of every module that has one.
        globs: by which key of the plan a module has its boundary, where that is not its name.
        validate: whether the boundaries keep DTensors and compare.

    Raises:
        ValueError: names, mesh axes or extents that do not fit.
    """
    around = nearest_boundaries(tree, specs)
    paths = _parameters_of_regions(tree, specs, around)
    regions: dict[str, Region] = {}
    boundaries: dict[str, Boundary] = {}
    outputs_of: dict[str, dict[str, Transition]] = {}
    for name, spec in specs.items():
        with _naming_the_glob(name, globs):
            parent = around[name]
            inputs = transitions("input", name, mesh, declared(spec.in_src), declared(spec.in_dst))
            outputs = outputs_of[name] = transitions(
                "output", name, mesh, declared(spec.out_src), declared(spec.out_dst)
            )
            parameters = _region_parameters(f"For module {name!r}", mesh, spec, paths[name])
            regions[name] = Region(
                extents=mesh.mesh_shape,
                inputs=inputs,
                outputs=outputs,
                parameters=[item.layout.placements for item in parameters],
                declares=spec.in_src is not None or spec.out_src is not None,
                parent=None if parent is None else regions[parent],
            )
            boundaries[name] = Boundary(
                module=tree[name],
                name=name,
                mesh=mesh,
                validate=validate,
                dispatch=spec.region_dispatch,
                takes_locals=parent is not None and not specs[parent].region_dispatch,
                binding=InputBinding(f"For module {name!r}", _forward(tree[name]), inputs),
                inputs={key: (item, Edge()) for key, item in inputs.items()},
                outputs=None if spec.out_src is None else dict.fromkeys(spec.out_src),
                region=RegionParameters(tree[name], name, mesh, parameters, ()),
                original=tree[name].__dict__.get(get_platform().modules.forward_name),
            )
    derive(list(regions.values()))
    for name, boundary in boundaries.items():
        _set_gradients(boundary, specs[name], regions[name], outputs_of[name])
    return list(boundaries.values())


@contextmanager
def _naming_the_glob(name: str, globs: Mapping[str, str]) -> Iterator[None]:
    """Have an error about a module say by which glob it was matched, and what else was."""
    try:
        yield
    except ValueError as error:
        if name not in globs:
            raise
        matched = listed([repr(other) for other, key in globs.items() if key == globs[name]])
        raise ValueError(
            f"{error}. The glob {globs[name]!r} matches {matched} (* matches dots too): narrow "
            "it, or give the others None by their names"
        ) from error


def _set_gradients(
    boundary: Boundary, spec: ModuleShardingSpec, region: Region, outputs: Mapping[str, Transition]
) -> None:
    """Give a boundary what it does to gradients."""
    where = f"For module {boundary.name!r}"
    in_grad, params_grad = declared(spec.in_grad), declared(spec.params_grad)
    for name, (transition, _) in boundary.inputs.items():
        given = on_mesh(boundary.mesh, in_grad[name], f"{where}, in_grad of {name!r}") if name in in_grad else None
        boundary.inputs[name] = transition, region.input_edge(transition, given)
    if boundary.outputs is not None:
        for name, output in outputs.items():
            boundary.outputs[name] = output, *region.output_edges(output)
    boundary.region.axes = tuple(sorted(region.cut))
    for item in boundary.parameters:
        placements = item.layout.placements
        axes = {axis for axis in region.cut if placements[axis].is_replicate()}
        if item.path in params_grad:
            given = on_mesh(boundary.mesh, params_grad[item.path], f"{where}, params_grad of {item.path!r}")
            axes = axes_that_cut(boundary.mesh.mesh_shape, [given])
        item.axes = tuple(sorted(axes))


def _forward(module: Any) -> Any:
    """The method whose parameters are the names of the inputs."""
    if isinstance(module, FunctionModule) and type(module).construct is FunctionModule.construct:
        return module.forward
    return getattr(module, get_platform().modules.forward_name)


def nearest_boundaries(tree: Tree, specs: Mapping[str, Any]) -> dict[str, str | None]:
    """For every module the innermost boundary around it, by the name of the boundary.

    Raises:
        ValueError: a module with a boundary that lies in several regions under several names.
    """
    boundaries = {id(tree[name]): name for name in specs}
    around: dict[str, str | None] = {"": None}
    for name in tree:
        if name:
            outer = name.rpartition(".")[0]
            around[name] = boundaries.get(id(tree[outer]), around[outer])
    for name, module in tree.items():
        first = boundaries.get(id(module), name)
        if around[name] != around[first]:
            raise ValueError(
                f"the modules {first!r} and {name!r} are one object with a boundary, but lie in different regions: "
                f"{_in_words(around[first])} and {_in_words(around[name])}"
            )
    return around


def _in_words(boundary: str | None) -> str:
    return "outside of all" if boundary is None else f"that of {boundary!r}"


Paths = dict[str, tuple[Any, str]]


def _parameters_of_regions(tree: Tree, specs: Mapping[str, Any], around: Mapping[str, str | None]) -> dict[str, Paths]:
    """For every boundary its parameters (path -> module and key): those below it that no inner one has."""
    regions: dict[str, Paths] = {name: {} for name in specs}
    with_boundary = {id(tree[name]) for name in specs}
    for name, module in tree.items():
        if id(module) in with_boundary and name not in specs:
            continue  # another name of a module that has its boundary under the first one
        region = name if name in specs else around[name]
        if region is None:
            continue
        prefix = name[len(region) + 1 :] if region else name
        for key, parameter in get_platform().modules.parameter_table(module).items():
            if parameter is not None:
                regions[region][f"{prefix}.{key}" if prefix else key] = (module, key)
    return regions


def _region_parameters(where: str, mesh: DeviceMesh, spec: ModuleShardingSpec, paths: Paths) -> list[RegionParameter]:
    for field in ("params", "params_grad"):
        for path in getattr(spec, field) or {}:
            if path not in paths:
                raise ValueError(
                    f"{where}, {field} names {path!r}, which is no parameter of it (nor of a module below, outside of "
                    f"inner boundaries): {suggestion(path, paths)}"
                )
    given = declared(spec.params)
    found = []
    for path, (owner, key) in paths.items():
        parameter = get_platform().modules.parameter_table(owner)[key]
        at = f"{where}, parameter {path!r}"
        if not get_platform().is_tensor(parameter):
            raise TypeError(f"{at} should be a plain tensor of the framework, but is a {type(parameter).__name__}")
        placements = on_mesh(mesh, given.get(path, {}), at)
        try:
            layout = Layout.from_placements(mesh, placements, parameter.ndim)
            layout.get_local_shape(tuple(parameter.shape))
        except ValueError as error:
            raise ValueError(f"{at}: {error}") from error
        found.append(RegionParameter(parameter, owner, key, path, layout, ()))
    return found
