# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The parameters that a boundary's forward uses, and what stands in their place while it runs.

The gradient that a parameter gets from a region is summed where the region uses it, and not on the parameter: what a
loss computes from the parameter outside of the region is whole on every rank already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.core.dtensor.dtensor import DTensor
from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.dtensor.placement_types import Replicate
from hyper_parallel.distributed._builder.gradient_flow import Axes
from hyper_parallel.distributed._builder.gradient_sums import with_summed_parameter_gradient
from hyper_parallel.platform import get_platform


@dataclass(eq=False, repr=False)
class RegionParameter:
    """A parameter of a region, at its place in the tree when the plan was made.

    Attributes:
        parameter: the parameter. It may move in the tree: parametrizations and pruning give it another name.
        owner: the module that it belongs to.
        key: its name there.
        path: its name below the boundary's module.
        layout: how it lies on the mesh.
        axes: the mesh axes over which its gradient is summed.
    """

    parameter: Any
    owner: Any
    key: str
    path: str
    layout: Layout
    axes: Axes


# What stands in the place of a parameter now -> the parameter, so that a region inside of another one finds it.
_ORIGINALS: dict[int, Any] = {}

Walk = Iterator[tuple[str, Any, "RegionParameters"]]


@dataclass(eq=False, repr=False)
class RegionParameters:
    """All parameters of a region: those of the plan, and those that have come into the tree later.

    Attributes:
        module: the boundary's module.
        name: its name in the tree.
        mesh: the mesh.
        planned: the parameters of the plan.
        axes: the mesh axes that cut the region. Over these the gradients of later parameters are summed.
    """

    module: Any
    name: str
    mesh: DeviceMesh
    planned: list[RegionParameter]
    axes: Axes

    @contextmanager
    def in_use(self, region_of: Callable[[Any], RegionParameters | None], *, as_dtensors: bool) -> Iterator[None]:
        """While the forward runs, what sums their gradients stands in the place of the parameters.

        Those of inner regions are replaced too, since the forward may use them by itself; an inner boundary puts its
        own in the place of these. ``region_of`` gives the region of a boundary that lies on a module.
        """
        if not (as_dtensors or _ORIGINALS or self.axes or any(item.axes for item in self.planned)):
            yield
            return
        given = self._stand_ins(self._walk(region_of), as_dtensors)
        _ORIGINALS.update((id(stand_in), original) for _, original, stand_in in given)
        try:
            _exchange(self._walk(region_of), {id(held): stand_in for held, _, stand_in in given})
            with get_platform().modules.recomputed_within(lambda: self.in_use(region_of, as_dtensors=as_dtensors)):
                yield
        finally:
            _exchange(self._walk(region_of), {id(stand_in): held for held, _, stand_in in given})
            for _, _, stand_in in given:
                _ORIGINALS.pop(id(stand_in), None)

    def _walk(self, region_of: Callable[[Any], RegionParameters | None]) -> Walk:
        """All modules below, by a path, with the region that they belong to."""
        waiting: list[tuple[str, Any, RegionParameters]] = [("", self.module, self)]
        seen: set[int] = set()
        while waiting:
            path, module, region = waiting.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield path, module, region
            for key, below in get_platform().modules.module_table(module).items():
                if below is not None:
                    inner = region_of(below)
                    waiting.append((f"{path}.{key}" if path else key, below, inner or region))

    def _stand_ins(self, walk: Walk, as_dtensors: bool) -> list[tuple[Any, Any, Any]]:
        """What a table holds, the parameter that it is or stands for, and what is to stand there: only what differs."""
        by_path = {item.path: item for item in self.planned}
        by_parameter = {id(item.parameter): item for item in self.planned}
        found: dict[int, tuple[Any, Any, Any]] = {}
        for prefix, module, region in walk:
            for key, held in _tensors_of(module, by_path if module is self.module else {}):
                original = _ORIGINALS.get(id(held), held)
                if id(original) in found:
                    continue
                path = f"{prefix}.{key}" if prefix else key
                item = by_parameter.get(id(original))
                if item is None and region is self:
                    item = by_path.get(_declared_path(path))
                stand_in = with_summed_parameter_gradient(
                    original, self.mesh, self._axes_of(item, original, region), f"{self.name}.{path}".lstrip(".")
                )
                if as_dtensors and region is self:
                    whole = (Replicate(),) * self.mesh.ndim
                    layout = item.layout if item else Layout.from_placements(self.mesh, whole, original.ndim)
                    stand_in = DTensor.from_layout(stand_in, layout)
                if stand_in is not original:
                    get_platform().modules.mark_stand_in(stand_in, original)
                found[id(original)] = held, original, stand_in
        return [entry for entry in found.values() if entry[0] is not entry[2]]

    def _axes_of(self, item: RegionParameter | None, parameter: Any, region: RegionParameters) -> Axes:
        if item is not None:
            return item.axes
        lies = [other.layout.placements for other in region.planned if other.parameter is parameter]
        # Of an inner region, and used by the forward around it: summed where it is not cut.
        return tuple(axis for axis in self.axes if all(placements[axis].is_replicate() for placements in lies))


def _tensors_of(module: Any, declared: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """The parameters of a module, and tensors that hooks have put in the place of declared ones (as pruning does)."""
    is_tensor = get_platform().is_tensor
    table = get_platform().modules.parameter_table(module)
    for key, held in table.items():
        if held is not None and (is_tensor(held) or id(held) in _ORIGINALS):
            yield key, held
    for key in declared:
        if key not in table and is_tensor(vars(module).get(key)):
            yield key, vars(module)[key]


def _declared_path(path: str) -> str:
    """The name of the parameter that torch's parametrizations have made a parameter from: it lies as that one."""
    owner, found, rest = path.rpartition("parametrizations.")
    name, _, key = rest.partition(".")
    return owner + name if found and key.startswith("original") else path


def _exchange(walk: Walk, by_number: Mapping[int, Any]) -> None:
    """Put others in the place of tensors (by id) in the tables and attributes of modules, also in lists there."""
    if not by_number:
        return
    for _, module, _ in walk:
        _exchange_in(get_platform().modules.parameter_table(module), by_number)
        attributes: dict[str, Any] = module.__dict__
        _exchange_in(attributes, by_number)
        for key, value in list(attributes.items()):
            if type(value) in (list, dict):
                _exchange_in(value, by_number)
            elif type(value) is tuple and any(id(item) in by_number for item in value):
                attributes[key] = tuple(by_number.get(id(item), item) for item in value)


def _exchange_in(container: Any, by_number: Mapping[int, Any]) -> None:
    for key, value in list(container.items() if isinstance(container, dict) else enumerate(container)):
        if id(value) in by_number:
            container[key] = by_number[id(value)]
