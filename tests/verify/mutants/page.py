# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The page that lists the wrong rules and how each is found."""

from __future__ import annotations

from pathlib import Path

from tests.verify.mutants.every import GROUPS
from tests.verify.mutants.model import READING, SPEC, Found, Mutant, find
from tests.verify.mutants.variants import variants

PAGE = Path(__file__).parents[3] / "docs" / "verify_mutants.md"
INTRODUCTION = """\
# Wrong rules, and how they are found

`hpgen verify` is tried on wrong rules: mistakes in copies of the specs, of the generated classes, and of the runtime's
expansion. Below stands for each what found it: reading the spec, with the id of the diagnostic, or a run, with the output
or the gradient that was wrong there and the format; and how many cases had been looked at until then, placements that are
refused included. `python -m tests.verify.mutants` writes this page; a test runs every mutant.

The two faults of the rules that used to be written by hand are among them: *the last document ends with the keys* (wrong
as soon as a document crosses a boundary between ranks) and *fixed length: lengths taken to be equal* (wrong for S1 < S2).
"""


def row(mutant: Mutant, found: Found) -> str:
    cases = "" if found.by.startswith(READING) else str(found.cases)
    return f"| {mutant.op} | {mutant.mistake} | {found.by} | {cases} |"


def page() -> str:
    """The text, from a run of all mutants."""
    parts = [INTRODUCTION]
    total = 0
    for title, mutants in GROUPS.items():
        rows = [row(mutant, find(mutant)) for mutant in mutants()]
        total += len(rows)
        parts.append(
            "\n".join([f"## {title}\n", "| operator | mistake | found by | cases |", "|---|---|---|---:|", *rows])
        )
    correct = variants()
    listed = [f"- {one.op}: {one.mistake}{'' if one.where == SPEC else ' (in the generated class)'}" for one in correct]
    parts.append(
        "\n".join([f"## No false alarm\n\n{len(correct)} correct variants, with which nothing is wrong:\n", *listed])
    )
    parts.insert(1, f"{total} mutants, all of them found.")
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"
