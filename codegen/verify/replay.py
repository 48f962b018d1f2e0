# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""One case again: what each rank holds, against what it should.

`open_case` is for scripts, such as the ones that a report prints. It runs on virtual ranks, so that the process has to
have `HYPER_PARALLEL_PLATFORM=numpy` before `hyper_parallel` is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..library import load_library
from ..spec.model import Spec
from .cases import Case
from .describe import placement_words
from .execute import Claim, Seen
from .extents import Extents
from .judge import ROUNDINGS, Difference, compared
from .placing import REDUCTIONS, held, part, reduced
from .problem import Whole
from .report import REFUSED
from .sequence import in_dealt_order, keywords_on, own_values
from .subject import Subject, load_subject
from .tally import Verdict, shown_mesh
from .tensor_dims import dim_names
from .verifier import Verifier

MOST_RANKS = 64


class CaseError(ValueError):
    """The case is none of this operator's; the message says what does not fit."""


@dataclass(frozen=True)
class Held:
    """One rank's part of an output or a gradient.

    Attributes:
        what: `output` or `gradient`.
        name: Of the output, or of the tensor whose gradient it is.
        expected: The part of the unsharded one.
        got: What the rank holds, pending reductions done; None if the ranks' parts have different shapes.
        wrong: Where and how it differs; empty if it does not.
    """

    what: str
    name: str
    rank: int
    expected: Any
    got: Any
    wrong: str


class OpenCase:
    """A case with all its tensors.

    Attributes:
        case: The case.
        subject: The operator: rule, function, reference.

    Args:
        verifier: Of the operator, with the ranks that run the case: virtual ones without.

    Raises:
        CaseError: The case is none of this operator's.
    """

    def __init__(self, subject: Subject, case: Case, verifier: Verifier | None = None) -> None:
        check_case(subject.spec, case)
        self.subject = subject
        self.case = case
        self._verifier = verifier or Verifier(subject)
        self._executor = self._verifier.executor
        self._oracle = self._verifier.oracle

    @cached_property
    def whole(self) -> Whole:
        """The unsharded call: tensors, other arguments, outputs, incoming gradients and gradients by name."""
        return self._oracle.whole(self.case.problem)

    @cached_property
    def dealt(self) -> Whole:
        """The same in the order in which the ranks hold the sequence."""
        return in_dealt_order(self.subject.spec, self.case, self.whole)

    @cached_property
    def claim(self) -> Claim:
        """What the rule says: a refusal, or how outputs and gradients lie."""
        names = tuple(item.name for item in self._oracle.returned(self.whole.others))
        return self._executor.claim(self.case, self.whole, names)

    @property
    def function(self) -> Callable[[Mapping[str, Any]], Any]:
        """The operator: takes arguments by name, DTensors on a rank, plain tensors elsewhere."""
        return self._executor.call

    def arguments(self, rank: int) -> dict[str, Any]:
        """What a rank passes: its part of each tensor, and every other argument."""
        own = own_values(self.subject.spec, self.case.problem.form)
        parts = {
            name: held(self.case, name, tensor, self.case.placed[name], rank)
            for name, tensor in self.dealt.tensors.items()
            if name not in own
        }
        return {**keywords_on(self.subject.spec, self.case, self.whole, rank), **parts}

    def run(self) -> list[Seen]:
        """Run the operator on every rank; what each of them holds afterwards, rank by rank.

        Raises:
            ValueError: The rule refuses the case, or the checks of the call do.
        """
        if self.claim.refusal:
            raise ValueError(self.claim.refusal)
        return self._executor.run(self.case, self.dealt, self.claim)

    def expected(self, what: str, name: str, rank: int) -> Any:
        """What a rank should hold of an `output` or a `gradient`, pending reductions done."""
        wholes, placed = self._side(what)
        return part(self.case, wholes[name], placed[name].dims, rank)

    def got(self, seen: list[Seen], what: str, name: str, rank: int) -> Any:
        """What a rank holds of it, pending reductions done."""
        _, placed = self._side(what)
        parts = [one.outputs[name] if what == "output" else one.gradients[name] for one in seen]
        return reduced(self.case, parts, placed[name], rank)

    def verdict(self) -> Verdict:
        """Right, wrong or refused, and the first difference."""
        return self._verifier.verdict(self.case)

    def difference(self) -> Difference | None:
        """The first thing that is wrong; None if nothing is."""
        return self.verdict().difference

    def parts(self, seen: list[Seen]) -> Iterator[Held]:
        """Every output and gradient on every rank."""
        tolerance = ROUNDINGS * self.whole.reduction
        kept = [("output", name) for name in self.claim.outputs] + [("gradient", name) for name in seen[0].gradients]
        for what, name in kept:
            for rank in range(self.case.ranks):
                shape = np.shape(seen[rank].outputs[name] if what == "output" else seen[rank].gradients[name])
                expected = self.expected(what, name, rank)
                try:
                    got = self.got(seen, what, name, rank)
                except ValueError:
                    got = None
                found = compared(expected, lambda got=got: added_up(got), shape, tolerance)
                wrong = f"at {found[0]}: expected {found[1]}, got {found[2]}; {found[3]}" if found else ""
                yield Held(what, name, rank, expected, got, wrong)

    def told(self) -> dict[str, Any]:
        """The case in words: `wrong`, and the `lines` to print."""
        spec = self.subject.spec
        lines = [
            f"{spec.op}, format {self.case.problem.form}, mesh {shown_mesh(self.case.mesh)}: "
            f"{placement_words(spec, self.case)}"
        ]
        verdict = self.verdict()
        if verdict.word == REFUSED:
            return {"wrong": False, "lines": [*lines, f"refused: {verdict.refusal}"]}
        difference = verdict.difference
        if difference is not None and difference.rank < 0:
            return {"wrong": True, "lines": [*lines, f"wrong: {difference.text}"]}
        for held_part in self.parts(self.run()):
            lines += told_part(held_part)
        if difference is None:
            last = "right: every rank holds what it should"
        else:
            last = f"wrong: {difference.what} {difference.name} on rank {difference.rank}: {difference.text}"
        return {"wrong": difference is not None, "lines": [*lines, last]}

    def _side(self, what: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        if what == "output":
            return self.dealt.outputs, self.claim.outputs
        return self.dealt.gradients, self.claim.gradients


def open_case(spec: str, text: str, rule: str = "", reference: str = "") -> OpenCase:
    """Open a case of a report.

    Args:
        spec: The path of the spec.
        text: The case as the report prints it.
        rule: `module:Class` of a rule written by hand, if that was verified.
        reference: `module:function`, if it was not the spec's.

    Raises:
        SpecError: The spec has mistakes.
        SubjectError: The rule or the reference cannot be imported.
        CaseError: The case is none of this operator's.
        ValueError: The text is no case.
    """
    path = Path(spec)
    library = load_library([path])
    found = next(one for one in library.specs if one.op in library.selected)
    return OpenCase(load_subject(found, library.folder, rule, reference), Case.from_text(text))


def added_up(got: Any) -> Any:
    """What `compared` asks for."""
    if got is None:
        raise ValueError
    return got


def told_part(one: Held) -> list[str]:
    lines = [f"{one.what} {one.name} on rank {one.rank}: {'WRONG ' + one.wrong if one.wrong else 'right'}"]
    if one.wrong:
        lines += indented("expected", one.expected)
    return lines + indented("holds", "parts of different shapes" if one.got is None else one.got)


def indented(word: str, value: Any) -> list[str]:
    text = value if isinstance(value, str) else np.array2string(value, precision=6, threshold=64, edgeitems=2)
    first, *others = text.splitlines() or [""]
    lead = f"    {word:<9}"
    return [lead + first, *(" " * len(lead) + line for line in others)]


def check_case(spec: Spec, case: Case) -> None:
    """CaseError unless the case is one of this operator."""
    problem = case.problem
    check_words("format", [problem.form], spec.format.names)
    own = own_values(spec, problem.form)
    tensors = {item.name for item in spec.tensors if item.required or item.name in problem.given}
    check_same("the tensors that are placed", case.placed, tensors - set(own))
    check_same("the dims with extents", problem.extents, Extents(spec, problem.form).dims)
    check_words("attribute", problem.attributes, [item.name for item in spec.attributes])
    check_words("packed dim", problem.documents, [item.of for item in spec.lengths])
    check_words("order", [case.order.name], ("contiguous", "zigzag", "head_tail"))
    if not isinstance(problem.seed, int) or problem.seed < 0:
        raise CaseError(f"seed should be an integer from 0 on, but is {problem.seed!r}")
    for name, size in [*case.mesh.items(), *problem.extents.items()]:
        if not isinstance(size, int) or size < 0 or (size < 1 and name in case.mesh):
            raise CaseError(f"{name} should be a positive integer, but is {size!r}")
    if not len(case.mesh) >= 1 or case.ranks > MOST_RANKS:
        raise CaseError(f"a mesh should have an axis, and {MOST_RANKS} ranks at most, but is {dict(case.mesh)}")
    for name, placed in case.placed.items():
        names = dim_names(spec, name, problem.form)
        if len(placed.dims) != len(names):
            raise CaseError(f"{name} has the dims {' '.join(names)}, but {len(placed.dims)} are placed")
        check_words("mesh axis", [axis for axes in placed.dims for axis in axes], case.mesh)
        check_words("mesh axis", [axis for axis, _ in placed.partial], case.mesh)
        check_words("reduction", [op for _, op in placed.partial], REDUCTIONS)


def check_words(what: str, words: Any, known: Any) -> None:
    for word in words:
        if word not in known:
            raise CaseError(f"the operator has no {what} {word!r}; known: {', '.join(known) or 'none'}")


def check_same(what: str, given: Any, expected: Any) -> None:
    if set(given) != set(expected):
        raise CaseError(f"{what} should be {', '.join(sorted(expected))}, but are {', '.join(sorted(given)) or 'none'}")
