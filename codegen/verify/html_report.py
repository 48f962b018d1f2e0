# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A report as one page: the matrices of placements, what is wrong, what could be added, what was covered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jinja2

from .. import package
from .report import EXTENSION, REFUSED, RIGHT, WRONG, Cell, OperatorReport, Report
from .task import Task
from .text_report import claim_title, command, facts, script, size, summary

MARKS = {WRONG: "✗", EXTENSION: "+", RIGHT: "✓", REFUSED: "·"}
"""The verdicts, worst first, each with the sign that it has besides its colour."""
NOWHERE = "-"
BASE = re.compile(r"\S+=\S+(?: \S+=\S+)*")


@dataclass(frozen=True)
class Mark:
    """One field of a matrix. Several orders of the same axes on a dim are one field: the worst verdict is shown."""

    verdict: str
    sign: str
    title: str


@dataclass(frozen=True)
class Matrix:
    """Verdicts by the dims that each axis shards: a row for each choice of the first axis, a column for the last."""

    form: str
    mesh: str
    row_axis: str
    column_axis: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Mark | None, ...]], ...]


@dataclass(frozen=True)
class Section:
    """What the page shows of one operator."""

    report: OperatorReport
    matrices: tuple[Matrix, ...]
    others: tuple[tuple[Cell, str], ...]
    claims: tuple[dict[str, Any], ...]
    space: str


def page(report: Report, tasks: Sequence[Task]) -> str:
    """The page: one file that needs nothing else."""
    folder = package.templates()
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,
    )
    sections = [section(one, task) for one, task in zip(report.operators, tasks, strict=True)]
    template = environment.get_template("verify.html.j2")
    return template.render(report=report, sections=sections, marks=MARKS, summary=summary(report))


def section(report: OperatorReport, task: Task) -> Section:
    matrices = tuple(matrices_of(report.cells))
    others = tuple((cell, MARKS[cell.verdict]) for cell in report.cells if not is_base(cell))
    claims = tuple(
        {
            "title": claim_title(claim),
            "facts": [(name, value) for name, value in facts(claim) if value],
            "command": command(claim, task),
            "script": script(claim, task),
        }
        for claim in report.claims
    )
    return Section(report, matrices, others, claims, size(report.space))


def is_base(cell: Cell) -> bool:
    """Whether a cell is an assignment of axes to dims, and not the placement of a single tensor."""
    return cell.placement == "replicated" or bool(BASE.fullmatch(cell.placement))


def matrices_of(cells: Sequence[Cell]) -> Iterator[Matrix]:
    for form, mesh in dict.fromkeys((cell.form, cell.mesh) for cell in cells):
        chosen = [cell for cell in cells if (cell.form, cell.mesh) == (form, mesh) and is_base(cell)]
        if chosen:
            yield matrix(form, mesh, chosen)


def matrix(form: str, mesh: str, cells: Sequence[Cell]) -> Matrix:
    axes = [one.partition("=")[0] for one in mesh.split(" x ")]
    axes = [axis for axis in axes if axis != "tp"] or axes  # the third one only replicates
    row_axis, column_axis = ("" if len(axes) == 1 else axes[0]), axes[-1]
    fields: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        fields.setdefault((on_axis(cell, row_axis), on_axis(cell, column_axis)), []).append(cell)
    rows, columns = dict.fromkeys(row for row, _ in fields), dict.fromkeys(column for _, column in fields)
    return Matrix(
        form,
        mesh,
        row_axis,
        column_axis,
        tuple(sorted(columns, key=label_order)),
        tuple(
            (row, tuple(mark(fields.get((row, column), [])) for column in sorted(columns, key=label_order)))
            for row in sorted(rows, key=label_order)
        ),
    )


def label_order(label: str) -> tuple[int, str]:
    """Nothing first, one dim before several."""
    return (0 if label == NOWHERE else len(label.split()), label)


def on_axis(cell: Cell, axis: str) -> str:
    """The dims that an axis shards in a cell."""
    if cell.placement == "replicated":
        return NOWHERE
    parts = [part.rpartition("=") for part in cell.placement.split(" ")]
    return " ".join(dim for dim, _, axes in parts if axis in axes.split(",")) or NOWHERE


def mark(cells: Sequence[Cell]) -> Mark | None:
    if not cells:
        return None
    worst = min((cell.verdict for cell in cells), key=list(MARKS).index)
    notes = [f"{cell.placement}: {cell.verdict}{'. ' + cell.note if cell.note else ''}" for cell in cells]
    return Mark(worst, MARKS[worst], "\n".join(notes))
