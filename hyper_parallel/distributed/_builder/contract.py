# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A contract on a mesh: from names and axes to layouts, planned once per name and number of dimensions."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.dtensor.placement_types import Placement, Replicate
from hyper_parallel.core.dtensor.redistribute import redistribute_local
from hyper_parallel.distributed.recipe_spec import NamedPlacements
from hyper_parallel.platform import get_platform


def on_mesh(mesh: DeviceMesh, placements: NamedPlacements, where: str) -> tuple[Placement, ...]:
    """Return one placement for every axis of the mesh; what is not named is replicated.

    Raises:
        ValueError: an axis that the mesh does not have; the message begins with ``where``.
    """
    found: list[Placement] = [Replicate()] * mesh.ndim
    for axis, placement in placements.items():
        try:
            found[mesh.axis_index(axis)] = placement
        except (TypeError, ValueError) as error:
            raise ValueError(f"{where}: {error}") from error
    return tuple(found)


def suggestion(word: str, known: Iterable[str], most: int = 3) -> str:
    """Return the nearest of the known words, ``most`` of them, as the end of a message; all if none is near."""
    words = sorted(known)
    close = difflib.get_close_matches(word, words, n=most, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    return f"there are {', '.join(map(repr, words))}" if words else "there are none"


def listed(words: Sequence[str], most: int = 8) -> str:
    """Return the first words as a part of a message, and how many more there are; "none" if there are none."""
    more = [f"and {len(words) - most} more"] if len(words) > most else []
    return ", ".join([*words[:most], *more]) or "none"


class Way(NamedTuple):
    """From one layout to another, for tensors of one number of dimensions."""

    source: Layout
    target: Layout


class Transition:
    """How one input or output goes from its first placements to its second ones."""

    def __init__(self, where: str, mesh: DeviceMesh, source: NamedPlacements, target: NamedPlacements) -> None:
        self.where = where
        """For messages, such as "For module 'attn', input 'x'"."""
        self.mesh = mesh
        self.source = on_mesh(mesh, source, where)
        self.target = on_mesh(mesh, target, where)
        self._ways: dict[int, Way] = {}

    def way(self, ndim: int) -> Way:
        """Return the layouts for a tensor of ``ndim`` dimensions.

        Raises:
            ValueError: a placement that cuts a dimension that such a tensor does not have.
        """
        found = self._ways.get(ndim)
        if found is None:
            try:
                source = Layout.from_placements(self.mesh, self.source, ndim)
                found = self._ways[ndim] = Way(source, Layout.from_placements(self.mesh, self.target, ndim))
            except ValueError as error:
                raise ValueError(f"{self.where}: {error}") from error
        return found

    def run(self, local: Any) -> Any:
        """Return this rank's part in the second placements, given that in the first ones. Differentiable.

        Raises:
            ValueError: a dimension that cannot be cut evenly.
        """
        source, target = self.way(local.ndim)
        if source is target:
            return local
        try:
            target.get_local_shape(source.get_global_shape(tuple(local.shape)))
        except ValueError as error:
            raise ValueError(f"{self.where}: {error}") from error
        return redistribute_local(local, source, target)


def check_local(value: Any, where: str) -> None:
    """Raise TypeError if a value under a contract is no plain tensor of the framework."""
    if not get_platform().is_tensor(value):
        kind = type(value).__qualname__
        if type(value).__module__ != "builtins":
            kind = f"{type(value).__module__}.{kind}"
        raise TypeError(f"{where} is declared, so it should be a tensor, but got {kind}")
