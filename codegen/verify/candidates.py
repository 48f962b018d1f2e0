# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The cases of one format that are worth a run: the rule is asked first, which costs next to nothing."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from .budget import Budget
from .cases import NATURAL, Case, Placed
from .describe import base_words, partial_words, placement_words
from .execute import Claim
from .extents import Unsatisfiable
from .search import GRID, IDLE, LINE, MESHES, Base, Search
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

    def accepted(self) -> list[OnMesh]:
        """The bases that the rule takes. What it refuses on one axis is looked at."""
        return [
            (mesh, base)
            for mesh in MESHES[: self.budget.meshes]
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
        deviations, cuts = deque(self._deviations(accepted)), deque(self._cuts())

        def deviation() -> Case | None:
            return deviations.popleft() if deviations else None

        def cut() -> Case | None:
            return cuts.popleft() if cuts else None

        for number, at in enumerate(self.search.rng.permutation(len(accepted))):
            yield self._on_base(*accepted[at])
            yield deviation if number % 2 else cut

    def on_idle_axes(self, accepted: list[OnMesh]) -> Iterator[Case]:
        """Some of the bases on two axes, with a third axis that only replicates."""
        bases = [base for mesh, base in accepted if mesh is GRID and base]
        for at in self.search.rng.permutation(len(bases))[: self.budget.idle]:
            case = self.drawn(IDLE, bases[at])
            if case is not None:
                yield case

    def _on_base(self, mesh: Mapping[str, int], base: Base) -> Turn:
        search, turns = self.search, itertools.count(1)
        shares = len(base.get(search.query, ())) > len(base.get(search.key, ())) if search.query else False
        last: list[Case] = []

        def case() -> Case | None:
            turn = next(turns)
            if turn % 2 == 0 and last and last[0].problem.documents:
                return search.again(last[0], base)  # what was kept of an earlier call is not to be used
            found = self.drawn(mesh, base, shares, equal=turn % 3 == 0)
            last[:] = [found] if found else []
            return found

        return case

    def drawn(self, mesh: Mapping[str, int], base: Base, shares: bool = False, equal: bool = False) -> Case | None:
        """A case of a base, in one of the orders if it shares a sequence; None if no attributes fit."""
        for _ in range(MOST_DRAWN):
            order = self.search.orders.next() if shares else NATURAL
            try:
                return self.search.case(mesh, base, order=order, equal=equal)
            except Unsatisfiable:
                continue  # these attributes fix extents that are to be cut
        return None

    def _cuts(self) -> list[Case]:
        """Accepted cases on one axis in which all tensors but one are whole, and are cut to what fits that one."""
        found = []
        for base in self.search.bases(LINE):
            case = self.drawn(LINE, base)
            if case is None:
                continue
            sharded = [name for name, placed in case.placed.items() if not placed.is_whole]
            for kept in dict.fromkeys(sharded[:1] + sharded[-1:]):
                placed = {
                    name: one if name == kept else Placed(((),) * len(one.dims)) for name, one in case.placed.items()
                }
                other = replace(case, placed=placed)
                if self._has_all_documents(other) and self._is_taken(other):
                    found.append(other)
        return self._shuffled(found)

    def _deviations(self, accepted: list[OnMesh]) -> list[Case]:
        """Accepted cases in which a tensor lies otherwise, is Partial, or everything is drawn."""
        search = self.search
        axes = [one for one in accepted if one[1]]
        chosen = [axes[at] for at in search.rng.permutation(len(axes))[: self.budget.deviations]]
        cases = [self.drawn(mesh, base) for mesh, base in chosen]
        candidates = [other for case in cases if case for other in search.deviations(case)]
        found = self._pending()
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

    def _pending(self) -> list[Case]:
        """Accepted cases in which tensors are Partial. What is refused is looked at."""
        plain = self.drawn(LINE, {})
        found: list[Case] = []
        for case in self.search.partials(plain, self.budget.partials) if plain else ():
            claim, words = self.ask(case), partial_words(case)
            if claim.failure:
                self.tally.fail(case, words, claim.failure)
                continue
            if not claim.refusal:
                found.append(case)
                continue
            self.tally.refuse(self.search.form, words, case.mesh, claim.refusal)
            self.look(self.search, case, {}, words)
        return found

    def _has_all_documents(self, case: Case) -> bool:
        """Whether there are documents for each group, as many as the placement makes."""
        groups = case.part(sequence_of(self.search.spec, case).groups, 0)[1]
        return all(len(found) == groups for found in case.problem.documents.values())

    def _shuffled(self, cases: list[Case]) -> list[Case]:
        return [cases[at] for at in self.search.rng.permutation(len(cases))]
