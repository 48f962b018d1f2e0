# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Dims of a tensor: names, integers and expressions, separated by spaces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ..diagnostics import Diagnostic, SpecError
from .expression import (
    Binary,
    Call,
    Expression,
    Literal,
    Name,
    Negative,
    children,
    constant,
    names_in,
    parse_expression,
)
from .yaml_nodes import Scalar


@dataclass(frozen=True)
class Dim:
    """One dim of a tensor, or `...`: any number of dims. `text` is what a message shows."""

    expression: Expression
    text: str

    @property
    def is_rest(self) -> bool:
        return self.text == REST

    @cached_property
    def name(self) -> str | None:
        """The dim's name if it is bare, else None."""
        return self.expression.id if isinstance(self.expression, Name) and not self.is_rest else None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names it uses, each once, in order."""
        return () if self.is_rest else tuple(dict.fromkeys(name.id for name in names_in(self.expression)))

    @property
    def compact(self) -> str:
        """The text as one word."""
        return "".join(self.text.split())


REST = "..."
MOST_DIMS = 32


def split_dims(scalar: Scalar) -> Iterator[tuple[str, int]]:
    """The parts of a dims text with their offsets; spaces inside brackets do not separate."""
    text, depth, start = scalar.text, 0, None
    for index, char in enumerate(text + " "):
        if char.isspace() and depth == 0:
            if start is not None:
                yield text[start:index], start
            start = None
            continue
        start = index if start is None else start
        depth += (char in "([") - (char in ")]")
        if depth < 0:
            raise SpecError(Diagnostic("HP202", scalar.at(index), "a bracket closes that was not opened"))
    if start is not None:
        raise SpecError(Diagnostic("HP202", scalar.at(start), "a bracket is not closed"))


def parse_dims(scalar: Scalar) -> tuple[Dim, ...]:
    """Parse `B S1 N*N (fact(N) + 1)` or `... C` into dims."""
    dims: list[Dim] = []
    for text, offset in split_dims(scalar):
        if len(dims) == MOST_DIMS:
            raise SpecError(Diagnostic("HP005", scalar.at(offset), f"a tensor of more than {MOST_DIMS} dims"))
        if text == REST:
            if any(dim.is_rest for dim in dims):
                raise SpecError(Diagnostic("HP202", scalar.at(offset, len(REST)), "'...' may stand once"))
            dims.append(Dim(Name(REST), REST))
            continue
        if text.endswith(","):
            hint = f"write: {' '.join(scalar.text.replace(',', ' ').split())}"
            place = scalar.at(offset + len(text) - 1)
            raise SpecError(Diagnostic("HP202", place, "dims are separated by spaces, not by commas", hint))
        expression = parse_expression(scalar, text, offset)
        foreign = next(outside_dims(expression), None)
        if foreign is not None:
            message = "a dim is made of names, integers, + - * // %, fact, min, max and cdiv"
            raise SpecError(Diagnostic("HP202", scalar.at(foreign.offset), message))
        if (constant(expression) or 0) < 0:
            raise SpecError(Diagnostic("HP202", scalar.at(offset, len(text)), "an extent is not negative"))
        bare = text[1:-1].strip() if text.startswith("(") and text.endswith(")") else text
        dims.append(Dim(expression, bare if isinstance(expression, Name | Literal) else text))
    return tuple(dims)


def outside_dims(node: Expression) -> Iterator[Expression]:
    """The parts of an expression that have no meaning as an extent."""
    match node:
        case Name() | Binary() | Negative():
            pass
        case Literal(value=value) if isinstance(value, int) and not isinstance(value, bool):
            pass
        case Call(function=function) if function in ("fact", "min", "max", "cdiv"):
            pass
        case _:
            yield node
    for child in children(node):
        yield from outside_dims(child)
