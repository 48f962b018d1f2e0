# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Layout of Python code as `ruff format` leaves it: on one line if it fits, else one element per line.

Three shapes are enough: a word, a bracketed list, and a chain of operands. A list that needs several lines ends in a
comma, which tells the formatter to keep it that way; for chains the formatter's own rules are followed.
"""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

WIDTH = 120


@dataclass(frozen=True)
class Group:
    """A bracketed list such as the arguments of a call, a tuple or a dict; a tuple of one keeps its comma.

    `comma` is False for brackets around one expression, where a comma would make a tuple of it.
    """

    opening: str
    items: tuple[Item, ...]
    closing: str
    is_tuple: bool = False
    comma: bool = True

    @cached_property
    def flat(self) -> str:
        comma = "," if self.is_tuple and len(self.items) == 1 else ""
        return self.opening + ", ".join(flat(item) for item in self.items) + comma + self.closing


@dataclass(frozen=True)
class Chain:
    """Operands with the operators between them, all of one precedence: `a + b - c`, `a if b else c`."""

    operands: tuple[Item, ...]
    operators: tuple[str, ...]

    @cached_property
    def flat(self) -> str:
        return " ".join([flat(self.operands[0]), *(f"{lead}{flat(item)}" for lead, item in self.others())])

    def others(self) -> Iterator[tuple[str, Item]]:
        """The operands behind the first, each with its operator and a space."""
        return ((f"{operator} ", item) for operator, item in zip(self.operators, self.operands[1:], strict=True))


Item: TypeAlias = "str | Group | Chain"


def flat(item: Item) -> str:
    return item if isinstance(item, str) else item.flat


def columns(text: str) -> int:
    """The width of a text as the formatter counts it: wide characters take two columns, combining ones none."""
    if text.isascii():
        return len(text)
    wide = (2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text if not unicodedata.combining(char))
    return sum(wide)


def prefixed(text: str, item: Item) -> Item:
    """The item with a text before its first word: `not`, a minus, a keyword."""
    if isinstance(item, str):
        return text + item
    if isinstance(item, Group):
        return dataclasses.replace(item, opening=text + item.opening)
    return Chain((prefixed(text, item.operands[0]), *item.operands[1:]), item.operators)


def bracketed(item: Item) -> Group:
    """The item in brackets that the expression needs."""
    return Group("(", (item,), ")", comma=False)


def lay_out(item: Item, indent: int, after: str = "") -> str:
    """The lines of `item`, each indented; `after` is what follows on its last line, such as a comma."""
    return " " * indent + placed(item, indent, indent, after)


def placed(item: Item, indent: int, column: int, after: str = "") -> str:
    """`item` from `column` on, on a line that is indented by `indent`; its further lines are indented."""
    if isinstance(item, str) or column + columns(item.flat + after) <= WIDTH:
        return flat(item) + after
    lead = "\n" + " " * indent
    if isinstance(item, Chain):
        last = len(item.operators) - 1
        lines = [placed(item.operands[0], indent, column)]
        for index, (operator, operand) in enumerate(item.others()):
            behind = after if index == last else ""
            lines.append(operator + placed(operand, indent, indent + len(operator), behind))
        return lead.join(lines)
    if not item.items:
        return item.flat + after
    comma = "," if item.comma else ""
    inner = [lay_out(child, indent + 4, comma) for child in item.items]
    return "\n".join([item.opening, *inner, " " * indent + item.closing + after])


def statement(before: str, item: Item, after: str, indent: int) -> str:
    """A statement around an expression that has no brackets of its own: `if ...:`, `x = ...`.

    Where it needs several lines it breaks in the expression's last brackets, or gets brackets around it.
    """
    lead = " " * indent
    line = lead + before + flat(item) + after
    inner = lay_out(item, indent + 4)
    if columns(line) <= WIDTH:
        return line
    if isinstance(item, str):
        return f"{lead}{before}(\n{inner}\n{lead}){after}" if columns(inner) <= WIDTH else line
    if isinstance(item, Group):
        # Brackets of its own help where the opening ones leave no room on the line.
        wrapped = columns(lead + before + item.opening) > WIDTH >= columns(f"{lead}    {item.opening}")
        if not wrapped:
            return lead + placed(prefixed(before, item), indent, indent, after)
    elif keeps_outer_brackets_away(item) and widest(item, indent, len(before)) <= WIDTH:
        return lead + without_brackets(prefixed(before, item), indent, after)
    return f"{lead}{before}(\n{inner}\n{lead}){after}"


def keeps_outer_brackets_away(chain: Chain) -> bool:
    """Whether a chain breaks inside brackets that it has already: one operator, and brackets at its end or start."""
    return len(chain.operators) == 1 and (
        isinstance(last_word(chain), Group) or flat(first_word(chain)).startswith("(")
    )


def last_word(item: Item) -> Item:
    return last_word(item.operands[-1]) if isinstance(item, Chain) else item


def first_word(item: Item) -> Item:
    return first_word(item.operands[0]) if isinstance(item, Chain) else item


def words(item: Item, lead: str = "") -> Iterator[tuple[str, Item]]:
    """The words and brackets of an expression, each with what stands before it."""
    if not isinstance(item, Chain):
        yield lead, item
        return
    yield from words(item.operands[0], lead)
    for operator, operand in item.others():
        yield from words(operand, f" {operator}")


def without_brackets(item: Item, indent: int, after: str) -> str:
    """The expression with breaks only inside the brackets that it has: as few of them as make it fit."""
    parts = list(words(item))
    text, column = "", indent
    for index, (lead, word) in enumerate(parts):
        behind = ""
        for following, other in parts[index + 1 :]:
            behind += following + (other.opening if isinstance(other, Group) else flat(other))
            if isinstance(other, Group):
                break
        else:
            behind += after
        column += len(lead)
        fits = isinstance(word, str) or column + columns(word.flat + behind) <= WIDTH
        part = flat(word) if fits else placed(word, indent, WIDTH)
        text += lead + part
        column = column + columns(part) if fits else columns(part.rsplit("\n", 1)[-1])
    return text + after


def widest(item: Item, indent: int, before: int = 0) -> int:
    """The columns of the longest line if every bracket were opened."""
    most, column = 0, indent + before
    for lead, word in words(item):
        if isinstance(word, Group):
            inner = (widest_opened(child, indent + 4) for child in word.items)
            most = max(most, column + columns(lead + word.opening), *inner)
            column = indent + columns(word.closing)
        else:
            column += columns(lead + flat(word))
    return max(most, column)


def widest_opened(item: Item, indent: int) -> int:
    """The same inside brackets, where each operand stands on its own line."""
    if not isinstance(item, Chain):
        return widest(item, indent)
    others = (widest_opened(operand, indent + columns(operator)) for operator, operand in item.others())
    return max(widest_opened(item.operands[0], indent), *others)


def call(function: str, *arguments: Item) -> Group:
    return Group(f"{function}(", arguments, ")")


def strings(prefix: str, words: Sequence[str]) -> Group:
    """A tuple of names as string literals."""
    return Group(f"{prefix}(", tuple(f'"{word}"' for word in words), ")", is_tuple=True)


def assigned(targets: Sequence[str], value: Group, indent: int, is_tuple: bool = True) -> str:
    """An assignment from a call; several targets are unpacked, as is one if the value `is_tuple`."""
    lead = " " * indent
    unpacks = is_tuple or len(targets) > 1
    names = f"({targets[0]},)" if unpacks and len(targets) == 1 else ", ".join(targets)
    if len(targets) == 1 and columns(f"{lead}{names} = (") <= WIDTH:
        return statement(f"{names} = ", value, "", indent)
    if columns(f"{lead}{names} = {value.opening}") <= WIDTH:
        return lay_out(prefixed(f"{names} = ", value), indent)
    inner = "\n".join(f"{lead}    {target}," for target in targets)
    return f"{lead}(\n{inner}\n{lead}) = " + placed(value, indent, indent + len(") = "))
