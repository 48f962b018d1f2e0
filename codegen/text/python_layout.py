# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Layout of Python code as a formatter leaves it: on one line if it fits, else one element per line."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

WIDTH = 120


@dataclass(frozen=True)
class Group:
    """A bracketed list such as the arguments of a call, a tuple or a dict; a tuple of one keeps its comma."""

    opening: str
    items: tuple[Item, ...]
    closing: str
    is_tuple: bool = False

    @property
    def flat(self) -> str:
        comma = "," if self.is_tuple and len(self.items) == 1 else ""
        return self.opening + ", ".join(flat(item) for item in self.items) + comma + self.closing


Item: TypeAlias = "str | Group"


def flat(item: Item) -> str:
    return item if isinstance(item, str) else item.flat


def lay_out(item: Item, indent: int, after: str = "") -> str:
    """The lines of `item`, each indented; `after` is what follows on its last line, such as a comma."""
    lead = " " * indent
    if isinstance(item, str):
        return lead + item + after
    line = lead + item.flat + after
    if len(line) <= WIDTH or not item.items:
        return line
    inner = [lay_out(child, indent + 4, ",") for child in item.items]
    return "\n".join([lead + item.opening, *inner, lead + item.closing + after])


def call(function: str, *arguments: Item) -> Group:
    return Group(f"{function}(", arguments, ")")


def strings(prefix: str, words: Sequence[str]) -> Group:
    """A tuple of names as string literals."""
    return Group(f"{prefix}(", tuple(f'"{word}"' for word in words), ")", is_tuple=True)


def condition(keyword: str, text: str, operands: Sequence[str], operator: str, indent: int) -> str:
    """`if a or b:` on one line, or with one operand per line in brackets."""
    lead = " " * indent
    line = f"{lead}{keyword} {text}:"
    if len(line) <= WIDTH or len(operands) < 2:
        return line
    inner = [f"{lead}    {operands[0]}", *(f"{lead}    {operator} {operand}" for operand in operands[1:])]
    return "\n".join([f"{lead}{keyword} (", *inner, f"{lead}):"])


def prose(text: str, indent: int, hanging: int = 0) -> list[str]:
    """Lines of a docstring: wrapped to the width, line breaks of the text kept, made safe inside triple quotes."""
    lines: list[str] = []
    for number, line in enumerate(escaped(text).split("\n")):
        lead = " " * (indent + (hanging if number or lines else 0))
        own = len(line) - len(line.lstrip())
        wrapped = textwrap.wrap(
            line.strip(),
            WIDTH,
            initial_indent=lead + " " * own,
            subsequent_indent=" " * (indent + hanging + own),
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines += wrapped or [""]
    return lines


def escaped(text: str) -> str:
    """Text that neither ends nor escapes out of a docstring."""
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"').replace("\t", "    ")
