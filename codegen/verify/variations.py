# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What of a call is varied besides the placement: attributes, and which optional tensors are given."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from ..spec.model import Attribute, Spec
from .extents import Unsatisfiable

T = TypeVar("T")
FREE_FLOAT, FREE_INT = 0.37, 3
OTHER_FLOAT = 0.25
MOST_COMBINED = 6
LARGE = 1000
"""Attributes beyond are limits, of which there is no other."""


class Cycle(Generic[T]):
    """Values in turn, in an order that is drawn anew each time around."""

    def __init__(self, values: Sequence[T], rng: np.random.Generator) -> None:
        self.values = values
        self._rng = rng
        self._queue: list[int] = []

    def next(self) -> T:
        if not self._queue:
            self._queue = self._rng.permutation(len(self.values)).tolist()
        return self.values[self._queue.pop(0)]


@dataclass(frozen=True)
class Variation:
    """One choice.

    Attributes:
        attributes: Every attribute with its value.
        given: The optional tensors that are given.
        has_lengths: Whether document ends are given where the format has packed dims.
    """

    attributes: Mapping[str, Any]
    given: tuple[str, ...]
    has_lengths: bool = True


def variations(spec: Spec, form: str, tensors: Sequence[str], allows: Callable[[Variation], bool]) -> list[Variation]:
    """Every word of every attribute, and optional tensors given alone, in pairs, together and not at all.

    Args:
        tensors: Those that have placements.
        allows: Whether a variation satisfies what is required.

    Raises:
        Unsatisfiable: None does.
    """
    optional = [name for name in tensors if not spec.by_name[name].required]
    sets = [(), tuple(optional), *((name,) for name in optional), *itertools.combinations(optional, 2)]
    values = {item.name: attribute_values(spec, form, item) for item in spec.attributes}
    plain = {name: choices[0] for name, choices in values.items()}
    changed = [{**plain, name: choice} for name, choices in values.items() for choice in choices[1:]]
    changed += combined(values, np.random.default_rng(len(values)))
    every = (Variation(attributes, given) for given in dict.fromkeys(sets) for attributes in [plain, *changed])
    found = [one for one in every if allows(one)]
    if all(item.optional for item in spec.lengths) and any(item.of in spec.bound(form) for item in spec.lengths):
        without = (Variation(plain, given, has_lengths=False) for given in {(), tuple(optional)})
        found += [one for one in without if allows(one)]
    if not found:
        raise Unsatisfiable(f"{form}: no attributes and optional tensors satisfy the requirements")
    return found


def combined(values: Mapping[str, list[Any]], rng: np.random.Generator) -> list[dict[str, Any]]:
    """Several attributes changed at once: all, and some drawn combinations; what only two of them do is seen there."""
    open_ones = [name for name, choices in values.items() if len(choices) > 1]
    if len(open_ones) < 2:
        return []
    found = [{name: choices[-1] for name, choices in values.items()}]
    for _ in range(MOST_COMBINED):
        found.append({name: choices[int(rng.integers(len(choices)))] for name, choices in values.items()})
    return found


def attribute_values(spec: Spec, form: str, item: Attribute) -> list[Any]:
    """What an attribute may be; the first one is the usual one."""
    if item.name == spec.format.selector and spec.format.kind == "attribute":
        return [form]
    if item.axis:
        return [item.default]  # the dims of `...` are named as the default has them
    if item.choices:
        finite = [choice for choice in item.choices if not isinstance(choice, float) or math.isfinite(choice)]
        return sorted(finite or item.choices, key=lambda choice: choice != item.default)
    if item.type == "bool":
        return [item.default if item.default is not None else True, not item.default]
    context = spec.context_parallel
    if context and context.ratio and context.ratio.by == item.name:
        return [item.default or 1, 2, 3]
    if item.default is not None:
        return [item.default, *another(item.default, spec.attributes.index(item))]
    free: dict[str, list[Any]] = {"float": [FREE_FLOAT], "int": [FREE_INT, 1], "ints": [(1, 2)], "dtype": ["float32"]}
    found = free.get(item.type, [""])
    return [None, found[0]] if item.optional else found


def another(default: Any, number: int) -> list[Any]:
    """A second value for an attribute with a default, so that a forgotten one is seen; another one for each number."""
    if isinstance(default, int):
        return [default + 1] if default < LARGE else []
    if isinstance(default, float):
        return [default + OTHER_FLOAT * (1 + number / 4)] if abs(default) < LARGE else []
    return []
