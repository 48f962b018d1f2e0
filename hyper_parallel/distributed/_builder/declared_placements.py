# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Placements as the caller of `local_region` writes them: by parameter, and for one output or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from hyper_parallel.core.dtensor.placement_map import checked_placements
from hyper_parallel.core.dtensor.placement_types import Placement

if TYPE_CHECKING:
    from hyper_parallel.core.dtensor.device_mesh import DeviceMesh

Placements: TypeAlias = Sequence[Placement]


@dataclass(frozen=True)
class Outputs:
    """``out_placements`` as an entry per output; flat if it was given as the placements of one."""

    entries: tuple[tuple[Placement, ...] | None, ...]
    is_flat: bool


def checked_inputs(
    mesh: DeviceMesh, in_placements: Mapping[str, Placements | None] | None
) -> dict[str, tuple[Placement, ...] | None]:
    if in_placements is None:
        return {}
    if not isinstance(in_placements, Mapping) or not all(isinstance(name, str) for name in in_placements):
        raise TypeError(
            f"local_region, in_placements should be a dict of parameter names and placements, but got {in_placements!r}"
        )
    return {name: _checked(mesh, f"in_placements[{name!r}]", item) for name, item in in_placements.items()}


def checked_outputs(
    mesh: DeviceMesh, out_placements: Placements | Sequence[Placements | None] | None
) -> Outputs | None:
    if out_placements is None:
        return None
    if not isinstance(out_placements, tuple | list):
        raise TypeError(
            "local_region, out_placements should be a tuple of placements, or of one such tuple (or None) per output, "
            f"but got {out_placements!r}"
        )
    if not out_placements:
        raise ValueError(
            "local_region, out_placements should not be empty: give the placements of the output, one entry per output "
            "if there are several, or None for the raw result"
        )
    if all(isinstance(item, Placement) for item in out_placements):
        try:
            return Outputs((_checked(mesh, "out_placements", out_placements),), is_flat=True)
        except ValueError as error:
            raise ValueError(f"{error}; for several outputs write one tuple of placements per output") from None
    entries = [_checked(mesh, f"out_placements[{place}]", item) for place, item in enumerate(out_placements)]
    return Outputs(tuple(entries), is_flat=False)


def _checked(mesh: DeviceMesh, where: str, placements: Any) -> tuple[Placement, ...] | None:
    if placements is None:
        return None
    try:
        return checked_placements(mesh, placements)
    except (TypeError, ValueError) as error:
        raise type(error)(f"local_region, {where}: {error}") from None
