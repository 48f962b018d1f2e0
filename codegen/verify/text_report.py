# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A report for people: a line for each operator, what is wrong and how to see it, what could be added."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from .report import ExtensionRow, OperatorReport, Report, WrongClaim
from .task import NUMPY, Task

COLUMNS = ("", "operator", "right", "wrong", "refused", "cases", "extensions", "time")
WIDTH = 100
MOST_WORDS = 12


def text_lines(report: Report, tasks: Sequence[Task]) -> list[str]:
    """The whole report."""
    lines = table(report.operators)
    for operator, task in zip(report.operators, tasks, strict=True):
        lines += [line for block in findings(operator, task) for line in ("", *block)]
    extensions = [line for operator in report.operators for line in extension_lines(operator)]
    if extensions:
        lines += ["", "Refused, though it would be right; this could be added to `sharding`:", *extensions]
    covered = [line for operator in report.operators for line in coverage_lines(operator)]
    if covered and report.verbose:
        lines += ["", "Covered:", *covered]
    return [*lines, "", summary(report)]


def table(operators: Sequence[OperatorReport]) -> list[str]:
    rows = [COLUMNS, *map(row, operators)]
    widths = [max(len(cells[column]) for cells in rows) for column in range(len(COLUMNS))]
    lines = []
    for cells in rows:
        left = [cells[0].ljust(widths[0]), cells[1].ljust(widths[1])]
        right = [cell.rjust(width) for cell, width in zip(cells[2:], widths[2:], strict=True)]
        lines.append("  ".join(left + right).rstrip())
    return [lines[0], *(coloured(line, one.passed) for line, one in zip(lines[1:], operators, strict=True))]


def row(one: OperatorReport) -> tuple[str, ...]:
    word = "ok" if one.passed else "FAIL"
    if one.error:
        return (word, one.op, *["-"] * (len(COLUMNS) - 2))
    time = "cached" if one.cached else f"{one.seconds:.1f} s"
    return (word, one.op, *map(str, (one.right, one.wrong, one.refused, one.cases, len(one.extensions))), time)


def coloured(line: str, passed: bool) -> str:
    word, rest = line[:4], line[4:]
    return click.style(word, fg="green" if passed else "red", bold=True) + rest


def summary(report: Report) -> str:
    count = len(report.operators)
    words = f"{count} operator{'s' if count != 1 else ''}"
    if "nproc" in report.options:
        words += f" on {report.options['nproc']} processes of {report.options['platform']}"
    failed = sum(not one.passed for one in report.operators)
    more = "" if report.verbose else "; --verbose lists what was covered"
    return f"{words}: {'all right' if not failed else f'{failed} wrong or not verified'}{more}"


def findings(operator: OperatorReport, task: Task) -> Iterator[list[str]]:
    """What is wrong with an operator, in blocks."""
    if operator.error:
        yield [f"{operator.op} could not be verified", *wrapped(operator.error)]
        return
    for claim in operator.claims:
        yield claim_lines(operator, claim, task)
    if not operator.passed and not operator.claims:
        text = "No case was right: the rule takes none of the placements that were tried, so nothing has been shown."
        why = [line for reason in operator.reasons for line in wrapped(f"refused: {reason}")]
        yield [f"{operator.op} could not be verified", *wrapped(text), *why]


def claim_lines(operator: OperatorReport, claim: WrongClaim, task: Task) -> list[str]:
    """The smallest case of a wrong claim, and how to see it."""
    if claim.what == "alone":
        return alone_lines(operator, claim)
    more = f" (in {claim.count} of the cases that were looked at; the smallest:)" if claim.count > 1 else ""
    return [
        click.style(f"{operator.op}: {claim_title(claim)}", bold=True) + more,
        *(f"  {name:<11} {value}" for name, value in facts(claim) if value),
        "  to run it again:",
        "",
        command(claim, task),
        "",
        "  as a script:" if task.platform == NUMPY else "  as a script, on threads of NumPy:",
        "",
        *script(claim, task).splitlines(),
    ]


def alone_lines(operator: OperatorReport, claim: WrongClaim) -> list[str]:
    """What is wrong without any rank: placements have nothing to do with it."""
    lines = [click.style(f"{operator.op}: format {claim.form}: wrong on one device", bold=True), *wrapped(claim.text)]
    shown = {name: values[0] for name, values in claim.lengths.items()} | dict(claim.attributes)
    given = ", ".join(name for name in claim.placements)
    return [*lines, f"  {'called with':<11} {given}" + (f"; {named(shown)}" if shown else "")]


def claim_title(claim: WrongClaim) -> str:
    """What is wrong, in a line."""
    if claim.rank < 0:
        return f"format {claim.form}: {claim.text}"
    what = claim.name if claim.what == "output" else f"the gradient of {claim.name}"
    return f"format {claim.form}: {what} is wrong on rank {claim.rank}: {claim.text}"


def facts(claim: WrongClaim) -> Iterator[tuple[str, str]]:
    yield "mesh", " x ".join(f"{axis}={size}" for axis, size in claim.mesh.items())
    width = max(map(len, claim.placements), default=0)
    for number, (name, words) in enumerate(claim.placements.items()):
        yield "" if number else "placements", f"{name:<{width}}  {words}"
    yield "lengths", "  ".join(f"{name}: {groups_words(groups)}" for name, groups in claim.lengths.items())
    yield "attributes", named(claim.attributes)
    yield "order", claim.order
    if claim.rank >= 0:
        at = f"element {list(claim.index)} of the part of rank {claim.rank}" if claim.index else f"rank {claim.rank}"
        yield "where", at
        yield "as claimed", claim.claimed
        yield "expected", claim.expected
        yield "got", claim.got


def groups_words(groups: Sequence[Sequence[int]]) -> str:
    return " | ".join(str(list(ends)) for ends in groups)


def named(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


def command(claim: WrongClaim, task: Task) -> str:
    """The command that runs a claim's case again."""
    return shlex.join(["hpgen", "verify", *task.words, "--case", claim.case])


def script(claim: WrongClaim, task: Task) -> str:
    """A script that shows what a claim says, runnable as it is."""
    arguments = [json.dumps(task.shown), "CASE"]
    named_ones = (("rule", task.rule), ("reference", task.reference))
    arguments += [f"{name}={json.dumps(value)}" for name, value in named_ones if value]
    lines = [
        "import os",
        "",
        'os.environ["HYPER_PARALLEL_PLATFORM"] = "numpy"  # before hyper_parallel is imported',
        "",
        "from hpgen.verify.replay import open_case",
        "",
        f"CASE = {claim.case!r}",
        "",
        f"call = open_case({', '.join(arguments)})",
    ]
    if claim.rank < 0:
        return "\n".join([*lines, "print(call.difference())  # what goes wrong before there is anything to compare"])
    side = "outputs" if claim.what == "output" else "gradients"
    where = f'"{claim.what}", "{claim.name}", rank={claim.rank}'
    lines += [
        f'print("one device gives", call.whole.{side}["{claim.name}"], sep="\\n")',
        f'print("rank {claim.rank} passes", call.arguments({claim.rank}), sep="\\n")',
        f'print("the rule says", call.claim.{side}["{claim.name}"])',
        "seen = call.run()  # the operator on DTensors, on every rank",
        f'print("expected", call.expected({where}), sep="\\n")',
        f'print("got", call.got(seen, {where}), sep="\\n")',
    ]
    return "\n".join(lines)


def extension_lines(operator: OperatorReport) -> list[str]:
    """What could be added; what holds in several formats alike is said once."""
    forms: dict[str, tuple[ExtensionRow, list[str]]] = {}
    for found in operator.extensions:
        alike = repr((found.add, found.placements, found.outputs, found.gradients))
        forms.setdefault(alike, (found, []))[1].append(found.form)
    lines = []
    for found, names in forms.values():
        lines.append(f"  {operator.op}, format {', '.join(names)}: {found.add}")
        sides = (("given", found.placements), ("outputs", found.outputs), ("gradients", found.gradients))
        for side, words in sides:
            if words:
                lines += labelled(side, lies(words))
    return lines


def lies(placements: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {words}" for name, words in placements.items())


def labelled(label: str, text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=f"    {label:<11}", subsequent_indent=" " * 15)


def coverage_lines(operator: OperatorReport) -> list[str]:
    """What was gone through, and of how much."""
    if operator.error:
        return []
    run = operator.right + operator.wrong
    lines = [
        f"  {operator.op}: {run} cases run, {operator.refused} refused, of which {operator.checked_refusals} were run "
        f"without the rule; {size(operator.space)} placements on these meshes"
    ]
    for what, words in operator.covered.items():
        shown = [word or "''" for word in words]
        more = [f"and {len(shown) - MOST_WORDS} more"] if len(shown) > MOST_WORDS else []
        lines += textwrap.wrap(
            f"{what}: {'; '.join([*shown[:MOST_WORDS], *more])}",
            WIDTH,
            initial_indent="    ",
            subsequent_indent="      ",
        )
    return lines + [f"    {note}" for note in operator.notes]


def size(number: int) -> str:
    """A count that nobody reads to its last digit."""
    return f"{number:,}" if number < 1_000_000 else f"{number:.1e}"


def wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ", break_long_words=False)
