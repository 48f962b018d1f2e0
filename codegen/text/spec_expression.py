# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Expressions printed as they stand in a spec."""

from __future__ import annotations

import math

from ..spec.expression import (
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
from .python_expression import python


def spec_text(node: Expression) -> str:
    """An expression as it stands in a spec."""
    return python(verbatim(node))


def verbatim(node: Expression) -> Expression:
    """The expression with calls and special numbers as plain text, which Python spells differently."""
    match node:
        case Call(function, arguments):
            return Name(f"{function}({', '.join(spec_text(item) for item in arguments)})")
        case Literal(float() as value) if math.isinf(value):
            return Name("inf") if value > 0 else Negative(Name("inf"))
        case Negative(operand):
            return Negative(verbatim(operand))
        case Not(operand):
            return Not(verbatim(operand))
        case Binary(operator, left, right):
            return Binary(operator, verbatim(left), verbatim(right))
        case Comparison(operators, terms):
            return Comparison(operators, tuple(verbatim(term) for term in terms))
        case Logical(operator, terms):
            return Logical(operator, tuple(verbatim(term) for term in terms))
        case Membership(term, choices, negated):
            return Membership(verbatim(term), tuple(verbatim(choice) for choice in choices), negated)
        case IsNone(term, negated):
            return IsNone(verbatim(term), negated)
        case Conditional(condition, then, otherwise):
            return Conditional(verbatim(condition), verbatim(then), verbatim(otherwise))
        case _:
            return node
