# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Expressions of the spec language, drawn at random and nearly always of the right types."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .words import FLOATS, INTEGERS, chance, pick, text

COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


@dataclass(frozen=True)
class Names:
    """The names that an expression may use, by what they are."""

    integers: Sequence[str] = ()
    floats: Sequence[str] = ()
    booleans: Sequence[str] = ()
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)  # attribute -> words it may be
    optional: Sequence[str] = ()
    tensors: Sequence[str] = ()


def extent(draw: random.Random, names: Sequence[str], depth: int = 2) -> str:
    """An expression for a dim."""
    kind = draw.randrange(10) if depth and names else draw.randrange(4)
    if kind == 0 or not names:
        return (
            str(draw.randint(0 if chance(draw, 9) else 1, 9)) if not chance(draw, 8) else str(abs(pick(draw, INTEGERS)))
        )
    if kind <= 3:
        return pick(draw, names)
    if kind == 4:
        return f"fact({extent(draw, names, 0) if draw.randrange(9) else extent(draw, names, depth - 1)})"
    if kind == 5:
        return f"cdiv({extent(draw, names, depth - 1)}, {extent(draw, names, depth - 1)})"
    if kind == 6:
        several = ", ".join(extent(draw, names, depth - 1) for _ in range(draw.randint(2, 4)))
        return f"{pick(draw, ('min', 'max'))}({several})"
    if kind == 7:
        return f"-{bracketed(extent(draw, names, depth - 1))}"
    left, right = extent(draw, names, depth - 1), extent(draw, names, depth - 1)
    left, right = (bracketed(left), bracketed(right)) if draw.randrange(2) else (left, right)
    return f"{left} {pick(draw, ('+', '-', '*', '//', '%'))} {right}"


def bracketed(expression: str) -> str:
    return f"({expression})"


def one_dim(draw: random.Random, names: Sequence[str]) -> str:
    """An expression as one word among dims."""
    found = extent(draw, names)
    return bracketed(found) if draw.randrange(2) else found.replace(" ", "")


def number(draw: random.Random, names: Names, depth: int) -> str:
    """An integer or a float."""
    if names.floats and draw.randrange(3) == 0:
        return pick(draw, names.floats)
    if chance(draw, 12):
        return repr(pick(draw, FLOATS)).replace("inf", "inf")
    return integer(draw, names, depth)


def integer(draw: random.Random, names: Names, depth: int) -> str:
    if names.tensors and chance(draw, 12):
        return f"rank({pick(draw, names.tensors)})"
    if depth and chance(draw, 12):
        parts = (extent(draw, names.integers, 1), condition(draw, names, depth - 1), extent(draw, names.integers, 1))
        return "({} if {} else {})".format(*parts)
    return extent(draw, names.integers, depth)


def condition(draw: random.Random, names: Names, depth: int = 3) -> str:
    kind = draw.randrange(10 if depth else 6)
    if kind == 0 and names.optional:
        return f"{pick(draw, names.optional)} is {pick(draw, ('', 'not '))}None"
    if kind == 1 and names.texts:
        return words(draw, names)
    if kind == 2 and names.booleans:
        return pick(draw, names.booleans)
    if kind == 3:
        listed = ", ".join(str(draw.randint(-9, 999)) for _ in range(draw.randint(1, 12)))
        brackets = pick(draw, ("[]", "()"))
        term = extent(draw, names.integers, 1)
        return f"{bracketed(term)} {pick(draw, ('in', 'not in'))} {brackets[0]}{listed},{brackets[1]}"
    if kind <= 5:
        terms = [extent(draw, names.integers, 2)] * (draw.randrange(3) == 0) + [number(draw, names, depth)]
        found = integer(draw, names, depth if len(terms) == 1 else 0)
        for term in terms:
            found += f" {pick(draw, COMPARISONS)} {term}"
        return found
    if kind == 6:
        return f"not {bracketed(condition(draw, names, depth - 1))}"
    if kind == 7:
        parts = [bracketed(condition(draw, names, depth - 1)) for _ in range(3)]
        return "{} if {} else {}".format(*parts)
    joined = (condition(draw, names, depth - 1) for _ in range(draw.randint(2, 4)))
    inner = (bracketed(part) if draw.randrange(2) or " if " in part else part for part in joined)
    return pick(draw, (" and ", " or ")).join(inner)


def words(draw: random.Random, names: Names) -> str:
    attribute = pick(draw, sorted(names.texts))
    known = names.texts[attribute] or ("word",)
    if draw.randrange(2):
        return f"{attribute} {pick(draw, ('==', '!='))} {literal(draw, known)}"
    listed = ", ".join(literal(draw, known) for _ in range(draw.randint(1, 3)))
    return f"{attribute} {pick(draw, ('in', 'not in'))} ({listed},)"


def literal(draw: random.Random, known: Sequence[str]) -> str:
    return repr(text(draw) if chance(draw, 6) else pick(draw, known))
