# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The cases of one format that are worth a run: the rule is asked first, which costs next to nothing."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

from .budget import Budget
from .cases import NATURAL, Case, Placed
from .describe import base_words, partial_words, placement_words
from .execute import Claim
from .extents import Unsatisfiable
from .meshes import GRID, IDLE, LINE, UNEQUAL
from .search import Base, Search
from .sequence import sequence_of
from .tally import Tally, failed

MOST_DRAWN = 12
"""Attributes that are tried until extents fit."""

OnMesh: TypeAlias = "tuple[Mapping[str, int], Base]"
Turn: TypeAlias = "Callable[[], Case | None]"


class Candidates:
    """Cases for a verifier.

    Args:
        search: Where they come from.
        budget: How many.
        ask: What the rule says of a case.
        look: Takes a refused case, its base and the words for it: whether it would be right.
        tally: Where refusals are counted.
    """

    def __init__(
        self,
        search: Search,
        budget: Budget,
        ask: Callable[[Case], Claim],
        look: Callable[[Search, Case, Base, str], None],
        tally: Tally,
    ) -> None:
        self.search = search
        self.budget = budget
        self.ask = ask
        self.look = look
        self.tally = tally
        self._drawn = itertools.count()

    def accepted(self) -> list[OnMesh]:
        """The bases that the rule takes. What it refuses on one axis is looked at."""
        return [
            (mesh, base)
            for mesh in self.budget.chosen
            for base in self.search.bases(mesh)
            if self._is_accepted(mesh, base)
        ]

    def _is_accepted(self, mesh: Mapping[str, int], base: Base) -> bool:
        try:
            case = self.search.case(mesh, base)
        except Unsatisfiable:
            return False  # extents that are fixed cannot be cut
        if any(not placed.is_whole for placed in case.placed.values()) is not bool(base):
            return False  # only absent tensors have these dims
        claim, words = self.ask(case), base_words(base)
        if claim.failure:
            self.tally.fail(case, words, claim.failure)
            return False
        if not claim.refusal:
            self._refuse_uneven(case, base)
            return True
        self.tally.refuse(self.search.form, words, mesh, claim.refusal)
        if len(mesh) == 1:
            self.look(self.search, case, base, words)
        return False

    def _refuse_uneven(self, case: Case, base: Base) -> None:
        """Extents that cannot be cut evenly are refused, whatever the rule says of the base."""
        other = self.search.uneven(case, base)
        if other is None:
            return
        claim = self.ask(other)
        if claim.failure:
            self.tally.fail(other, base_words(base), claim.failure)
        elif claim.refusal:
            self.tally.refused += 1
            self.tally.cover("uneven extents", "refused")
        else:
            self.tally.wrong.append((other, failed("a dim that cannot be cut evenly is taken")))

    def turns(self, accepted: list[OnMesh]) -> Iterator[Turn]:
        """What gives cases to run, in turn: each base with other variations each time; each deviation once."""
        deviations, cuts = deque(self._deviations(accepted)), deque(self._cuts(accepted))

        def deviation() -> Case | None:
            return deviations.popleft() if deviations else None

        def cut() -> Case | None:
            return cuts.popleft() if cuts else None

        orders = self._each_order(accepted)
        for number, at in enumerate(self.search.rng.permutation(len(accepted))):
            yield self._on_base(*accepted[at])
            yield deviation if number % 2 else cut
            if number % 2 == 0:
                yield lambda: next(orders, None)

    def _each_order(self, accepted: list[OnMesh]) -> Iterator[Case | None]:
        """A case in each order, on ranks that share a sequence."""
        shared = [one for one in accepted if self._shares(one[1])]
        for order in self.search.orders.values if shared else ():
            mesh, base = shared[int(self.search.rng.integers(len(shared)))]
            for _ in range(MOST_DRAWN):
                with suppress(Unsatisfiable):
                    yield self.search.case(mesh, base, order=order)
                    break

    def on_other_meshes(self, accepted: list[OnMesh]) -> Iterator[Case]:
        """Some of the bases on axes of unequal sizes, on more ranks, and beside an axis that only replicates."""
        for mesh, like in ((IDLE, GRID), (UNEQUAL, GRID), ({"cp": 3}, LINE), ({"cp": 4}, LINE)):
            bases = [base for known, base in accepted if known is like and base]
            order = self.search.rng.permutation(len(bases))
            drawn = (self.drawn(mesh, bases[at], self._shares(bases[at])) for at in order)
            found = itertools.chain.from_iterable((case, *self._with_one_left(case)[:1]) for case in drawn if case)
            cases = (case for case in found if self._fits(case) and self._is_taken(case))
            yield from itertools.islice(cases, self.budget.others)

    def with_pending(self, accepted: list[OnMesh]) -> Iterator[Case]:
        """Partial inputs that the rule takes: in all variations, beside dims on the other axis, two groups at once."""
        search = self.search
        plain = self.drawn(LINE, {})
        if plain is None:
            return
        taken = []
        for pending in search.pending(list(plain.placed), self.budget.partials):
            case = search.with_pending(plain, pending, "cp")
            claim, words = self.ask(case), partial_words(case)
            if claim.failure:
                self.tally.fail(case, words, claim.failure)
            elif claim.refusal:
                self.tally.refuse(search.form, words, case.mesh, claim.refusal)
                self.look(search, case, {}, words)
            else:
                taken.append(pending)
        bases = [base for mesh, base in accepted if mesh is LINE]
        for number in range(self.budget.pending if taken else 0):
            pending, other = (taken[int(search.rng.integers(len(taken)))] for _ in range(2))
            if number % 3 == 0:
                found = self.drawn(LINE, {})
                cases = [search.with_pending(found, pending, "cp")] if found else []
            elif number % 3 == 1:  # the base's own axis is called dp there
                base = bases[int(search.rng.integers(len(bases)))] if bases else {}
                found = self.drawn(GRID, dict.fromkeys(base, ("dp",)))
                cases = [search.with_pending(found, pending, "cp")] if found else []
            else:
                found = self.drawn(GRID, {})
                cases = [search.with_pending(search.with_pending(found, pending, "cp"), other, "dp")] if found else []
            yield from (case for case in cases if self._fits(case) and self._is_taken(case))

    def _on_base(self, mesh: Mapping[str, int], base: Base) -> Turn:
        search, turns = self.search, itertools.count(1)
        shares = self._shares(base)
        last: list[Case] = []

        def case() -> Case | None:
            turn = next(turns)
            if turn % 2 == 0 and last and last[0].problem.documents:
                return search.again(last[0], base)  # what was kept of an earlier call is not to be used
            found = self.drawn(mesh, base, shares, equal=next(self._drawn) % 3 == 0)
            last[:] = [found] if found else []
            return found

        return case

    def _shares(self, base: Base) -> bool:
        """Whether ranks share a sequence."""
        search = self.search
        return bool(search.query) and len(base.get(search.query, ())) > len(base.get(search.key, ()))

    def drawn(self, mesh: Mapping[str, int], base: Base, shares: bool = False, equal: bool = False) -> Case | None:
        """A case of a base, in one of the orders if it shares a sequence; None if no attributes fit."""
        for _ in range(MOST_DRAWN):
            order = self.search.orders.next() if shares else NATURAL
            try:
                return self.search.case(mesh, base, order=order, equal=equal)
            except Unsatisfiable:
                continue  # these attributes fix extents that are to be cut
        return None

    def _cuts(self, accepted: list[OnMesh]) -> list[Case]:
        """Accepted cases in which all tensors but one are whole, and are cut to what fits that one."""
        found = []
        on_both = [one for one in accepted if any(len(axes) > 1 for axes in one[1].values())]
        for mesh, base in [*((LINE, base) for base in self.search.bases(LINE)), *on_both]:
            case = self.drawn(mesh, base)
            if case is None:
                continue
            found += [other for other in self._with_one_left(case) if self._is_taken(other)]
        return self._shuffled(found)

    def _with_one_left(self, case: Case) -> list[Case]:
        """The case with only the last sharded tensor left so, and with only the first one."""
        sharded = [name for name, placed in case.placed.items() if not placed.is_whole]
        found = []
        for kept in dict.fromkeys(sharded[-1:] + sharded[:1]):
            placed = {name: one if name == kept else Placed(((),) * len(one.dims)) for name, one in case.placed.items()}
            found.append(replace(case, placed=placed))
        return [other for other in found if self._has_all_documents(other)]

    def _deviations(self, accepted: list[OnMesh]) -> list[Case]:
        """Accepted cases in which a tensor lies otherwise, is Partial, or everything is drawn."""
        search = self.search
        axes = [one for one in accepted if one[1]]
        chosen = [axes[at] for at in search.rng.permutation(len(axes))[: self.budget.deviations]]
        cases = [self.drawn(mesh, base) for mesh, base in chosen]
        candidates = [other for case in cases if case for other in search.deviations(case)]
        found = []
        grid = self.drawn(GRID, {})
        if grid is not None:
            candidates += [search.random(grid) for _ in range(self.budget.random)]
        for case in candidates:
            if self._has_all_documents(case) and self._is_taken(case):
                found.append(case)
        return self._shuffled(found)

    def _is_taken(self, case: Case) -> bool:
        """Whether the rule takes a case; if not, it is counted."""
        claim = self.ask(case)
        if claim.failure:
            self.tally.fail(case, placement_words(self.search.spec, case), claim.failure)
        elif claim.refusal:
            self.tally.refused += 1
        return not (claim.failure or claim.refusal)

    def _has_all_documents(self, case: Case) -> bool:
        """Whether there are documents for each group, as many as the placement makes."""
        groups = case.part(sequence_of(self.search.spec, case).groups, 0)[1]
        return all(len(found) == groups for found in case.problem.documents.values())

    def _shuffled(self, cases: list[Case]) -> list[Case]:
        fitting = [case for case in cases if self._fits(case)]
        return [fitting[at] for at in self.search.rng.permutation(len(fitting))]

    def _fits(self, case: Case) -> bool:
        """Whether there are as many ranks as the case wants."""
        return self.budget.ranks in (0, case.ranks)
