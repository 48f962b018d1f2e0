# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Prose of a spec inside generated files: wrapped, and unable to end or change what it stands in."""

from __future__ import annotations

import re
import unicodedata

from .python_layout import WIDTH, columns


def prose(text: str, indent: int, hanging: int = 0) -> list[str]:
    """Lines of a docstring: wrapped to the width, line breaks of the text kept, made safe inside triple quotes."""
    return wrapped(escaped(text), indent, hanging)


def docstring(text: str, indent: int, more: str = "") -> str:
    """A docstring, its first line without the indent; `more` are finished lines that follow the text."""
    body = escaped(text.strip())
    # A quote must not touch those around the text.
    opening = '""" ' if body.startswith('"') else '"""'
    touches = body.endswith('"') and not body.endswith(ESCAPED_QUOTES)
    closing = "" if more else ' """' if touches else '"""'
    lines = "\n".join(wrapped(opening + body + closing, indent)).lstrip()
    return f'{lines}\n\n{more}\n{" " * indent}"""' if more else lines


def comment_lines(text: str) -> list[str]:
    """Lines for a C++ comment: a backslash at the end would continue it, and it knows no docstring's escapes."""
    lines = wrapped(plain(text), 0)
    return [line.rstrip(" \\") for line in lines]


def wrapped(text: str, indent: int, hanging: int = 0) -> list[str]:
    lines: list[str] = []
    for number, line in enumerate(text.split("\n")):
        own = len(line) - len(line.lstrip())
        lead = " " * (indent + own + (hanging if number else 0))
        lines += broken(line.strip(), lead, " " * (indent + own + hanging))
    return lines


def broken(line: str, lead: str, further: str) -> list[str]:
    """The words of a line on lines of the width; a word that is longer stays whole."""
    lines: list[str] = []
    for spaces, word in re.findall(r"( *)([^ ]+)", line):
        if lines and columns(lines[-1] + spaces + word) <= WIDTH:
            lines[-1] += spaces + word
        else:
            lines.append((further if lines else lead) + word)
    return lines or [""]


ESCAPED_QUOTES = '\\"\\"\\"'


def escaped(text: str) -> str:
    """Text that neither ends nor escapes out of a docstring."""
    return plain(text).replace("\\", "\\\\").replace('"""', ESCAPED_QUOTES)


def plain(text: str) -> str:
    """Text of printable characters and line breaks only."""
    if text.isprintable():
        return text
    return "".join(char if char == "\n" else printable(char) for char in text.replace("\t", "    "))


def printable(char: str) -> str:
    """The character, a space for other white space, or the name of one that cannot be seen."""
    if char.isprintable():
        return char
    return " " if char.isspace() or unicodedata.category(char).startswith("Z") else f"U+{ord(char):04X}"
