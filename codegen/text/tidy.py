# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Conditions put the way a reader, and a linter, expects them. The meaning stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..spec.expression import (
    Binary,
    Call,
    Comparison,
    Conditional,
    Expression,
    Literal,
    Logical,
    Membership,
    Name,
    Negative,
    Not,
)
from .python_expression import negated

MIRRORED = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
MERGED = {"or": "==", "and": "!="}


def tidy(node: Expression, integers: Callable[[str], bool]) -> Expression:
    """`not` pushed inwards, what varies left of what is compared with, and one `in` for several comparisons.

    `integers` tells which names are integers.
    """

    def inner(child: Expression) -> Expression:
        return tidy(child, integers)

    match node:
        case Not(operand):
            return negated(inner(operand), integers)
        case Negative(operand):
            return Negative(inner(operand))
        case Binary(operator, left, right):
            return Binary(operator, inner(left), inner(right))
        case Comparison((operator,), (left, right)):
            left, right = inner(left), inner(right)
            if isinstance(right, Literal) and isinstance(right.value, bool):
                return left if right.value == (operator == "==") else negated(left, integers)
            if constancy(left) > constancy(right):
                return Comparison((MIRRORED[operator],), (right, left))
            return Comparison((operator,), (left, right))
        case Comparison(operators, terms):
            return Comparison(operators, tuple(inner(term) for term in terms))
        case Membership(term, choices, is_negated):
            return Membership(inner(term), choices, is_negated)
        case Logical(operator, terms):
            found = merged(operator, [inner(term) for term in terms])
            return found[0] if len(found) == 1 else Logical(operator, tuple(found))
        case Conditional(condition, then, otherwise):
            return Conditional(inner(condition), inner(then), inner(otherwise))
        case Call("min" | "max", arguments):
            return Call(node.function, tuple(part for item in arguments for part in spread(inner(item), node.function)))
        case Call(function, arguments):
            return Call(function, tuple(inner(item) for item in arguments))
        case _:
            return node


def constancy(node: Expression) -> int:
    """How constant an expression looks: a literal more than a dim in capitals, that more than an attribute."""
    match node:
        case Literal():
            return 2
        case Name(identifier):
            return 1 if identifier.isupper() else 0
        case Negative(operand):
            return constancy(operand)
        case Binary(_, left, right):
            return min(constancy(left), constancy(right))
        case Call("cdiv", arguments):
            return min(constancy(argument) for argument in arguments)
        case _:
            return 0


def spread(node: Expression, function: str) -> tuple[Expression, ...]:
    """The arguments of a call of the same function, else the expression itself."""
    return node.arguments if isinstance(node, Call) and node.function == function else (node,)


def merged(operator: str, terms: Sequence[Expression]) -> list[Expression]:
    """`a == 1 or a == 2` as `a in (1, 2)`, `a != 1 and a != 2` as `a not in (1, 2)`; nested chains are one."""
    flat: list[Expression] = []
    for term in terms:
        flat += term.terms if isinstance(term, Logical) and term.operator == operator else (term,)
    places: dict[Expression, int] = {}
    found: list[Expression] = []
    for term in flat:
        match term:
            case Comparison((compared,), (Name() as left, right)) if compared == MERGED[operator]:
                if left in places:
                    found[places[left]] = with_choice(found[places[left]], right, operator == "and")
                    continue
                places[left] = len(found)
        found.append(term)
    return found


def with_choice(node: Expression, choice: Expression, is_negated: bool) -> Expression:
    """A comparison, or what it has become, with one more value."""
    if isinstance(node, Membership):
        return Membership(node.term, (*node.choices, choice), is_negated)
    assert isinstance(node, Comparison)
    return Membership(node.terms[0], (node.terms[1], choice), is_negated)
