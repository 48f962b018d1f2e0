# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What the tool has to say about a spec: where, how bad, under which stable id, and how to mend it."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from .rules import RULES

T = TypeVar("T")


@dataclass(frozen=True)
class Source:
    """The text of one spec file, kept so that a message can show the line it speaks of."""

    path: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        # Only "\n": str.splitlines() also splits at form feeds and Unicode separators, which YAML does not count.
        return [line.removesuffix("\r") for line in self.text.split("\n")]

    @cached_property
    def starts(self) -> list[int]:
        """The offset at which each line starts."""
        return [0, *(match.end() for match in re.finditer("\n", self.text))]


@dataclass(frozen=True)
class Span:
    """A stretch of one line of a source, lines and columns counted from 1 in characters. Line 0 is the whole file."""

    source: Source = field(repr=False)
    line: int
    column: int
    length: int = 1

    def __str__(self) -> str:
        return f"{self.source.path}:{self.line}:{self.column}" if self.line else self.source.path


@dataclass(frozen=True)
class Note:
    """A second place that explains the first ("first bound here")."""

    span: Span
    message: str


@dataclass(frozen=True)
class Diagnostic:
    """One finding. `rule` is the stable id, such as HP102; `hint` says what to write instead."""

    rule: str
    span: Span
    message: str
    hint: str = ""
    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ValueError(f"{self.rule} is not a known diagnostic id")

    def render(self) -> str:
        """The message as a person reads it, with the source line and a caret under the place."""
        parts = [
            f"{self.span}: error[{self.rule}]: {printable(self.message)}",
            *excerpt(self.span, self.hint),
        ]
        for note in self.notes:
            parts += [f"{note.span}: note: {printable(note.message)}", *excerpt(note.span)]
        return "\n".join(parts)


class SpecError(Exception):
    """Raised to leave a function that found something; carries every diagnostic found so far."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__("\n".join(diagnostic.render() for diagnostic in diagnostics))
        self.diagnostics = diagnostics


class Findings:
    """Collects diagnostics, so that one run reports every mistake and not only the first."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []

    def add(self, rule: str, span: Span, message: str, hint: str = "", notes: Iterable[Note] = ()) -> None:
        self.keep(Diagnostic(rule, span, message, hint, tuple(notes)))

    def extend(self, error: SpecError) -> None:
        for diagnostic in error.diagnostics:
            self.keep(diagnostic)

    def keep(self, diagnostic: Diagnostic) -> None:
        """Take a diagnostic once: a part that two others refer to is read twice, but has one fault."""
        if diagnostic not in self.diagnostics:
            self.diagnostics.append(diagnostic)

    def attempt(self, build: Callable[[], T]) -> T | None:
        """Build one part; what is wrong with it is collected, and the part is None."""
        try:
            return build()
        except SpecError as error:
            self.extend(error)
            return None

    def drop_consequences(self, cause: str, consequences: tuple[str, ...]) -> None:
        """Leave out findings that the ones of `cause` bring about, so that one mistake is one message."""
        if any(diagnostic.rule == cause for diagnostic in self.diagnostics):
            self.diagnostics = [item for item in self.diagnostics if item.rule not in consequences]

    def raise_if_any(self) -> None:
        if self.diagnostics:
            raise SpecError(*self.diagnostics)


def suggestion(word: str, known: Iterable[str]) -> str:
    """A hint that names the closest known word, or lists the words when they are few; empty if neither helps."""
    words = sorted(set(known))
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.5 if len(word) <= SHORT else 0.6)
    if not close:
        close = [candidate for candidate in words if candidate.lower() == word.lower()]
    if close:
        return f"did you mean '{close[0]}'?"
    if words and len(words) <= MOST_LISTED:
        return "known: " + ", ".join(words)
    return ""


MOST_LISTED = 12
SHORT = 3
LINE_LIMIT = 160


def excerpt(span: Span, hint: str = "") -> list[str]:
    """The source line of `span` and a caret line under it; long lines are cut around the place."""
    lines = span.source.lines
    if not 0 < span.line <= len(lines):
        return [f"      {printable(hint)}"] if hint else []
    line, start = lines[span.line - 1], span.column - 1
    cut = max(0, start - LINE_LIMIT // 2) if len(line) > LINE_LIMIT else 0
    shown = line[cut : cut + LINE_LIMIT]
    lead = "".join("\t" if char == "\t" else " " * width(char) for char in shown[: start - cut])
    marked = shown[start - cut : start - cut + max(1, span.length)]
    carets = "^" * max(1, sum(width(char) for char in marked))
    return [f"{span.line:>5} | {printable(shown)}", f"      | {lead}{carets} {printable(hint)}".rstrip()]


def width(char: str) -> int:
    """Columns that a character takes on a terminal."""
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def printable(text: str) -> str:
    """`text` with control and bidirectional characters escaped, so that a spec cannot drive the terminal."""
    return "".join(
        char if char == "\t" or unicodedata.category(char)[0] != "C" else char.encode("unicode_escape").decode()
        for char in text
    )
