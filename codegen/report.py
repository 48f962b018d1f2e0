# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Diagnostics for people, for programs and for annotations of a review."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from .diagnostics import Diagnostic, Span

FORMATS = ("text", "json", "github")


def report(diagnostics: Iterable[Diagnostic], form: str) -> list[str]:
    """The lines to print, in one of FORMATS."""
    if form == "json":
        return [json.dumps({"errors": [entry(item) for item in diagnostics]}, indent=2)]
    if form == "github":
        return [annotation(item) for item in diagnostics]
    found = list(diagnostics)
    count = f"{len(found)} error{'s' if len(found) > 1 else ''}; nothing was written"
    return [*(item.render() for item in found), count]


def entry(diagnostic: Diagnostic) -> dict[str, Any]:
    notes = [place(note.span) | {"message": note.message} for note in diagnostic.notes]
    found = {"rule": diagnostic.rule, **place(diagnostic.span), "message": diagnostic.message, "hint": diagnostic.hint}
    return found | ({"notes": notes} if notes else {})


def place(span: Span) -> dict[str, Any]:
    """Lines and columns count from 1; a finding about a whole file has line 0."""
    return {"file": span.source.path, "line": span.line, "column": span.column, "length": span.length}


def annotation(diagnostic: Diagnostic) -> str:
    """A workflow command, as GitHub Actions and compatible runners show beside the line."""
    span = diagnostic.span
    where = {"file": span.source.path, "title": diagnostic.rule}
    if span.line:
        where |= {"line": str(span.line), "col": str(span.column), "endColumn": str(span.column + span.length)}
    properties = ",".join(f"{name}={escaped(value, ':,')}" for name, value in where.items())
    text = diagnostic.message + (f" ({diagnostic.hint})" if diagnostic.hint else "")
    return f"::error {properties}::{escaped(text, '')}"


def escaped(text: str, more: str) -> str:
    """Characters that end a workflow command or its parts, by their codes."""
    for char in "%\r\n" + more:
        text = text.replace(char, f"%{ord(char):02X}")
    return text
