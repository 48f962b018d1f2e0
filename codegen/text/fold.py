# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Folding of what is known about a name, so that a branch for one format holds no test of the format."""

from __future__ import annotations

from ..spec.expression import Call, Comparison, Conditional, Expression, Literal, Logical, Membership, Name, Not

TRUE, FALSE = Literal(True), Literal(False)


def fold(node: Expression, name: str, value: str | int) -> Expression:
    """`node` where the attribute `name` is known to be `value`, or the tensor `name` to have `value` dims."""

    def known(term: Expression) -> str | int | float | bool | None:
        if term == (Name(name) if isinstance(value, str) else Call("rank", (Name(name),))):
            return value
        return term.value if isinstance(term, Literal) else None

    match node:
        case Comparison((operator,), (left, right)) if operator in ("==", "!="):
            if known(left) is None or known(right) is None:
                return node
            return Literal((known(left) == known(right)) == (operator == "=="))
        case Membership(term, choices, negated) if all(known(item) is not None for item in (term, *choices)):
            return Literal((known(term) in [known(choice) for choice in choices]) != negated)
        case Not(operand):
            inner = fold(operand, name, value)
            return Literal(not inner.value) if isinstance(inner, Literal) else Not(inner)
        case Logical(operator, terms):
            return fold_logical(operator, [fold(term, name, value) for term in terms])
        case Conditional(condition, then, otherwise):
            test = fold(condition, name, value)
            then, otherwise = fold(then, name, value), fold(otherwise, name, value)
            if isinstance(test, Literal):
                return then if test.value else otherwise
            return Conditional(test, then, otherwise)
        case _:
            return node


def fold_logical(operator: str, terms: list[Expression]) -> Expression:
    deciding, neutral = (FALSE, TRUE) if operator == "and" else (TRUE, FALSE)
    if deciding in terms:
        return deciding
    rest = tuple(term for term in terms if term != neutral)
    if not rest:
        return neutral
    return rest[0] if len(rest) == 1 else Logical(operator, rest)
