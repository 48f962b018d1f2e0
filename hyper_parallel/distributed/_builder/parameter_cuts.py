# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Parameters become this rank's parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hyper_parallel.core.dtensor.dtensor import distribute_tensor
from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.dtensor.placement_types import Replicate
from hyper_parallel.distributed._builder.boundary import Boundary
from hyper_parallel.distributed._builder.rank_values import check_values
from hyper_parallel.distributed._builder.region_parameters import RegionParameter
from hyper_parallel.platform import get_platform


class Part(NamedTuple):
    """A parameter, and what is to be left of it."""

    parameter: Any
    value: Any


def _all_of(boundaries: Iterable[Boundary]) -> Iterator[tuple[Boundary, RegionParameter, Any]]:
    for boundary in boundaries:
        for item in boundary.parameters:
            yield boundary, item, item.parameter


def check_ties(tree: Mapping[str, Any], boundaries: Sequence[Boundary]) -> None:
    """Raise ValueError if a parameter that several modules share lies in several ways: it has one value.

    Gradients of what is replicated may be summed otherwise in each region.
    """
    used: dict[int, tuple[str, Any]] = {}
    places: set[tuple[int, str]] = set()
    for boundary, item, parameter in _all_of(boundaries):
        at = f"{boundary.name}.{item.path}".lstrip(".")
        places.add((id(item.owner), item.key))
        first, other = used.setdefault(id(parameter), (at, item.layout))
        if other != item.layout:
            raise ValueError(
                f"the parameters {first!r} and {at!r} are one, but lie as {other}, and as {item.layout}; "
                "declare them alike, or untie them"
            )
    for name, module in tree.items():
        for key, parameter in get_platform().modules.parameter_table(module).items():
            if (id(module), key) in places or id(parameter) not in used:
                continue
            first, layout = used[id(parameter)]
            if any(not item.is_replicate() for item in layout.placements):
                raise ValueError(
                    f"the parameters {first!r} and {f'{name}.{key}'.lstrip('.')!r} are one, but only the first lies "
                    f"inside of a boundary, as {layout}; give the other module a boundary too, or untie them"
                )


def check_values_of(boundaries: Iterable[Boundary]) -> None:
    """Raise PlacementMismatchError if the ranks do not start from the same parameters."""
    seen: set[int] = set()
    for boundary, item, parameter in _all_of(boundaries):
        if id(parameter) not in seen:
            seen.add(id(parameter))
            whole = Layout.from_placements(boundary.mesh, (Replicate(),) * boundary.mesh.ndim, parameter.ndim)
            check_values(parameter, whole, boundary.name, "params", item.path)


def cut_parts(boundaries: Iterable[Boundary]) -> list[Part]:
    """Return the parameters that are to be cut with this rank's parts of them. Nothing is changed.

    Raises:
        ValueError: a parameter that holds a gradient.
    """
    modules = get_platform().modules
    found: dict[int, Part] = {}
    for boundary, item, parameter in _all_of(boundaries):
        if id(parameter) in found or all(placement.is_replicate() for placement in item.layout.placements):
            continue
        if modules.has_gradient(parameter):
            raise ValueError(
                f"For module {boundary.name!r}, parameter {item.path!r} holds a gradient of its whole; "
                "set its grad to None before it is cut"
            )
        whole = modules.detached(parameter)
        part = distribute_tensor(whole, boundary.mesh, item.layout.placements).to_local()
        found[id(parameter)] = Part(parameter, modules.copied_part(part))
    return list(found.values())


def cut(parts: Iterable[Part]) -> None:
    """Give the parameters their parts."""
    for parameter, value in parts:
        get_platform().modules.set_value(parameter, value)
