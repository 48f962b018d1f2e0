# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What a verification has found, as data: everything that is printed comes from here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

RIGHT, WRONG, EXTENSION, REFUSED = "right", "wrong", "extension", "refused"


@dataclass(frozen=True)
class WrongClaim:
    """A case that the rule takes and that is wrong: the smallest one found.

    Attributes:
        form: The format.
        mesh: Mesh axis -> size.
        placements: Tensor argument -> how it lies, in words; replicated ones too.
        lengths: Lengths argument -> the document ends of each group.
        attributes: Attribute -> value, where it is not the default.
        order: How the sequence was dealt, in words; empty if none was.
        rank: The first rank that holds something wrong; -1 if the call failed.
        what: `output`, `gradient`, `error`, or `alone` where it is wrong on one device already.
        name: Of the output, or of the tensor whose gradient it is.
        index: The first wrong element of the rank's part.
        expected, got: There.
        text: What is wrong, in a sentence.
        case: The case as `--case` takes it.
        count: How many cases were wrong in the same way, of those that were looked at.
        claimed: How the rule says that the output or the gradient lies.
    """

    form: str
    mesh: Mapping[str, int]
    placements: Mapping[str, str]
    lengths: Mapping[str, list[list[int]]]
    attributes: Mapping[str, Any]
    order: str
    rank: int
    what: str
    name: str
    index: tuple[int, ...]
    expected: str
    got: str
    text: str
    case: str
    count: int = 1
    claimed: str = ""


@dataclass(frozen=True)
class ExtensionRow:
    """What could be added to `sharding`.

    Attributes:
        form: The format.
        add: What to add, as the spec would say it: `shard: [D]` or `linear: [[x]]`.
        placements: Tensor argument -> how it lies, in words; replicated ones left out.
        outputs, gradients: What comes out, in words.
    """

    form: str
    add: str
    placements: Mapping[str, str]
    outputs: Mapping[str, str]
    gradients: Mapping[str, str]


@dataclass(frozen=True)
class Cell:
    """One entry of the matrix of placements: a format, an axis on some dims or a pending reduction, and the verdict."""

    form: str
    placement: str
    mesh: str
    verdict: str
    note: str = ""


@dataclass(frozen=True)
class OperatorReport:
    """One operator.

    Attributes:
        op: Its name.
        spec: The spec's path as it was given.
        right: Cases that the rule takes and that are right.
        wrong: Cases that it takes and that are wrong.
        refused: Placements that it refuses, rightly as far as was looked at.
        checked_refusals: Of these, how many were run to see whether they would be right.
        space: All placements of all tensors on the meshes that were tried.
        covered: What was gone through: formats, meshes, orders, documents, attributes, gradients.
        claims: What is wrong, one for each kind.
        extensions: What could be allowed.
        cells: The matrix of placements.
        seconds: How long it took.
        notes: What was not looked at, and why.
        reasons: The commonest reasons for which placements were refused.
        error: Why the operator could not be verified; empty if it was.
        cached: Whether an earlier run found this.
    """

    op: str
    spec: str
    right: int
    wrong: int
    refused: int
    checked_refusals: int
    space: int
    covered: Mapping[str, list[str]]
    claims: tuple[WrongClaim, ...] = ()
    extensions: tuple[ExtensionRow, ...] = ()
    cells: tuple[Cell, ...] = ()
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    error: str = ""
    cached: bool = False

    @property
    def passed(self) -> bool:
        """0 wrong, and more than 0 right."""
        return self.right > 0 and not self.wrong and not self.claims and not self.error

    @classmethod
    def unverified(cls, op: str, spec: str, error: str) -> OperatorReport:
        """Of an operator that could not be verified."""
        return cls(op, spec, 0, 0, 0, 0, 0, {}, error=error)

    @property
    def cases(self) -> int:
        return self.right + self.wrong + self.refused

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "passed": self.passed, "cases": self.cases}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> OperatorReport:
        """The inverse of `as_json`."""
        given = {name: value for name, value in body.items() if name not in ("passed", "cases")}
        given["claims"] = tuple(WrongClaim(**{**one, "index": tuple(one["index"])}) for one in given["claims"])
        given["extensions"] = tuple(ExtensionRow(**one) for one in given["extensions"])
        given["cells"] = tuple(Cell(**one) for one in given["cells"])
        given |= {name: tuple(given[name]) for name in ("notes", "reasons")}
        return cls(**given)


@dataclass(frozen=True)
class Report:
    """All operators of a run."""

    operators: tuple[OperatorReport, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    verbose: bool = False
    """Whether people want to read what was covered."""

    @property
    def passed(self) -> bool:
        return all(one.passed for one in self.operators)

    def as_json(self) -> dict[str, Any]:
        operators = [one.as_json() for one in self.operators]
        return {"passed": self.passed, "options": dict(self.options), "operators": operators}
