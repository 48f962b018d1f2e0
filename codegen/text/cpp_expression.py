# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Expressions printed as C++."""

from __future__ import annotations

import math
from collections.abc import Callable

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

FUNCTIONS = {"fact": "Factorial", "cdiv": "CeilDiv"}
DIVISION = {"//": "FloorDiv", "%": "FloorMod"}
TYPE_ID = {
    "bool": "kNumberTypeBool",
    "float16": "kNumberTypeFloat16",
    "bfloat16": "kNumberTypeBFloat16",
    "float32": "kNumberTypeFloat32",
    "float64": "kNumberTypeFloat64",
    "int8": "kNumberTypeInt8",
    "int16": "kNumberTypeInt16",
    "int32": "kNumberTypeInt32",
    "int64": "kNumberTypeInt64",
    "uint8": "kNumberTypeUInt8",
}


def string(text: str) -> str:
    """Text as a C++ string literal, in octal escapes where a character could end or change it."""
    body = "".join(
        char if " " <= char <= "~" and char not in '"\\?' else "".join(f"\\{byte:03o}" for byte in char.encode())
        for char in text
    )
    return f'"{body}"'


def dtype_constant(dtype: str, is_tensor: bool) -> str:
    """The TypeId of a dtype, or of the tensor whose dtype is shared."""
    return f"{dtype}.data_type()" if is_tensor else f"ms::TypeId::{TYPE_ID[dtype]}"


def dtype_of_attribute(name: str) -> str:
    """The TypeId of the dtype that an attribute names."""
    return f"DtypeOf({name})"


def literal(value: str | int | float | bool | None) -> str:
    match value:
        case None:
            return "kNoTensor"
        case bool():
            return "true" if value else "false"
        case str():
            return f"std::string({string(value)})"
        case float():
            if math.isinf(value):
                sign = "-" if value < 0 else ""
                return f"{sign}std::numeric_limits<double>::infinity()"
            return repr(value)
        case _:
            return f"int64_t{{{value}}}"


def is_integer(node: Expression) -> bool:
    return isinstance(node, Literal) and isinstance(node.value, int) and not isinstance(node.value, bool)


def plain_name(identifier: str, is_grad: bool) -> str:
    """A name as it is; a gradient has no name of its own here."""
    return f"grad_{identifier}" if is_grad else identifier


class CppPrinter:
    """Prints expressions; `name` maps a name, and whether its gradient is meant, to a variable.

    Every compound operand is bracketed, so precedence never matters.
    """

    def __init__(self, name: Callable[[str, bool], str]) -> None:
        self.name = name

    def text(self, node: Expression) -> str:
        match node:
            case Name(identifier):
                return self.name(identifier, False)
            case Literal(value):
                return literal(value)
            case Negative(Literal(value)) if isinstance(value, int):
                return literal(-value)
            case Negative(operand):
                return f"-{self.operand(operand)}"
            case Binary(operator, left, right):
                if operator in DIVISION:
                    return f"{DIVISION[operator]}({self.text(left)}, {self.text(right)})"
                # Two numbers: the first has a type, so that they are not added as 32-bit ones.
                numbers = is_integer(left) and is_integer(right)
                first = self.text(left) if numbers else self.term(left, operator)
                return f"{first} {operator} {self.term(right, operator, right=True)}"
            case Comparison(operators, terms):
                pairs = zip(terms, operators, terms[1:], strict=False)
                return " && ".join(f"{self.compared(a)} {operator} {self.compared(b)}" for a, operator, b in pairs)
            case Membership(term, choices, negated):
                operator, joint = ("!=", " && ") if negated else ("==", " || ")
                return joint.join(f"{self.compared(term)} {operator} {self.compared(choice)}" for choice in choices)
            case IsNone(term, negated):
                return f"{'' if negated else '!'}{self.operand(term)}.has_value()"
            case Logical(operator, terms):
                return f" {'&&' if operator == 'and' else '||'} ".join(self.operand(term) for term in terms)
            case Not(operand):
                return f"!{self.operand(operand)}"
            case Conditional(condition, then, otherwise):
                return f"{self.operand(condition)} ? {self.operand(then)} : {self.operand(otherwise)}"
            case Call():
                return self.call(node)

    def call(self, node: Call) -> str:
        arguments = [self.text(argument) for argument in node.arguments]
        match node:
            case Call("min" | "max"):
                return f"std::{node.function}({{{', '.join(arguments)}}})"
            case Call("grad", (Name(identifier),)):
                return self.name(identifier, True)
            case Call("i32"):
                return f"static_cast<int32_t>({arguments[0]})"
            case Call("rank"):
                return f"RankOf({arguments[0]})"
            case Call("ints", (Literal(None),)):
                return "kNoInts"
            case Call("ints"):
                return f"std::vector<int64_t>{{{', '.join(self.number(item) for item in node.arguments)}}}"
            case Call("unflatten"):
                axis, *extents = node.arguments[1:]
                sizes = ", ".join(self.number(item) for item in extents)
                return f"Unflatten({arguments[0]}, {self.number(axis)}, {{{sizes}}})"
            case Call("flatten" | "unsqueeze" | "transpose"):
                axes = ", ".join(self.number(item) for item in node.arguments[1:])
                return f"{node.function.capitalize()}({arguments[0]}, {axes})"
            case _:
                return f"{FUNCTIONS[node.function]}({', '.join(arguments)})"

    def number(self, node: Expression) -> str:
        """An integer where the type is known already."""
        match node:
            case Literal(value) if isinstance(value, int):
                return str(value)
            case Negative(Literal(value)) if isinstance(value, int):
                return f"-{value}"
            case _:
                return self.text(node)

    def term(self, node: Expression, operator: str, right: bool = False) -> str:
        """One side of an arithmetic operator; a product needs no brackets in a sum, nor a sum on its left."""
        if isinstance(node, Binary) and node.operator not in DIVISION:
            binds_tighter = node.operator == "*" and operator in "+-"
            same_on_the_left = not right and (node.operator == "*") == (operator == "*")
            if binds_tighter or same_on_the_left:
                return self.text(node)
        return self.compared(node)

    def operand(self, node: Expression) -> str:
        text = self.text(node)
        return text if isinstance(node, Name | Literal | Call) else f"({text})"

    def compared(self, node: Expression) -> str:
        """One side of a comparison: a string literal compares with std::string, an integer needs no type."""
        if isinstance(node, Literal) and isinstance(node.value, str):
            return string(node.value)
        if isinstance(node, Literal) and isinstance(node.value, int) and not isinstance(node.value, bool):
            return str(node.value)
        return self.operand(node)


def cpp_extent(node: Expression) -> str:
    """An extent in a list of extents, where a number needs no type."""
    return CppPrinter(plain_name).number(node)


def cpp(node: Expression, name: Callable[[str, bool], str] = plain_name) -> str:
    """The expression as C++ source."""
    return CppPrinter(name).text(node)
