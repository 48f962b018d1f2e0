# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Types of expressions: what compiles in Python and in C++, and has a meaning in both."""

from __future__ import annotations

from ..diagnostics import Findings
from .expression import (
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
    children,
)
from .model import LengthsArgument, Spec, TensorArgument
from .yaml_nodes import Scalar

NUMBERS = ("int", "float")
UNKNOWN = ""
"""The type of what has been reported already."""


class Typer:
    """Finds the type of an expression (int, float, bool, str, dtype, ints, lengths, tensor, none), reporting faults.

    A tensor stands alone, below an adapter, in a choice, in rank(), or in a test for None; lengths or a list stand
    alone, or in a test for None.
    """

    def __init__(self, spec: Spec, scalar: Scalar, findings: Findings) -> None:
        self.spec = spec
        self.scalar = scalar
        self.findings = findings
        self.found: dict[int, str] = {}

    def fail(self, node: Expression, message: str, hint: str = "") -> str:
        length = len(node.id) if isinstance(node, Name) else 1
        self.findings.add("HP202", self.scalar.at(node.offset, length), message, hint)
        return UNKNOWN

    def name(self, node: Name) -> str:
        item = self.spec.by_name.get(node.id)
        if node.id in self.spec.dim_docs:
            return "int"
        if isinstance(item, LengthsArgument):
            return "lengths"
        if isinstance(item, TensorArgument) or item is None:
            return "tensor"
        return item.type

    def of(self, node: Expression) -> str:
        """The type of an expression; UNKNOWN if a fault in it has been reported.

        Each is looked at once: a nested term is asked for by everything around it.
        """
        if id(node) not in self.found:
            self.found[id(node)] = self.inferred(node)
        return self.found[id(node)]

    def inferred(self, node: Expression) -> str:
        match node:
            case Literal(value):
                return "none" if value is None else type(value).__name__
            case Name():
                return self.name(node)
            case Negative(operand):
                return self.number(operand, "-")
            case Binary(operator, left, right):
                return self.arithmetic(operator, left, right)
            case Comparison(operators, terms):
                return self.comparison(operators, terms)
            case Membership(term, choices, _):
                self.repeated(term)
                for choice in choices:
                    self.comparable("==", term, choice)
                return "bool"
            case IsNone(term):
                return self.test_for_none(term)
            case Logical(_, terms):
                for term in terms:
                    self.condition(term)
                return "bool"
            case Not(operand):
                self.condition(operand)
                return "bool"
            case Conditional(condition, then, otherwise):
                self.condition(condition)
                return self.choice(then, otherwise)
            case Call():
                return self.call(node)

    def number(self, node: Expression, what: str) -> str:
        found = self.of(node)
        if found in (*NUMBERS, UNKNOWN):
            return found
        return self.fail(node, f"'{what}' is for numbers, but this is of type {found}")

    def arithmetic(self, operator: str, left: Expression, right: Expression) -> str:
        types = (self.number(left, operator), self.number(right, operator))
        if operator in ("//", "%") and "float" in types:
            return self.fail(left, f"'{operator}' is for integers")
        if operator in ("//", "%") and right == Literal(0):
            return self.fail(right, "division by zero")
        return UNKNOWN if UNKNOWN in types else "float" if "float" in types else "int"

    def comparison(self, operators: tuple[str, ...], terms: tuple[Expression, ...]) -> str:
        for middle in terms[1:-1]:
            self.repeated(middle)
        for operator, left, right in zip(operators, terms, terms[1:], strict=False):
            self.comparable(operator, left, right)
        return "bool"

    def comparable(self, operator: str, left: Expression, right: Expression) -> None:
        types = (self.of(left), self.of(right))
        if UNKNOWN in types:
            return
        kinds = {"number" if found in NUMBERS else "str" if found == "dtype" else found for found in types}
        if "none" in kinds:
            self.fail(right, "a comparison with None", "write: is None")
        elif kinds == {"number"} or (operator in ("==", "!=") and kinds in ({"str"}, {"bool"})):
            return
        elif len(kinds) == 1:
            self.fail(left, f"'{operator}' has no meaning for type {kinds.pop()}")
        else:
            self.fail(right, f"'{operator}' between the types {types[0]} and {types[1]}")

    def repeated(self, node: Expression) -> None:
        """An operand that C++ has to write several times: nesting such ones would double the text at every level."""
        parts = [node]
        for part in parts:
            parts += children(part)
            if isinstance(part, Comparison | Membership | Conditional):
                self.fail(part, "a condition inside a comparison", "join conditions with 'and' and 'or'")
                return

    def test_for_none(self, node: Expression) -> str:
        item = self.spec.by_name.get(node.id) if isinstance(node, Name) else None
        if (
            item is None
            or item.required
            or (not isinstance(item, TensorArgument | LengthsArgument) and not item.optional)
        ):
            return self.fail(node, "this is never None", "only optional tensors, lengths and lists may be")
        return "bool"

    def condition(self, node: Expression) -> None:
        found = self.of(node)
        if found not in ("bool", UNKNOWN):
            self.fail(node, f"a condition is true or false, but this is of type {found}", "compare it with a value")

    def choice(self, then: Expression, otherwise: Expression) -> str:
        types = (self.of(then), self.of(otherwise))
        if UNKNOWN in types:
            return UNKNOWN
        if types[0] == types[1] and types[0] in (*NUMBERS, "bool", "str", "tensor"):
            return types[0]
        if set(types) <= set(NUMBERS):
            return "float"
        return self.fail(then, f"a choice between the types {types[0]} and {types[1]}", "both sides are of one type")

    def call(self, node: Call) -> str:
        first, *others = node.arguments
        if node.function in (*ADAPTERS, "grad", "rank"):
            if self.of(first) not in ("tensor", UNKNOWN):
                return self.fail(first, f"{node.function} is for tensors")
            for other in others:
                self.integer(other, node.function)
            return "int" if node.function == "rank" else "tensor"
        if node.function == "ints" and first == Literal(None) and not others:
            return "ints"
        if node.function in ("min", "max"):
            types = [self.number(argument, node.function) for argument in node.arguments]
            return self.fail(first, f"{node.function} of numbers of two types") if len(set(types)) > 1 else types[0]
        for argument in node.arguments:
            self.integer(argument, node.function)
        return "ints" if node.function == "ints" else "int"

    def integer(self, node: Expression, function: str) -> None:
        found = self.of(node)
        if found not in ("int", UNKNOWN):
            self.fail(node, f"{function} takes integers, but this is of type {found}")
