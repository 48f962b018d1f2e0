# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Verification on ranks that are processes of torch or MindSpore.

Cases, rule and oracle are those of the NumPy platform in this process. The ranks make the calls with their framework's
tensors, autograd and process groups; the kernels are the references. What they hold is judged here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .budget import DEFAULT, Budget
from .cases import Case
from .execute import Claim, Executor, Seen
from .judge import ROUNDINGS, Difference, compared, first_difference
from .problem import Whole
from .rank_process import KERNEL, REFUSED, SEEN, WHOLE, Answer, Recipe
from .ranks import PlatformError, RankError, Ranks, check_ranks
from .report import REFUSED as REFUSED_CASE
from .report import WRONG, OperatorReport
from .search import Search
from .subject import Subject
from .tally import Verdict, failed
from .verifier import MOST_WRONG, Verifier

TIMEOUT = 60.0
"""Seconds for each call, of which most take milliseconds."""
MOST_STOPS = 3
"""So often are ranks started again that have died or hung; then what is wrong is wrong."""


class ProcessExecutor(Executor):
    """Asks the rule in this process, and runs the cases on ranks that are others.

    Attributes:
        failed: Which rank has raised what in the last call; empty if none has.
        lost: Why there are no ranks any more.
    """

    def __init__(self, subject: Subject, ranks: Ranks) -> None:
        super().__init__(subject)
        self.ranks = ranks
        self.failed = ""
        self.lost: PlatformError | None = None

    def run(self, case: Case, whole: Whole, claim: Claim) -> list[Seen]:
        # No rank knows what should come out.
        given = replace(whole, outputs={}, gradients=dict.fromkeys(whole.gradients))
        return self._ask(SEEN, case, given, claim)

    def brought_together(self) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """The whole outputs and gradients of the last call as each rank has them through collectives."""
        return self._ask(WHOLE)

    def _ask(self, kind: str, *request: Any) -> list[Any]:
        self.failed = ""
        try:
            answers = self.ranks.ask(kind, *request)
        except PlatformError as error:
            self.lost = error
            raise
        except RankError as error:
            self.failed = str(error)
            raise
        for rank, answer in enumerate(answers):
            if answer.failed:
                self._raise(rank, answer)
        return [answer.value for answer in answers]

    def _raise(self, rank: int, answer: Answer) -> None:
        if answer.kind == REFUSED and answer.text.startswith(f"For {self.subject.spec.op}"):  # the checks of the call
            raise ValueError(answer.text)
        name = f"{answer.value}: " if answer.kind == REFUSED else ""
        what = "gives the operator what it refuses" if answer.kind == KERNEL else "has failed"
        self.failed = f"rank {rank} {what}: {name}{answer.text}"
        raise RuntimeError(self.failed)


class ProcessVerifier(Verifier):
    """Verifies one operator on ranks that are processes, with the meshes that have as many of them."""

    executor: ProcessExecutor

    def __init__(
        self, subject: Subject, ranks: Ranks, budget: Budget = DEFAULT, seed: int = 0, most_wrong: int = MOST_WRONG
    ) -> None:
        # What the rule refuses is run without it, on arrays: that has nothing to do with a framework.
        super().__init__(subject, replace(budget, refusals=0, ranks=ranks.count), seed, most_wrong)
        self.ranks = ranks
        self.executor = ProcessExecutor(subject, ranks)

    def _notes(self) -> Iterator[str]:
        yield from super()._notes()
        yield f"on {self.ranks.count} processes of {self.ranks.platform}; what is refused is looked at on numpy only"
        if self.ranks.stops:
            yield f"the processes had to be ended {self.ranks.stops} times"

    def _is_enough(self, search: Search) -> bool:
        return self.ranks.stops >= MOST_STOPS or super()._is_enough(search)

    def verdict(self, case: Case) -> Verdict:
        """As on virtual ranks; a case for another number of ranks is not looked at."""
        if case.ranks != self.ranks.count:
            return Verdict(REFUSED_CASE, refusal=f"there are {self.ranks.count} ranks")
        if self.ranks.stops >= MOST_STOPS:
            return Verdict(REFUSED_CASE, refusal="too many calls have ended the ranks")
        self.executor.failed = ""
        found = super().verdict(case)
        if self.executor.lost is not None:
            raise self.executor.lost
        if found.word == WRONG and self.executor.failed and found.difference is not None:
            return Verdict(WRONG, replace(found.difference, text=self.executor.failed))
        return found

    def compare(self, case: Case, dealt: Whole, claim: Claim, seen: list[Seen]) -> Difference | None:
        """What each rank holds, and then what all have brought together."""
        return first_difference(case, dealt, claim, seen) or self._apart(dealt)

    def _apart(self, dealt: Whole) -> Difference | None:
        try:
            every = self.executor.brought_together()
        except Exception as error:
            self.executor.failed = ""
            return failed(f"in full_tensor and reduce_gradient: {error}")
        tolerance = ROUNDINGS * dealt.reduction
        for rank, (outputs, gradients) in enumerate(every):
            for what, wholes, held in (("output", dealt.outputs, outputs), ("gradient", dealt.gradients, gradients)):
                for name, got in held.items():
                    found = compared(wholes[name], lambda got=got: got, np.shape(got), tolerance)
                    if found:
                        index, expected, value, text = found
                        text = f"brought together by the ranks' collectives: {text}"
                        return Difference(what, name, rank, index, expected, value, text)
        return None


@contextmanager
def started(
    subject: Subject,
    folder: Path,
    platform: str,
    nproc: int,
    *,
    rule: str = "",
    reference: str = "",
    timeout: float = TIMEOUT,
) -> Iterator[Ranks]:
    """Ranks that have loaded an operator; they end with the block.

    Args:
        folder: That of the spec.
        platform: `torch` or `mindspore`.
        nproc: How many ranks.
        rule: `module:Class` of a rule by hand, if the subject has that.
        reference: `module:function`, if the subject has not the spec's.
        timeout: Seconds for each call.

    Raises:
        PlatformError: The platform is unknown or not installed, or the ranks cannot be started.
    """
    files = {str(path): text for path, text in subject.files.items()}
    recipe = Recipe(subject.spec, folder.resolve(), rule, reference, files, timeout)
    with Ranks(recipe, platform, nproc, timeout) as ranks:
        ranks.start()
        yield ranks


def verify_on_processes(
    subject: Subject,
    folder: Path,
    platform: str,
    nproc: int,
    *,
    budget: Budget = DEFAULT,
    seed: int = 0,
    timeout: float = TIMEOUT,
) -> OperatorReport:
    """Verify an operator on ranks that are processes. This process has the NumPy platform.

    Raises:
        PlatformError: The platform is unknown or not installed, no mesh has so many ranks, or they cannot be started.
    """
    check_ranks(nproc)
    with started(subject, folder, platform, nproc, timeout=timeout) as ranks:
        return ProcessVerifier(subject, ranks, budget, seed).report(subject.spec.op)
