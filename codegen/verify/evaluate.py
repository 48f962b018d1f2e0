# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Values of the restricted expressions: what a spec requires, and the extents of its dims."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

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

ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "fact": math.factorial,
    "min": min,
    "max": max,
    "cdiv": lambda a, b: -(-a // b),
    "ints": lambda *values: values,
    "i32": int,
    "rank": len,
}


def evaluate(node: Expression, names: Mapping[str, Any]) -> Any:
    """The value of an expression.

    Args:
        names: Dims with their extents, attributes and lengths with their values, tensors with their dims or None.

    Raises:
        KeyError: A name that has no value.
    """
    match node:
        case Literal(value):
            return value
        case Name(name):
            return names[name]
        case Negative(operand):
            return -evaluate(operand, names)
        case Not(operand):
            return not evaluate(operand, names)
        case Binary(sign, left, right):
            return ARITHMETIC[sign](evaluate(left, names), evaluate(right, names))
        case Comparison(signs, terms):
            values = [evaluate(term, names) for term in terms]
            pairs = zip(signs, values, values[1:], strict=False)
            return all(COMPARISONS[sign](left, right) for sign, left, right in pairs)
        case Membership(term, choices, negated):
            return (evaluate(term, names) in [evaluate(choice, names) for choice in choices]) is not negated
        case IsNone(term, negated):
            return (evaluate(term, names) is None) is not negated
        case Logical(word, terms):
            return (all if word == "and" else any)(evaluate(term, names) for term in terms)
        case Conditional(condition, then, otherwise):
            return evaluate(then if evaluate(condition, names) else otherwise, names)
        case Call(function, arguments):
            return FUNCTIONS[function](*(evaluate(argument, names) for argument in arguments))
