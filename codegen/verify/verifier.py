# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""One operator through its cases.

What the rule takes is run, what it refuses is looked at, and what is wrong is made small.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ..spec.model import BackwardCall
from .cases import NATURAL, Case, Placed
from .describe import extension_row, placement_words, wrong_claim
from .execute import REFUSALS, Claim, Executor
from .extensions import Extension, extension
from .extents import Unsatisfiable
from .judge import Difference, first_difference
from .problem import GradientError, Oracle, Whole
from .report import EXTENSION, REFUSED, RIGHT, WRONG, Cell, ExtensionRow, OperatorReport
from .search import GRID, IDLE, LINE, MESHES, Base, Search
from .sequence import in_dealt_order, sequence_of
from .shrink import smaller
from .subject import KernelError, Subject

RANKED = (REFUSED, EXTENSION, RIGHT, WRONG)
MOST_DRAWN = 12
MOST_CONFIRMED = 4
MOST_WRONG = 12
"""Wrong cases after which no more are looked for: what is wrong is wrong."""


@dataclass(frozen=True)
class Budget:
    """How much is tried in each format.

    Attributes:
        runs: Cases that are run.
        refusals: Refused placements that are run to see whether they would be right.
        deviations: Bases whose deviations are asked about.
        random: Placements drawn at random.
        partials: The most tensors that are Partial at once.
        meshes: How many of the meshes are gone through.
        idle: Cases on a mesh with an axis that only replicates.
    """

    runs: int = 36
    refusals: int = 24
    deviations: int = 3
    random: int = 20
    partials: int = 1
    meshes: int = 2
    idle: int = 2


DEFAULT = Budget()
THOROUGH = Budget(runs=240, refusals=200, deviations=10, random=400, partials=2, meshes=4, idle=20)


@dataclass
class Verdict:
    """What became of one case."""

    word: str
    difference: Difference | None = None
    refusal: str = ""


@dataclass
class Tally:
    """What has been seen so far."""

    right: int = 0
    refused: int = 0
    run_refusals: int = 0
    wrong: list[tuple[Case, Difference]] = field(default_factory=list)
    extensions: list[Extension] = field(default_factory=list)
    cells: dict[tuple[str, str, str], Cell] = field(default_factory=dict)
    covered: dict[str, dict[str, None]] = field(default_factory=dict)

    def cover(self, what: str, word: str) -> None:
        self.covered.setdefault(what, {})[word] = None

    def mark(self, form: str, placement: str, mesh: Mapping[str, int], word: str, note: str = "") -> None:
        """Set a cell of the matrix; of several cases the worst one counts, and one that ran before one that did not."""
        key = (form, placement, shown_mesh(mesh))
        if key not in self.cells or RANKED.index(word) >= RANKED.index(self.cells[key].verdict):
            self.cells[key] = Cell(form, placement, shown_mesh(mesh), word, note)


class Verifier:
    """Verifies one operator."""

    def __init__(self, subject: Subject, budget: Budget = DEFAULT, seed: int = 0, most_wrong: int = MOST_WRONG) -> None:
        self.subject = subject
        self.spec = subject.spec
        self.budget = budget
        self.most_wrong = most_wrong
        self.executor = Executor(subject)
        self.oracle = Oracle(subject)
        self.tally = Tally()
        self.searches = {form: Search(self.spec, form, seed) for form in self.spec.format.names}

    def report(self, shown: str, tick: Callable[[], None] = lambda: None) -> OperatorReport:
        """Go through the cases. `tick` is called after each case that was run."""
        start = time.perf_counter()
        for search in self.searches.values():
            if len(self.tally.wrong) < self.most_wrong:
                self._format(search, tick)
        tally = self.tally
        groups: dict[tuple[str, str, str], list[tuple[Case, Difference]]] = {}
        for case, difference in tally.wrong:
            groups.setdefault((case.problem.form, difference.what, difference.name), []).append((case, difference))
        claims = []
        for found in groups.values():
            case, difference = smaller(min(found, key=lambda one: one[0].size), self.difference)
            claims.append(replace(wrong_claim(self.spec, case, difference), count=len(found)))
        return OperatorReport(
            op=self.spec.op,
            spec=shown,
            right=tally.right,
            wrong=len(tally.wrong),
            refused=tally.refused,
            checked_refusals=tally.run_refusals,
            space=sum(search.count(mesh) for search in self.searches.values() for mesh in self.meshes),
            covered={what: list(words) for what, words in tally.covered.items()},
            claims=tuple(claims),
            extensions=tuple(unique(extension_row(self.spec, one) for one in tally.extensions)),
            cells=tuple(tally.cells.values()),
            seconds=time.perf_counter() - start,
            notes=tuple(self._notes()),
        )

    @property
    def meshes(self) -> tuple[Mapping[str, int], ...]:
        return MESHES[: self.budget.meshes]

    def _notes(self) -> Iterator[str]:
        if self.spec.backward is None:
            yield "no gradients: the operator has no backward"
        elif self.subject.function is None:
            yield "no gradients: a rule without a kernel runs on its reference alone"
        if isinstance(self.spec.backward, BackwardCall) and self.subject.backward is None:
            yield "no gradients: the spec names no reference of the backward kernel"

    # One format

    def _format(self, search: Search, tick: Callable[[], None]) -> None:
        accepted = list(self._bases(search))
        if not accepted:
            return
        queue = deque(self._turns(search, accepted))
        words: dict[int, set[str]] = {}
        runs = 0
        while queue and runs < self.budget.runs and len(self.tally.wrong) < self.most_wrong:
            make = queue.popleft()
            case = make()
            if case is None:
                continue
            queue.append(make)
            runs += 1
            words.setdefault(id(make), set()).add(self._judge(search, case).word)
            tick()
        for mesh, base in self._on_idle_axes(search, accepted):
            case = self._drawn(search, mesh, base)
            if case is not None and len(self.tally.wrong) < self.most_wrong:
                self._judge(search, case)
                tick()
        for make in queue:
            if words.get(id(make)) == {REFUSED} and len(self.tally.wrong) < self.most_wrong:
                self._try_again(search, make)

    def _on_idle_axes(
        self, search: Search, accepted: list[tuple[Mapping[str, int], Base]]
    ) -> Iterator[tuple[Mapping[str, int], Base]]:
        """Some of the bases on two axes, with a third axis that only replicates."""
        bases = [base for mesh, base in accepted if mesh is GRID and base]
        for at in search.rng.permutation(len(bases))[: self.budget.idle]:
            yield IDLE, bases[at]

    def _try_again(self, search: Search, make: Callable[[], Case | None]) -> None:
        """More cases of a placement that the rule takes, while all are refused: then there is none, and it is wrong."""
        found = (make() for _ in range(MOST_DRAWN))
        verdict = Verdict(RIGHT)
        for case in filter(None, found):
            verdict = self._judge(search, case)
            if verdict.word != REFUSED:
                return
        if verdict.word == REFUSED:
            text = f"infer_layout takes it, but every call is refused: {verdict.refusal}"
            self.tally.wrong.append((case, failed(text)))
            self.tally.mark(search.form, placement_words(self.spec, case), case.mesh, WRONG, text)

    def _bases(self, search: Search) -> Iterator[tuple[Mapping[str, int], Base]]:
        """The bases that the rule takes. What it refuses on one axis is looked at."""
        looked = 0
        for mesh in self.meshes:
            for base in search.bases(mesh):
                try:
                    case = search.case(mesh, base)
                except Unsatisfiable:
                    continue  # extents that are fixed cannot be cut
                if any(not placed.is_whole for placed in case.placed.values()) is not bool(base):
                    continue  # only absent tensors have these dims
                claim = self._claim(case)
                words = base_words(base)
                if not claim.refusal:
                    yield mesh, base
                    self._refuses_uneven(search, case, base)
                    continue
                self.tally.refused += 1
                self.tally.mark(search.form, words, mesh, REFUSED, claim.refusal)
                if len(mesh) == 1 and looked < self.budget.refusals:
                    looked += 1
                    self._look_at_refused(search, case, base, words)

    def _refuses_uneven(self, search: Search, case: Case, base: Base) -> None:
        """Extents that cannot be cut evenly are refused, whatever the rule says of the base."""
        other = search.uneven(case, base)
        if other is None:
            return
        claim = self._claim(other)
        if claim.refusal:
            self.tally.refused += 1
            self.tally.cover("uneven extents", "refused")
        else:
            self.tally.wrong.append((other, failed("a dim that cannot be cut evenly is taken")))

    def _turns(
        self, search: Search, accepted: list[tuple[Mapping[str, int], Base]]
    ) -> Iterator[Callable[[], Case | None]]:
        """What gives cases to run, in turn: each base with other variations each time; each deviation once."""
        deviations = deque(self._deviations(search, accepted))
        cuts = deque(self._cuts(search))

        def deviation() -> Case | None:
            return deviations.popleft() if deviations else None

        def cut() -> Case | None:
            return cuts.popleft() if cuts else None

        for number, at in enumerate(search.rng.permutation(len(accepted))):
            yield self._on_base(search, *accepted[at])
            yield deviation if number % 2 else cut

    def _on_base(self, search: Search, mesh: Mapping[str, int], base: Base) -> Callable[[], Case | None]:
        turns = itertools.count(1)
        shares = len(base.get(search.query, ())) > len(base.get(search.key, ())) if search.query else False
        last: list[Case] = []

        def case() -> Case | None:
            turn = next(turns)
            if turn % 2 == 0 and last and last[0].problem.documents:
                return search.again(last[0], base)  # what was kept of an earlier call is not to be used
            found = self._drawn(search, mesh, base, shares, equal=turn % 3 == 0)
            last[:] = [found] if found else []
            return found

        return case

    def _drawn(
        self, search: Search, mesh: Mapping[str, int], base: Base, shares: bool = False, equal: bool = False
    ) -> Case | None:
        """A case of a base, in one of the orders if it shares a sequence; None if no attributes fit."""
        for _ in range(MOST_DRAWN):
            order = search.orders.next() if shares else NATURAL
            try:
                return search.case(mesh, base, order=order, equal=equal)
            except Unsatisfiable:
                continue  # these attributes fix extents that are to be cut
        return None

    def _cuts(self, search: Search) -> list[Case]:
        """Accepted cases on one axis in which all tensors but one are whole, and are cut to what fits that one."""
        found = []
        for base in search.bases(LINE):
            case = self._drawn(search, LINE, base)
            sharded = [name for name, placed in case.placed.items() if not placed.is_whole] if case else []
            if case is None or not sharded:
                continue
            for kept in dict.fromkeys((sharded[0], sharded[-1])):
                placed = {
                    name: one if name == kept else Placed(((),) * len(one.dims)) for name, one in case.placed.items()
                }
                other = replace(case, placed=placed)
                if self._has_all_documents(other) and not self._claim(other).refusal:
                    found.append(other)
        return [found[at] for at in search.rng.permutation(len(found))]

    def _deviations(self, search: Search, accepted: list[tuple[Mapping[str, int], Base]]) -> list[Case]:
        """Accepted cases in which a tensor lies otherwise, is Partial, or everything is drawn."""
        found: list[Case] = []
        axes = [one for one in accepted if one[1]]
        chosen = [axes[at] for at in search.rng.permutation(len(axes))[: self.budget.deviations]]
        cases = [self._drawn(search, mesh, base) for mesh, base in chosen]
        candidates: list[Case] = [other for case in cases if case for other in search.deviations(case)]
        plain = self._drawn(search, LINE, {})
        grid = self._drawn(search, GRID, {})
        assert plain is not None
        assert grid is not None
        pending = list(search.partials(plain, self.budget.partials))
        candidates += [replace(plain, placed={**one.placed}) for one in pending]
        candidates += [search.random(grid) for _ in range(self.budget.random)]
        looked = 0
        for case in candidates:
            if not self._has_all_documents(case):
                continue
            claim = self._claim(case)
            if not claim.refusal:
                found.append(case)
                continue
            self.tally.refused += 1
            if any(case is one or case.placed == one.placed for one in pending) and case.mesh == plain.mesh:
                words = partial_words(case)
                self.tally.mark(search.form, words, case.mesh, REFUSED, claim.refusal)
                if looked < self.budget.refusals:
                    looked += 1
                    self._look_at_refused(search, case, {}, words)
        return [found[at] for at in search.rng.permutation(len(found))]

    def _has_all_documents(self, case: Case) -> bool:
        """Whether there are documents for each group, as many as the placement makes."""
        groups = case.part(sequence_of(self.spec, case).groups, 0)[1]
        return all(len(found) == groups for found in case.problem.documents.values())

    # One case

    def names(self, whole: Whole) -> tuple[str, ...]:
        """The outputs that a call returns."""
        return tuple(item.name for item in self.oracle.returned(whole.others))

    def _claim(self, case: Case) -> Claim:
        outline = self.oracle.outline(case.problem)
        return self.executor.claim(case, outline, self.names(outline))

    def _look_at_refused(self, search: Search, case: Case, base: Base, words: str) -> None:
        """Whether a refused placement would be right: with other values and documents, too, which may agree by chance."""
        self.tally.run_refusals += 1
        found = self._extension(case)
        others = (replace(search.again(case, base), placed=case.placed) for _ in range(MOST_CONFIRMED))
        if found is not None and all(self._extension(other) for other in others):
            self.tally.extensions.append(found)
            self.tally.mark(search.form, words, case.mesh, EXTENSION)

    def _extension(self, case: Case) -> Extension | None:
        try:
            whole = self.oracle.whole(case.problem)
        except (KernelError, GradientError, *REFUSALS):
            return None  # it is wrong on one device, which is told of the cases that are run
        return extension(self.subject, case, whole, self.names(whole))

    def _judge(self, search: Search, case: Case) -> Verdict:
        verdict = self.verdict(case)
        words = placement_words(self.spec, case)
        if verdict.word == REFUSED:
            self.tally.refused += 1
            self.tally.mark(search.form, words, case.mesh, REFUSED, verdict.refusal)
            return verdict
        self.tally.mark(search.form, words, case.mesh, verdict.word)
        self._cover(case)
        if verdict.difference is None:
            self.tally.right += 1
        else:
            self.tally.wrong.append((case, verdict.difference))
        return verdict

    def _cover(self, case: Case) -> None:
        problem, tally = case.problem, self.tally
        tally.cover("formats", problem.form)
        tally.cover("meshes", shown_mesh(case.mesh))
        if sequence_of(self.spec, case).over:
            tally.cover("orders", case.order.shown())
        for name, value in problem.attributes.items():
            tally.cover(f"{name}", str(value))
        for group in problem.documents.values():
            kinds = {"one": len(group[0]) == 1, "several": len(group[0]) > 1, "empty": 0 in group[0]}
            for kind, is_there in kinds.items():
                if is_there:
                    tally.cover("documents", kind)
        if self.spec.tensors:
            tally.cover("optional tensors", ", ".join(problem.given) or "none")

    def difference(self, case: Case) -> Difference | None:
        """What is wrong with a case; None if nothing is, or if the rule refuses it."""
        return self.verdict(case).difference

    def verdict(self, case: Case) -> Verdict:
        """Ask the rule, run, and compare."""
        try:
            whole = self.oracle.whole(case.problem)
        except GradientError as error:
            return Verdict(WRONG, failed(str(error), "gradient"))
        except KernelError as error:
            return Verdict(WRONG, failed(f"the reference refuses the call on one device: {error}"))
        except REFUSALS as error:
            return Verdict(WRONG, failed(f"on one device: {type(error).__name__}: {error}"))
        try:
            claim = self.executor.claim(case, whole, self.names(whole))
            if claim.refusal:
                return Verdict(REFUSED, refusal=claim.refusal)
            dealt = in_dealt_order(self.spec, case, whole)
            seen = self.executor.run(case, dealt, claim)
        except REFUSALS as error:
            if str(error).startswith(f"For {self.spec.op}"):  # the checks of the call
                return Verdict(REFUSED, refusal=str(error))
            return Verdict(WRONG, failed(f"{type(error).__name__}: {error}"))
        except KernelError as error:
            return Verdict(WRONG, failed(f"a rank gives the operator what it refuses: {error}"))
        except Exception as error:
            return Verdict(WRONG, failed(f"{type(error).__name__}: {error}"))
        difference = first_difference(case, dealt, claim, seen)
        return Verdict(WRONG if difference else RIGHT, difference)


def unique(rows: Iterable[ExtensionRow]) -> Iterator[ExtensionRow]:
    """Each extension once."""
    return iter({(row.form, row.add): row for row in rows}.values())


def failed(text: str, what: str = "error") -> Difference:
    return Difference(what, "", -1, (), "", "", text)


def shown_mesh(mesh: Mapping[str, int]) -> str:
    return " x ".join(f"{axis}={size}" for axis, size in mesh.items())


def base_words(base: Base) -> str:
    return " ".join(f"{dim}={','.join(axes)}" for dim, axes in base.items()) or "replicated"


def partial_words(case: Case) -> str:
    pending: list[tuple[str, Placed]] = [(name, placed) for name, placed in case.placed.items() if placed.partial]
    return "Partial(sum): " + ", ".join(name for name, _ in pending)
