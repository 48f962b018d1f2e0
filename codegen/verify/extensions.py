# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Placements that the rule refuses although the operator would be right on them.

Each rank runs the operator on what it holds, as it is. If every output and every gradient then lies in *some* way that
gives the unsharded one, the placement could be allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .cases import Case, Placed
from .judge import ROUNDINGS, compared
from .placing import REDUCTIONS, held, part, reduced
from .problem import Whole, local_gradients
from .sequence import keywords_on, own_values
from .subject import KernelError, Subject, as_kernel


@dataclass(frozen=True)
class Extension:
    """A placement that could be allowed, with what would come out."""

    case: Case
    outputs: Mapping[str, Placed]
    gradients: Mapping[str, Placed]


def extension(subject: Subject, case: Case, whole: Whole, names: tuple[str, ...]) -> Extension | None:
    """What could be allowed, or None. `case` has one mesh axis; `names` are the outputs that the call returns."""
    spec = subject.spec
    own = own_values(spec, case.problem.form)
    tensors = [
        {
            name: held(case, name, tensor, case.placed[name], rank)
            for name, tensor in whole.tensors.items()
            if name not in own
        }
        for rank in range(case.ranks)
    ]
    given = [{**keywords_on(spec, case, whole, rank), **tensors[rank]} for rank in range(case.ranks)]
    run = as_kernel(subject.reference)
    try:
        every = [run(*(one.get(item.name) for item in spec.arguments)) for one in given]
        outputs = [dict(zip((item.name for item in spec.outputs), made, strict=True)) for made in every]
        found = {name: way(case, whole, whole.outputs[name], [one[name] for one in outputs]) for name in names}
        if None in found.values():
            return None
        placed = {name: one for name, one in found.items() if one is not None}
        pending = any(one.partial for one in case.placed.values())
        if pending and not all(one.partial for one in placed.values()):
            return None  # `linear` would make every output Partial(sum)
        return _with_gradients(subject, case, whole, placed, tensors, given)
    except (KernelError, ValueError, TypeError, IndexError, ZeroDivisionError):
        return None  # what the ranks hold is no call of the operator


def _with_gradients(
    subject: Subject,
    case: Case,
    whole: Whole,
    placed: Mapping[str, Placed],
    tensors: list[dict[str, Any]],
    given: list[dict[str, Any]],
) -> Extension | None:
    wanted = list(whole.gradients)
    if not wanted:
        return Extension(case, placed, {})
    every = []
    for rank, one in enumerate(given):
        cotangents = {name: part(case, value, placed[name].dims, rank) for name, value in whole.cotangents.items()}

        def call(values: Mapping[str, Any], one: dict[str, Any] = one) -> Any:
            merged = {**one, **values}
            return subject.function.apply(*(merged.get(item.name) for item in subject.spec.arguments))

        every.append(local_gradients(call, list(placed), tensors[rank], wanted, cotangents))
    ways = {name: way(case, whole, whole.gradients[name], [one[at] for one in every]) for at, name in enumerate(wanted)}
    if None in ways.values():
        return None
    return Extension(case, placed, {name: one for name, one in ways.items() if one is not None})


def way(case: Case, whole: Whole, expected: Any, parts: list[Any]) -> Placed | None:
    """How the parts give the whole, if they do."""
    tolerance = ROUNDINGS * whole.reduction
    for placed in ways_to_lie(expected.ndim, next(iter(case.mesh))):
        right = all(
            compared(
                part(case, expected, placed.dims, rank),
                partial(reduced, case, parts, placed, rank),
                np.shape(parts[rank]),
                tolerance,
            )
            is None
            for rank in range(case.ranks)
        )
        if right:
            return placed
    return None


def ways_to_lie(ndim: int, axis: str) -> Iterator[Placed]:
    """Every placement of a tensor on one axis."""
    nothing = ((),) * ndim
    yield Placed(nothing)
    for at in range(ndim):
        yield Placed(tuple((axis,) if dim == at else () for dim in range(ndim)))
    for op in REDUCTIONS:
        yield Placed(nothing, ((axis, op),))
