# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The smallest extents that satisfy what a spec requires, and that differ wherever they may."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from math import lcm
from typing import Any

from ..spec.expression import Expression, Literal, children
from ..spec.model import Requirement, Spec
from .evaluate import evaluate
from .tensor_dims import rest_dims

PREFERRED = (3, 5, 4, 2, 7, 6, 1, 8)
"""Extents of dims of which nothing is required: small, and different."""
POWERS = (2, 4, 8, 16, 32, 64, 128, 1, 3)
MOST_TRIED = 5_000


class Unsatisfiable(ValueError):
    """No small extents satisfy the requirements."""


class Extents:
    """Extents for the dims of one format."""

    def __init__(self, spec: Spec, form: str) -> None:
        self.spec = spec
        self.form = form
        named = [name for name in spec.dim_docs if name in spec.bound(form) and name not in spec.counts]
        self.dims = [*named, *rest_dims(spec, form)]
        self._tried = 0
        self._pools: dict[tuple[Any, ...], list[int]] = {}

    @cached_property
    def requirements(self) -> list[Requirement]:
        """Those that apply in this format."""
        known = {*self.dims, *(item.name for item in self.spec.arguments)}
        return [item for item in self.spec.requirements if item.names <= known]

    def solve(
        self,
        values: Mapping[str, Any],
        fixed: Mapping[str, int],
        multiples: Mapping[str, int],
        unlike: Mapping[str, int] | None = None,
    ) -> dict[str, int]:
        """Extents for all dims.

        Args:
            values: Arguments with their values: attributes, lengths, the dims of tensors, None for what is absent.
            fixed: Dims whose extent is given.
            multiples: Dims that have to be divisible, and by what.
            unlike: Extents that a dim should not have if another one will do.

        Raises:
            Unsatisfiable: There are none among the small ones.
        """
        self._tried = 0
        names = {**values, **fixed}
        if not self._holds(names, None):
            raise Unsatisfiable(f"{self.form}: the requirements do not hold with {dict(fixed)}")
        pools = {dim: self._pool(dim, names, multiples.get(dim, 1)) for dim in self.dims if dim not in fixed}
        found = self._search(sorted(pools, key=lambda dim: len(pools[dim])), names, pools, unlike or {})
        if found is None:
            raise Unsatisfiable(f"{self.form}: no small extents satisfy the requirements")
        return {dim: found[dim] for dim in self.dims}

    def _search(
        self,
        free: list[str],
        names: dict[str, Any],
        pools: Mapping[str, list[int]],
        unlike: Mapping[str, int],
    ) -> dict[str, Any] | None:
        if not free:
            return names
        dim, *others = free
        taken = {names[other] for other in self.dims if other in names} | {unlike.get(dim)}
        # Small ones first, and before these the ones that no other dim has: equal extents hide permuted dims.
        for extent in sorted(pools[dim], key=lambda value: (value in taken, value == 1, value)):
            self._tried += 1
            if self._tried > MOST_TRIED:
                return None
            tried = {**names, dim: extent}
            if self._holds(tried, dim):
                found = self._search(others, tried, pools, unlike)
                if found is not None:
                    return found
        return None

    def _pool(self, dim: str, names: Mapping[str, Any], multiple: int) -> list[int]:
        """Extents of a dim that satisfy what is required of it alone. The dim with the fewest is decided first."""
        involved = {name for item in self._concerned[dim] for name in item.names}
        key = (dim, multiple, *(repr(names[name]) for name in sorted(involved) if name in names))
        if key not in self._pools:
            self._pools[key] = self._new_pool(dim, names, multiple)
        return self._pools[key]

    def _new_pool(self, dim: str, names: Mapping[str, Any], multiple: int) -> list[int]:
        literals = sorted(value for item in self._concerned[dim] for value in literals_in(item.condition) if value > 0)
        pool = [*literals, *POWERS, *PREFERRED] if self._concerned[dim] else [*PREFERRED]
        scaled = [lcm(value, multiple) for value in pool] + [multiple * factor for factor in (1, 2, 3, 4, 5, 6, 8)]
        return [value for value in dict.fromkeys(scaled) if self._holds({**names, dim: value}, dim)]

    @cached_property
    def _concerned(self) -> dict[str, list[Requirement]]:
        return {dim: [item for item in self.requirements if dim in item.names] for dim in self.dims}

    def _holds(self, names: Mapping[str, Any], new: str | None) -> bool:
        """Whether every requirement holds that can be looked at, of the dim `new` or at all."""
        return all(holds(item, names) for item in (self.requirements if new is None else self._concerned[new]))


def holds(requirement: Requirement, names: Mapping[str, Any]) -> bool:
    """Whether a requirement holds, applies not, or has a name without a value."""
    if not requirement.names <= names.keys():
        return True
    if requirement.applies is not None and not evaluate(requirement.applies, names):
        return True
    return bool(evaluate(requirement.condition, names))


def literals_in(node: Expression) -> Iterator[int]:
    """The integers in an expression."""
    if isinstance(node, Literal) and type(node.value) is int:
        yield node.value
    for child in children(node):
        yield from literals_in(child)
