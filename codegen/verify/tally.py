# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What has been seen of one operator so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from .cases import Case
from .extensions import Extension
from .judge import Difference
from .report import EXTENSION, REFUSED, RIGHT, WRONG, Cell

RANKED = (REFUSED, EXTENSION, RIGHT, WRONG)
"""Of the verdicts on several cases of a placement the last of these is shown."""


@dataclass
class Verdict:
    """What became of one case."""

    word: str
    difference: Difference | None = None
    refusal: str = ""


@dataclass
class Tally:
    """Counts, what was wrong, what could be allowed, and the matrix of placements."""

    right: int = 0
    refused: int = 0
    run_refusals: int = 0
    wrong: list[tuple[Case, Difference]] = field(default_factory=list)
    extensions: list[Extension] = field(default_factory=list)
    cells: dict[tuple[str, str, str], Cell] = field(default_factory=dict)
    covered: dict[str, dict[str, None]] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    """Why placements were refused."""

    def cover(self, what: str, word: str) -> None:
        self.covered.setdefault(what, {})[word] = None

    def mark(self, form: str, placement: str, mesh: Mapping[str, int], word: str, note: str = "") -> None:
        """Set a cell of the matrix; of several cases the worst one counts, and one that ran before one that did not."""
        key = (form, placement, shown_mesh(mesh))
        if key not in self.cells or RANKED.index(word) >= RANKED.index(self.cells[key].verdict):
            self.cells[key] = Cell(form, placement, shown_mesh(mesh), word, note)

    def refuse(self, form: str, placement: str, mesh: Mapping[str, int], why: str) -> None:
        """Count a placement that the rule does not take."""
        self.refused += 1
        self.reasons[why] += 1
        self.mark(form, placement, mesh, REFUSED, why)

    def fail(self, case: Case, placement: str, text: str) -> None:
        """Count a case in which the rule itself fails."""
        self.wrong.append((case, failed(text)))
        self.mark(case.problem.form, placement, case.mesh, WRONG, text)

    def by_kind(self) -> list[list[tuple[Case, Difference]]]:
        """The wrong cases, those together that are wrong in the same output or gradient of a format."""
        groups: dict[tuple[str, str, str], list[tuple[Case, Difference]]] = {}
        for case, difference in self.wrong:
            groups.setdefault((case.problem.form, difference.what, difference.name), []).append((case, difference))
        return list(groups.values())


def failed(text: str, what: str = "error") -> Difference:
    """A call that has no outputs to compare."""
    return Difference(what, "", -1, (), "", "", text)


def shown_mesh(mesh: Mapping[str, int]) -> str:
    return " x ".join(f"{axis}={size}" for axis, size in mesh.items())
