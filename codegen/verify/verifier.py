# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""One operator through its cases.

What the rule takes is run, what it refuses is looked at, and what is wrong is made small.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from ..spec.model import BackwardCall
from .budget import DEFAULT, THOROUGH, Budget
from .candidates import Candidates, Turn
from .cases import Case, Problem
from .describe import extension_row, placement_words, wrong_claim
from .execute import REFUSALS, Claim, Executor, Seen
from .extensions import Extension, extension
from .extents import Unsatisfiable
from .judge import Difference, first_difference
from .meshes import LINE
from .problem import GradientError, Oracle, Whole
from .report import EXTENSION, REFUSED, RIGHT, WRONG, ExtensionRow, OperatorReport
from .search import Base, Search
from .sequence import in_dealt_order, sequence_of
from .shrink import smaller
from .subject import KernelError, Subject
from .tally import Tally, Verdict, failed, shown_mesh

__all__ = ["DEFAULT", "THOROUGH", "Budget", "Verifier"]

ALONE = "alone"
MOST_REASONS = 3
MOST_CONFIRMED = 8
"""Other values and documents with which an extension has to be right, too."""
MOST_TRIED_AGAIN = 100
MOST_WRONG = 12
"""Wrong cases after which no more are looked for: what is wrong is wrong."""


class Verifier:
    """Verifies one operator.

    Args:
        subject: The operator.
        budget: How much is tried.
        seed: Of everything that is drawn.
        most_wrong: Wrong cases of a format after which no more are looked for there.
        forms: The formats that are looked at; all of them if there are none.
    """

    def __init__(
        self,
        subject: Subject,
        budget: Budget = DEFAULT,
        seed: int = 0,
        most_wrong: int = MOST_WRONG,
        forms: Sequence[str] = (),
    ) -> None:
        self.subject = subject
        self.spec = subject.spec
        self.budget = budget if subject.with_cotangents else budget.without_gradients()
        self.most_wrong = most_wrong
        self.executor = Executor(subject)
        self.oracle = Oracle(subject)
        self.tally = Tally()
        self.searches = {form: Search(self.spec, form, seed) for form in forms or self.spec.format.names}
        self._looked: Counter[str] = Counter()

    def report(self, shown: str, tick: Callable[[], None] = lambda: None) -> OperatorReport:
        """Go through the cases. `tick` is called after each case that was run."""
        start = time.perf_counter()
        for search in self.searches.values():
            self._format(search, tick)
        tally = self.tally
        claims = []
        for found in tally.by_kind():
            case, difference = smaller(min(found, key=lambda one: one[0].size), self.difference)
            claims.append(replace(wrong_claim(self.spec, case, difference), count=len(found)))
        return OperatorReport(
            op=self.spec.op,
            spec=shown,
            right=tally.right,
            wrong=len(tally.wrong),
            refused=tally.refused,
            checked_refusals=tally.run_refusals,
            space=sum(search.count(mesh) for search in self.searches.values() for mesh in self.budget.chosen),
            covered={what: list(words) for what, words in tally.covered.items()},
            claims=tuple(claims),
            extensions=tuple(unique(extension_row(self.spec, one) for one in tally.extensions)),
            cells=tuple(tally.cells.values()),
            seconds=time.perf_counter() - start,
            notes=tuple(self._notes()),
            reasons=tuple(text for text, _ in tally.reasons.most_common(MOST_REASONS)),
        )

    def _is_enough(self, search: Search) -> bool:
        """Whether no more is looked for in a format: what is wrong on one device is so wherever it runs."""
        wrong = [difference for case, difference in self.tally.wrong if case.problem.form == search.form]
        return len(wrong) >= self.most_wrong or any(difference.what == ALONE for difference in wrong)

    def _notes(self) -> Iterator[str]:
        if self.spec.backward is None:
            yield "no gradients: the operator has no backward"
        elif self.subject.function is None:
            yield "no gradients: a rule without a kernel runs on its reference alone"
        if isinstance(self.spec.backward, BackwardCall) and self.subject.backward is None:
            yield "no gradients: the spec names no reference of the backward kernel"

    def _format(self, search: Search, tick: Callable[[], None]) -> None:
        candidates = Candidates(search, self.budget, self.claim, self._look_at_refused, self.tally)
        first = candidates.drawn(LINE, {})
        if first is not None and (alone := self._alone(first.problem)) is not None:
            self.tally.wrong.append((first, alone))
            return
        accepted = candidates.accepted()
        queue = deque(candidates.turns(accepted) if accepted else ())
        words: dict[int, set[str]] = {}
        runs = 0
        while queue and runs < self.budget.runs and not self._is_enough(search):
            turn = queue.popleft()
            case = turn()
            if case is None:
                continue
            queue.append(turn)
            runs += 1
            words.setdefault(id(turn), set()).add(self._judge(search, case).word)
            tick()
        for case in itertools.chain(candidates.on_other_meshes(accepted), candidates.with_pending(accepted)):
            if not self._is_enough(search):
                self._judge(search, case)
                tick()
        for turn in queue:
            if words.get(id(turn)) == {REFUSED} and not self._is_enough(search):
                self._try_again(search, turn)

    def _try_again(self, search: Search, turn: Turn) -> None:
        """More cases of a placement that the rule takes, while all are refused: then there is none, and it is wrong."""
        refused = []
        refusal = ""
        for _ in range(MOST_TRIED_AGAIN):
            case = turn()
            if case is None:
                continue
            verdict = self._judge(search, case)
            if verdict.word != REFUSED:
                return
            refused.append(case)
            refusal = verdict.refusal
        if len(refused) < MOST_TRIED_AGAIN // 2:
            return  # single cases, not a base with all its variations
        text = f"infer_layout takes it, but every call is refused: {refusal}"
        self.tally.wrong.append((refused[0], failed(text)))
        self.tally.mark(search.form, placement_words(self.spec, refused[0]), refused[0].mesh, WRONG, text)

    def names(self, whole: Whole) -> tuple[str, ...]:
        """The outputs that a call returns."""
        return tuple(item.name for item in self.oracle.returned(whole.others))

    def claim(self, case: Case) -> Claim:
        """What the rule says of a case; nothing is run."""
        outline = self.oracle.outline(case.problem)
        return self.executor.claim(case, outline, self.names(outline))

    def _look_at_refused(self, search: Search, case: Case, base: Base, words: str) -> None:
        """Whether a refused placement would be right. Values may agree by chance, so others are tried, too."""
        self._looked[search.form] += 1
        if self._looked[search.form] > self.budget.refusals:
            return
        self.tally.run_refusals += 1
        found = self._extension(case)
        if found is not None and all(self._extension(other) for other in self._others(search, case, base)):
            self.tally.extensions.append(found)
            self.tally.mark(search.form, words, case.mesh, EXTENSION)

    def _others(self, search: Search, case: Case, base: Base) -> Iterator[Case]:
        """The same placement with other values, documents, attributes and optional tensors."""
        names = {name: dict(placed.partial) for name, placed in case.placed.items() if placed.partial}
        for _ in range(MOST_CONFIRMED):
            try:
                other = search.case(case.mesh, base)
            except Unsatisfiable:
                continue  # these attributes fix extents that are to be cut
            for axis in case.mesh:
                other = search.with_pending(
                    other, {name: ops[axis] for name, ops in names.items() if axis in ops}, axis
                )
            if all(name in other.placed for name in names):
                yield other

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
            self.tally.refuse(search.form, words, case.mesh, verdict.refusal)
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

    def _alone(self, problem: Problem) -> Difference | None:
        """What is wrong with a call on one device, of which no rule knows."""
        try:
            self.oracle.whole(problem)
        except (GradientError, KernelError) as error:
            return failed(str(error), ALONE)
        except REFUSALS as error:
            return failed(f"on one device: {type(error).__name__}: {error}", ALONE)
        return None

    def verdict(self, case: Case) -> Verdict:
        """Ask the rule, run, and compare."""
        alone = self._alone(case.problem)
        if alone is not None:
            return Verdict(WRONG, alone)
        whole = self.oracle.whole(case.problem)
        try:
            claim = self.executor.claim(case, whole, self.names(whole))
            if claim.failure:
                return Verdict(WRONG, failed(claim.failure))
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
        difference = self.compare(case, dealt, claim, seen)
        return Verdict(WRONG if difference else RIGHT, difference)

    def compare(self, case: Case, dealt: Whole, claim: Claim, seen: list[Seen]) -> Difference | None:
        """What is wrong with what the ranks hold."""
        return first_difference(case, dealt, claim, seen)


def unique(rows: Iterable[ExtensionRow]) -> Iterator[ExtensionRow]:
    """Each extension once."""
    return iter({(row.form, row.add): row for row in rows}.values())
