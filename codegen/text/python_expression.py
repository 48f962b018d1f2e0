# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Expressions printed as Python, with as few brackets as the reader needs."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..spec.expression import (
    ADAPTERS,
    Binary,
    Call,
    Comparison,
    Conditional,
    Expression,
    IsNone,
    Literal,
    Logical,
    Membership,
    Name,
    Negative,
    Not,
)

CONDITIONAL, OR, AND, NOT, COMPARE, ADD, MULTIPLY, UNARY, ATOM = range(9)
OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
FUNCTIONS = {"fact": "math.factorial", "min": "min", "max": "max"}
FUNCTIONS |= {name: name for name in ADAPTERS}


def literal(value: str | int | float | bool | tuple[int, ...] | None) -> str:
    """A value as Python source, in double quotes and with INT64_MAX and inf as words."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, float) and math.isinf(value):
        return "math.inf" if value > 0 else "-math.inf"
    if isinstance(value, int) and not isinstance(value, bool) and value == 2**63 - 1:
        return "INT64_MAX"
    return repr(value)


def quoted(text: str) -> str:
    """Text as a Python string literal: double quotes, unless single ones need fewer escapes."""
    quote = "'" if text.count('"') > text.count("'") else '"'
    return quote + "".join("\\" + char if char == quote else ESCAPES.get(char, char) for char in text) + quote


def python(node: Expression, name: Callable[[str], str] = str) -> str:
    """The expression as Python source; `name` maps its names."""
    return printed(node, name)[0]


def printed(node: Expression, name: Callable[[str], str]) -> tuple[str, int]:
    """Source and binding strength."""

    def inside(child: Expression, least: int) -> str:
        text, strength = printed(child, name)
        return text if strength >= least else f"({text})"

    match node:
        case Literal(value):
            return literal(value), ATOM
        case Name(identifier):
            return name(identifier), ATOM
        case Negative(operand):
            return f"-{inside(operand, UNARY)}", UNARY
        case Binary(operator, left, right):
            level = ADD if operator in "+-" else MULTIPLY
            return f"{inside(left, level)} {operator} {inside(right, level + 1)}", level
        case Comparison(operators, terms):
            parts = [inside(terms[0], ADD)]
            for operator, term in zip(operators, terms[1:], strict=True):
                parts += [operator, inside(term, ADD)]
            return " ".join(parts), COMPARE
        case Membership(term, choices, negated):
            listed = ", ".join(inside(choice, CONDITIONAL) for choice in choices)
            closing = ",)" if len(choices) == 1 else ")"
            return f"{inside(term, ADD)} {'not in' if negated else 'in'} ({listed}{closing}", COMPARE
        case IsNone(term, negated):
            return f"{inside(term, ADD)} is {'not ' if negated else ''}None", COMPARE
        case Logical(operator, terms):
            level = AND if operator == "and" else OR
            return f" {operator} ".join(inside(term, level + 1) for term in terms), level
        case Not(operand):
            return f"not {inside(operand, NOT)}", NOT
        case Conditional(condition, then, otherwise):
            return f"{inside(then, OR)} if {inside(condition, OR)} else {inside(otherwise, CONDITIONAL)}", CONDITIONAL
        case Call("cdiv", (dividend, divisor)):
            return f"-(-{inside(dividend, UNARY)} // {inside(divisor, UNARY)})", UNARY
        case Call("rank", (tensor,)):
            return f"len({inside(tensor, ATOM)}.shape)", ATOM
        case Call(function, arguments):
            return f"{FUNCTIONS[function]}({', '.join(inside(item, CONDITIONAL) for item in arguments)})", ATOM


def negated(node: Expression, integers: Callable[[str], bool]) -> Expression:
    """The opposite of a condition, pushed inwards so that it reads as one would write it.

    `integers` tells which names are integers: only there is `not a < b` the same as `a >= b` (not for nan).
    """
    match node:
        case Not(operand):
            return operand
        case Comparison((operator,), terms) if invertible(operator, terms, integers):
            return Comparison((OPPOSITE[operator],), terms)
        case Membership(term, choices, negative):
            return Membership(term, choices, not negative)
        case IsNone(term, negative):
            return IsNone(term, not negative)
        case Logical(operator, terms):
            return Logical("or" if operator == "and" else "and", tuple(negated(term, integers) for term in terms))
        case _:
            return Not(node)


def invertible(operator: str, terms: tuple[Expression, ...], integers: Callable[[str], bool]) -> bool:
    return operator in ("==", "!=") or all(integral(term, integers) for term in terms)


def integral(node: Expression, integers: Callable[[str], bool]) -> bool:
    match node:
        case Name(identifier):
            return integers(identifier)
        case Literal(value):
            return isinstance(value, int)
        case Binary(_, left, right):
            return integral(left, integers) and integral(right, integers)
        case Negative(operand):
            return integral(operand, integers)
        case Call(function, arguments):
            return function in (*FUNCTIONS, "cdiv") and all(integral(argument, integers) for argument in arguments)
        case _:
            return False
