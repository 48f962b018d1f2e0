# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A wrong case made smaller, as long as it stays wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from .cases import NATURAL, Case, Placed
from .judge import Difference

MOST_TRIED = 60
COMPARED = 60
"""Characters of two errors that are compared."""


def smaller(found: tuple[Case, Difference], difference: Callable[[Case], Difference | None]) -> tuple[Case, Difference]:
    """The smallest case that simple steps lead to, with what is wrong there."""
    tried = 0
    changed = True
    while changed:
        changed = False
        for case in simpler(found[0]):
            tried += 1
            if tried > MOST_TRIED:
                return found
            wrong = difference(case)
            if wrong is not None and is_same(wrong, found[1]):
                found, changed = (case, wrong), True
                break
    return found


def is_same(one: Difference, other: Difference) -> bool:
    """Whether it is the same kind of mistake: a call that fails may fail for another reason when it is changed."""
    return one.what == other.what and (one.what != "error" or one.text[:COMPARED] == other.text[:COMPARED])


def simpler(case: Case) -> Iterator[Case]:
    """Cases that differ in one respect and are simpler there."""
    problem = case.problem
    if case.order != NATURAL:
        yield replace(case, order=NATURAL)
    for axis in case.mesh:
        if len(case.mesh) > 1 and not any(axis in used(placed) for placed in case.placed.values()):
            yield replace(case, mesh={name: size for name, size in case.mesh.items() if name != axis})
    for name in problem.given:
        rest = tuple(other for other in problem.given if other != name)
        others = {other: one for other, one in case.placed.items() if other != name}
        yield replace(case, problem=replace(problem, given=rest), placed=others)
    counts = {len(group) for groups in problem.documents.values() for group in groups}
    if counts and max(counts) > 1 and len(counts) == 1:
        for at in range(counts.pop() - 1):
            documents = {
                dim: tuple((*group[:at], group[at] + group[at + 1], *group[at + 2 :]) for group in groups)
                for dim, groups in problem.documents.items()
            }
            yield replace(case, problem=replace(problem, documents=documents))
    for name, placed in case.placed.items():
        if not placed.is_whole:
            yield case.with_placed(name, Placed(((),) * len(placed.dims)))


def used(placed: Placed) -> set[str]:
    """The mesh axes on which a tensor is not replicated."""
    return {axis for axes in placed.dims for axis in axes} | {axis for axis, _ in placed.partial}
