# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A report as it is printed, in each of the formats."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ..report import escaped
from .report import OperatorReport, Report, WrongClaim
from .task import Task
from .text_report import claim_title, lies, text_lines

MOST_PRINTED = 400
"""Characters of an annotation's text."""


def printed(report: Report, tasks: Sequence[Task], form: str) -> list[str]:
    """The lines of a report."""
    if form == "json":
        return [json.dumps(report.as_json(), indent=2)]
    if form == "github":
        pairs = zip(report.operators, tasks, strict=True)
        return [line for operator, task in pairs for line in workflow_commands(operator, task)]
    if form == "html":
        from .html_report import page

        return [page(report, tasks)]
    return text_lines(report, tasks)


def workflow_commands(operator: OperatorReport, task: Task) -> list[str]:
    """Workflow commands: errors and possible extensions beside `sharding` in the spec."""
    if operator.error:
        return [annotation("error", task, "reference", operator.error)]
    lines = [annotation("error", task, "sharding", claim_words(claim)) for claim in operator.claims]
    if not operator.passed and not lines:
        lines = [annotation("error", task, "sharding", "no case was right: nothing has been shown")]
    return lines + [
        annotation("notice", task, "sharding", f"format {row.form}: {row.add} could be added ({lies(row.placements)})")
        for row in operator.extensions
    ]


def claim_words(claim: WrongClaim) -> str:
    sharded = {name: words for name, words in claim.placements.items() if words != "replicated"}
    return f"{claim_title(claim)} ({lies(sharded) or 'all replicated'})"


def annotation(kind: str, task: Task, key: str, text: str) -> str:
    where = f"file={escaped(task.shown, ':,')},line={line_of(task, key)},title={task.spec.op}"
    return f"::{kind} {where}::{escaped(text[:MOST_PRINTED], '')}"


def line_of(task: Task, key: str) -> int:
    """The line of a key of the spec; that of `op` if it has none."""
    for number, line in enumerate(task.spec.source.lines, 1):
        if line.startswith(f"{key}:"):
            return number
    return task.spec.op_at.line
