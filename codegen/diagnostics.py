# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What the tool has to say about a spec: where, how bad, under which stable id, and how to mend it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

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


class Span(NamedTuple):
    """A stretch of one line of a source, lines and columns counted from 1 in characters. Line 0 is the whole file."""

    source: Source
    line: int
    column: int
    length: int = 1

    def __str__(self) -> str:
        path = printable(self.source.path)
        return f"{path}:{self.line}:{self.column}" if self.line else path


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
        for name in ("message", "hint"):  # they may quote a word of a million letters
            object.__setattr__(self, name, clipped(getattr(self, name)))

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
        super().__init__(*diagnostics)
        self.diagnostics = diagnostics

    def __str__(self) -> str:
        return "\n".join(diagnostic.render() for diagnostic in self.diagnostics)


class TooManyFindings(SpecError):
    """Raised where one file has so many mistakes that looking for more helps nobody."""


class Findings:
    """Collects diagnostics, so that one run reports every mistake and not only the first."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []
        self.seen: set[Diagnostic] = set()

    def add(self, rule: str, span: Span, message: str, hint: str = "", notes: Iterable[Note] = ()) -> None:
        self.keep(Diagnostic(rule, span, message, hint, tuple(notes)))
        if len(self.diagnostics) >= MOST_FINDINGS:
            last = f"that makes {MOST_FINDINGS} mistakes; whether there are more is not looked for"
            raise TooManyFindings(*self.diagnostics, Diagnostic("HP005", span, last, "mend these first"))

    def extend(self, error: SpecError) -> None:
        for diagnostic in error.diagnostics:
            self.keep(diagnostic)

    def keep(self, diagnostic: Diagnostic) -> None:
        """Take a diagnostic once: a part that two others refer to is read twice, but has one fault."""
        if diagnostic not in self.seen:
            self.seen.add(diagnostic)
            self.diagnostics.append(diagnostic)

    def attempt(self, build: Callable[[], T]) -> T | None:
        """Build one part; what is wrong with it is collected, and the part is None."""
        try:
            return build()
        except TooManyFindings:
            raise
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
    close = closest(word, words, 0.5 if len(word) <= SHORT else 0.6)
    if not close:
        close = [candidate for candidate in words if candidate.lower() == word.lower()]
    if close:
        return f"did you mean '{close[0]}'?"
    if words and len(words) <= MOST_LISTED:
        return "known: " + ", ".join(words)
    return ""


def closest(word: str, words: Iterable[str], least: float) -> list[str]:
    """The word most like `word`, in a list; empty if none is. Of long words only the likeliest are compared in full."""
    if len(word) > LONGEST_COMPARED:
        return []
    import difflib  # imported here: most specs have no mistake

    matcher = difflib.SequenceMatcher(b=word)
    likely: list[tuple[float, str]] = []
    for candidate in words:
        matcher.set_seq1(candidate)
        if matcher.real_quick_ratio() >= least and matcher.quick_ratio() >= least:
            likely.append((matcher.quick_ratio(), candidate))
    if len(word) > SHORT_COMPARED:
        likely = sorted(likely, reverse=True)[:MOST_COMPARED]
    scored: list[tuple[float, str]] = []
    for _, candidate in likely:
        matcher.set_seq1(candidate)
        scored.append((matcher.ratio(), candidate))
    best = max(scored, default=(0.0, ""))
    return [best[1]] if best[0] >= least else []


def clipped(text: str) -> str:
    """A text of a message without its middle if it is long."""
    if len(text) <= MOST_TEXT:
        return text
    return f"{text[: MOST_TEXT // 2]} ... {text[-MOST_TEXT // 4 :]}"


MOST_FINDINGS = 100  # in one file
MOST_TEXT = 1200
MOST_LISTED = 12
SHORT = 3
SHORT_COMPARED = 24
LONGEST_COMPARED = 100
MOST_COMPARED = 4
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
    return "".join(char.encode("unicode_escape").decode() if unprintable(char) else char for char in text)


def unprintable(char: str) -> bool:
    """Whether a character is a control, a line or paragraph separator, or a part of none."""
    category = unicodedata.category(char)
    return char != "\t" and (category[0] == "C" or category in ("Zl", "Zp"))
