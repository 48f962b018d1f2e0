# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What is tried: formats, meshes, placements, documents, attributes and orders, from the spec itself.

Axes are assigned to dims first, as a user who knows the rule would do it: such an assignment is a *base*. From bases
come *deviations*, in which one tensor lies in another way, and Partial inputs. What of a call no placement depends on,
its variations, goes through all its values in turn.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

import numpy as np

from ..spec.model import Spec
from .cases import NATURAL, Axes, Case, Order, Placed, Problem
from .documents import key_documents, query_documents
from .extents import Extents, Unsatisfiable
from .sequence import own_values
from .tensor_dims import dim_names, rest_dims
from .variations import Cycle, Variation, variations

ORDERS = (
    NATURAL,
    *(
        Order(name, keys, per_document)
        for name in ("zigzag", "head_tail")
        for per_document in (False, True)
        for keys in ("natural", "dealt")
    ),
)
REDUCTIONS = ("sum", "max", "min")
EVERY = 4
"""Of so many cases one has a dim of extent 1 that is not cut."""
Pending: TypeAlias = "Mapping[str, str]"
"""Tensor -> the reduction that is pending."""
Base = Mapping[str, Axes]
"""Dim -> the mesh axes on which it lies, outermost first."""


class Search:
    """The cases of one format."""

    def __init__(self, spec: Spec, form: str, seed: int) -> None:
        self.spec = spec
        self.form = form
        self.rng = np.random.default_rng([seed, len(form), *form.encode()])
        self.extents = Extents(spec, form)
        bound = spec.bound(form)
        context = spec.context_parallel
        self.query = next((dim for dim in context.query if dim in bound), "") if context else ""
        self.key = next((dim for dim in context.key if dim in bound), "") if context else ""
        self.packed = [item.of for item in spec.lengths if item.of in bound]
        self._solved: dict[tuple[Any, ...], dict[str, int] | Unsatisfiable] = {}
        self.variations = Cycle(variations(spec, form, self.tensors, self._allows), self.rng)
        self.orders = Cycle(ORDERS, self.rng)
        self._number = itertools.count()

    @cached_property
    def tensors(self) -> list[str]:
        """The tensors that have placements."""
        own = own_values(self.spec, self.form)
        return [item.name for item in self.spec.tensors if item.name not in own]

    @cached_property
    def dims(self) -> list[str]:
        """The names that some tensor has as a dim."""
        bound = {*self.spec.bound(self.form), *rest_dims(self.spec, self.form)}
        found = [dim for name in self.tensors for dim in self.names(name) if dim in bound]
        return [dim for dim in dict.fromkeys(found) if dim not in self.spec.counts]

    def names(self, tensor: str) -> tuple[str, ...]:
        return dim_names(self.spec, tensor, self.form)

    def _allows(self, variation: Variation) -> bool:
        try:
            self._extents(variation, {}, {}, {})
        except Unsatisfiable:
            return False
        return True

    def _extents(
        self,
        variation: Variation,
        fixed: Mapping[str, int],
        multiples: Mapping[str, int],
        unlike: Mapping[str, int],
    ) -> dict[str, int]:
        texts = [repr(sorted(one.items())) for one in (variation.attributes, fixed, multiples, unlike)]
        key = (variation.given, variation.has_lengths, *texts)
        known = self._solved.get(key)
        if isinstance(known, Unsatisfiable):
            raise known
        if known is None:
            try:
                known = self._solve(variation, fixed, multiples, unlike)
            except Unsatisfiable as error:
                self._solved[key] = error
                raise
            self._solved[key] = known
        return known

    def _solve(
        self,
        variation: Variation,
        fixed: Mapping[str, int],
        multiples: Mapping[str, int],
        unlike: Mapping[str, int],
    ) -> dict[str, int]:
        values: dict[str, Any] = dict(variation.attributes)
        for item in self.spec.tensors:
            is_given = item.required or item.name in variation.given
            values[item.name] = self.names(item.name) if is_given else None
        has_lengths = variation.has_lengths
        values |= {item.name: (0,) if has_lengths and item.of in self.packed else None for item in self.spec.lengths}
        return self.extents.solve(values, fixed, multiples, unlike)

    # Placements

    def bases(self, mesh: Mapping[str, int]) -> Iterator[Base]:
        """Every way to assign the axes of a mesh to dims: none, one, or several that belong together."""
        together = [tuple(group) for group in self.spec.sharding.together]
        if self.query and self.key:
            together.append((self.query, self.key))
        choices = [(), *((dim,) for dim in self.dims), *together]
        axes = [axis for axis in mesh if axis != "tp"]  # the third one only replicates
        for chosen in itertools.product(choices, repeat=len(axes)):
            base: dict[str, Axes] = {}
            for axis, dims in zip(axes, chosen, strict=True):
                for dim in dims:
                    base[dim] = (*base.get(dim, ()), axis)
            yield base
            if any(len(on) > 1 for on in base.values()):
                yield {dim: on[::-1] if len(on) > 1 else on for dim, on in base.items()}

    def case(
        self,
        mesh: Mapping[str, int],
        base: Base,
        variation: Variation | None = None,
        order: Order = NATURAL,
        equal: bool = False,
    ) -> Case:
        """A case in which every tensor lies as the base says.

        Args:
            equal: Whether queries are as long as keys.

        Raises:
            Unsatisfiable: No small extents fit.
        """
        variation = variation or self.variations.next()
        chunks = order.chunks
        multiples = {dim: prod(mesh[axis] for axis in axes) for dim, axes in base.items()}
        for group in self.spec.sharding.together:  # whoever has another dim of the group is cut, too
            multiples |= dict.fromkeys(group, max(multiples.get(dim, 1) for dim in group))
        for dim, is_dealt in ((self.query, True), (self.key, order.keys == "dealt")):
            if dim and is_dealt and chunks > 1:
                multiples[dim] = chunks * prod(mesh[axis] for axis in base.get(self.query, ()))
        fixed: dict[str, int] = {}
        documents = self._documents(mesh, base, order) if variation.has_lengths else {}
        fixed |= {dim: sum(map(sum, groups)) for dim, groups in documents.items()}
        if equal and self.query and self.key and not documents:
            fixed[self.key] = fixed[self.query] = 2 * multiples.get(self.query, 2)
        elif self.query and not documents:
            fixed[self.query] = (2 if chunks == 1 else 1) * multiples.get(self.query, 1)
        unlike = {self.key: fixed.get(self.query, 0)}
        number = next(self._number)
        extents = self._with_a_one(variation, fixed, multiples, unlike) if number % EVERY == 0 else None
        extents = extents or self._extents(variation, fixed, multiples, unlike)
        problem = Problem(self.form, extents, variation.attributes, variation.given, documents, number % 7)
        given = [name for name in self.tensors if self.spec.by_name[name].required or name in variation.given]
        return Case(problem, mesh, {name: self.placed(name, base) for name in given}, order)

    def again(self, case: Case, base: Base) -> Case:
        """The same call with other documents."""
        problem = case.problem
        variation = Variation(problem.attributes, problem.given, bool(problem.documents) or not self.packed)
        return self.case(case.mesh, base, variation, case.order)

    def _with_a_one(
        self,
        variation: Variation,
        fixed: Mapping[str, int],
        multiples: Mapping[str, int],
        unlike: Mapping[str, int],
    ) -> dict[str, int] | None:
        """Extents with a 1 in a dim that is not cut, if there are any."""
        free = [dim for dim in self.dims if dim not in fixed and multiples.get(dim, 1) == 1]
        for at in self.rng.permutation(len(free)):
            try:
                return self._extents(variation, {**fixed, free[at]: 1}, multiples, unlike)
            except Unsatisfiable:
                continue
        return None

    def placed(self, tensor: str, base: Base) -> Placed:
        """How a tensor lies if dims do; of two dims with one name only the first one is cut."""
        names = self.names(tensor)
        return Placed(tuple(base.get(dim, ()) if names.index(dim) == at else () for at, dim in enumerate(names)))

    def _documents(self, mesh: Mapping[str, int], base: Base, order: Order) -> dict[str, tuple[tuple[int, ...], ...]]:
        """Documents of every group, for each packed dim."""
        if not self.packed:
            return {}
        groups_on = base.get(self.key, ()) if self.query else base.get(self.packed[0], ())
        groups = prod(mesh[axis] for axis in groups_on)
        over = prod(mesh[axis] for axis in base.get(self.packed[0], ())) // groups
        chunks = max(1, over) * order.chunks
        first = query_documents(self.rng, groups, chunks, chunks if order.per_document else 1)
        found = {self.packed[0]: tuple(first)}
        for dim in self.packed[1:]:
            dealt = dim == self.key and order.keys == "dealt"
            step = chunks if dealt and order.per_document else 1
            found[dim] = key_documents(self.rng, first, step, chunks if dealt else 1)
        return found

    # Deviations

    def uneven(self, case: Case, base: Base) -> Case | None:
        """The case with a token, or whatever it is, too many to be cut; None if it has no such dim."""
        problem = case.problem
        cut = {dim for name in case.placed for dim in self.names(name)}  # an absent tensor cannot be cut
        dim = next((dim for dim in base if dim in problem.extents and dim in cut), None)
        if dim is None:
            return None
        documents = dict(problem.documents)
        if dim in documents:
            first, *others = documents[dim]
            documents[dim] = ((*first[:-1], first[-1] + 1), *others)
        extents = {**problem.extents, dim: problem.extents[dim] + 1}
        return replace(case, problem=replace(problem, extents=extents, documents=documents))

    def deviations(self, case: Case) -> Iterator[Case]:
        """Every case in which one tensor lies on one axis in another way."""
        for name, placed in case.placed.items():
            for axis in case.mesh:
                for other in self._other(placed, axis):
                    if other != placed:
                        yield case.with_placed(name, other)

    def _other(self, placed: Placed, axis: str) -> Iterator[Placed]:
        dims = tuple(tuple(one for one in axes if one != axis) for axes in placed.dims)
        partial = tuple(one for one in placed.partial if one[0] != axis)
        yield Placed(dims, partial)
        for at in range(len(dims)):
            yield Placed(tuple((*axes, axis) if at == dim else axes for dim, axes in enumerate(dims)), partial)
        for op in REDUCTIONS:
            yield Placed(dims, (*partial, (axis, op)))

    def pending(self, tensors: Sequence[str], most: int) -> list[Pending]:
        """Tensors that are Partial together: the spec's groups, with any reduction, and any few of the tensors."""
        found: list[Pending] = []
        for group in self.spec.sharding.linear:
            if set(group) <= set(tensors):
                found += [dict.fromkeys(group, op) for op in REDUCTIONS]
                found += [{**dict.fromkeys(group, "sum"), group[-1]: "max"}] if len(group) > 1 else []
        for count in range(1, most + 1):
            found += [dict.fromkeys(names, "sum") for names in itertools.combinations(tensors, count)]
        return list({repr(sorted(one.items())): one for one in found}.values())

    def with_pending(self, case: Case, pending: Pending, axis: str) -> Case:
        """The case with tensors that are Partial on an axis, on which nothing else lies; absent ones are left out."""
        placed = dict(case.placed)
        for name, op in pending.items():
            if name in placed:
                placed[name] = replace(placed[name], partial=(*placed[name].partial, (axis, op)))
        return replace(case, placed=placed)

    def random(self, case: Case) -> Case:
        """Every tensor placed at random."""
        drawn: dict[str, Placed] = {}
        for name, placed in case.placed.items():
            for axis in case.mesh:
                choices = list(self._other(drawn.get(name, placed), axis))
                drawn[name] = choices[int(self.rng.integers(len(choices)))]
        return replace(case, placed=drawn)

    def count(self, mesh: Mapping[str, int]) -> int:
        """How many placements of all tensors there are on a mesh."""
        return prod((1 + len(self.names(name)) + len(REDUCTIONS)) ** len(mesh) for name in self.tensors)
