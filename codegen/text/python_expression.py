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
from .python_layout import Chain, Group, Item, bracketed, call, flat, prefixed

CONDITIONAL, OR, AND, NOT, COMPARE, ADD, MULTIPLY, UNARY, ATOM = range(9)
OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
FUNCTIONS = {"fact": "factorial", "min": "min", "max": "max"}
FUNCTIONS |= {name: name for name in ADAPTERS}


def literal(value: str | int | float | bool | tuple[int, ...] | None) -> str:
    """A value as Python source, in double quotes and with INT64_MAX and inf as words."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, float) and math.isinf(value):
        return "math.inf" if value > 0 else "-math.inf"
    if isinstance(value, int) and not isinstance(value, bool) and value == 2**63 - 1:
        return "INT64_MAX"
    return repr(value).replace("e+", "e") if isinstance(value, float) else repr(value)


def default(value: str | int | float | bool | tuple[int, ...]) -> Item:
    """A default as it stands in a signature."""
    if isinstance(value, tuple):
        return Group("(", tuple(literal(item) for item in value), ")", is_tuple=True)
    return literal(value)


def quoted(text: str) -> str:
    """Text as a Python string literal: double quotes, unless single ones need fewer escapes."""
    if text.isprintable() and not ('"' in text or "\\" in text):
        return f'"{text}"'
    quote = "'" if text.count('"') > text.count("'") else '"'
    return quote + "".join("\\" + char if char == quote else escape(char) for char in text) + quote


def escape(char: str) -> str:
    """A character of a string literal: what cannot be seen is escaped, and a backslash is doubled."""
    return char if char.isprintable() and char != "\\" else char.encode("unicode_escape").decode()


def python(node: Expression, name: Callable[[str], str] = str) -> str:
    """The expression as Python source on one line; `name` maps its names."""
    return flat(laid_out(node, name))


def laid_out(node: Expression, name: Callable[[str], str] = str) -> Item:
    """The expression as Python source that can be broken into lines."""
    return printed(node, name)[0]


def printed(node: Expression, name: Callable[[str], str]) -> tuple[Item, int]:
    """Source and binding strength."""

    def inside(child: Expression, least: int) -> Item:
        item, strength = printed(child, name)
        return item if strength >= least else bracketed(item)

    match node:
        case Literal(value):
            return literal(value), ATOM
        case Name(identifier):
            return name(identifier), ATOM
        case Negative(Negative(operand)):
            return printed(operand, name)
        case Negative(Call("cdiv", (dividend, divisor))):
            return printed(Binary("//", Negative(dividend), divisor), name)
        case Negative(operand):
            return prefixed("-", inside(operand, ATOM)), UNARY
        case Binary(operator, left, right):
            level = ADD if operator in "+-" else MULTIPLY
            first, strength = printed(left, name)
            if strength == level and isinstance(first, Chain):
                return Chain((*first.operands, inside(right, level + 1)), (*first.operators, operator)), level
            return Chain((inside(left, level), inside(right, level + 1)), (operator,)), level
        case Comparison(operators, terms):
            return Chain(tuple(inside(term, ADD) for term in terms), operators), COMPARE
        case Membership(term, choices, negated):
            listed = Group("(", tuple(inside(choice, CONDITIONAL) for choice in choices), ")", is_tuple=True)
            return Chain((inside(term, ADD), listed), ("not in" if negated else "in",)), COMPARE
        case IsNone(term, negated):
            return Chain((inside(term, ADD), "None"), ("is not" if negated else "is",)), COMPARE
        case Logical(operator, terms):
            # Brackets around `and` inside `or` say what binds first.
            level = AND if operator == "and" else OR
            return Chain(tuple(inside(term, NOT) for term in terms), (operator,) * (len(terms) - 1)), level
        case Not(operand):
            return prefixed("not ", inside(operand, NOT)), NOT
        case Conditional(condition, then, otherwise):
            last = inside(otherwise, CONDITIONAL)
            parts = (inside(then, OR), inside(condition, OR))
            if isinstance(otherwise, Conditional) and isinstance(last, Chain):
                return Chain((*parts, *last.operands), ("if", "else", *last.operators)), CONDITIONAL
            return Chain((*parts, last), ("if", "else")), CONDITIONAL
        case Call("cdiv", (dividend, divisor)):
            quotient = printed(Binary("//", Negative(dividend), divisor), name)[0]
            return prefixed("-", bracketed(quotient)), UNARY
        case Call("rank", (tensor,)):
            return call("len", f"{flat(inside(tensor, ATOM))}.shape"), ATOM
        case Call(function, arguments):
            return call(FUNCTIONS[function], *(inside(item, CONDITIONAL) for item in arguments)), ATOM


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
