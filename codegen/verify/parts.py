# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A task in parts, one for each format, so that processors work side by side on it; and its report put together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from .task import NUMPY, Outcome, Task

COUNTS = ("right", "wrong", "refused", "checked_refusals", "space")
LISTS = ("claims", "extensions", "cells")


def parts_of(task: Task) -> list[Task]:
    """The parts; the task itself where its ranks are processes, or it is one case."""
    if task.platform != NUMPY or task.case:
        return [task]
    return [replace(task, forms=(form,)) for form in task.spec.format.names]


def joined(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome of a task from those of its parts, in the order of the formats."""
    for outcome in outcomes:
        if outcome.kind != "done":
            return outcome
    reports: list[dict[str, Any]] = [outcome.value for outcome in outcomes]
    if len(reports) == 1:
        return outcomes[0]
    covered: dict[str, dict[str, None]] = {}
    for report in reports:
        for what, words in report["covered"].items():
            covered.setdefault(what, {}).update(dict.fromkeys(words))
    reasons = Counter(reason for report in reports for reason in report["reasons"])
    whole = {**reports[0], "covered": {what: list(words) for what, words in covered.items()}}
    whole |= {name: sum(report[name] for report in reports) for name in COUNTS}
    whole |= {name: list(chain.from_iterable(report[name] for report in reports)) for name in LISTS}
    whole["notes"] = list(dict.fromkeys(chain.from_iterable(report["notes"] for report in reports)))
    whole["reasons"] = [reason for reason, _ in reasons.most_common(len(reports[0]["reasons"]) or None)]
    whole["seconds"] = sum(report["seconds"] for report in reports)
    return Outcome("done", whole)
