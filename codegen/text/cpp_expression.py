# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Expressions printed as C++."""

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


def cpp(node: Expression) -> str:
    """The expression as C++ source; every compound operand is bracketed, so precedence never matters."""
    match node:
        case Name(identifier):
            return identifier
        case Literal(value):
            return literal(value)
        case Negative(operand):
            return f"-{operand_of(operand)}"
        case Binary(operator, left, right):
            if operator in DIVISION:
                return f"{DIVISION[operator]}({cpp(left)}, {cpp(right)})"
            return f"{operand_of(left)} {operator} {operand_of(right)}"
        case Comparison(operators, terms):
            pairs = zip(terms, operators, terms[1:], strict=False)
            return " && ".join(f"{compared(left)} {operator} {compared(right)}" for left, operator, right in pairs)
        case Membership(term, choices, negated):
            operator, joint = ("!=", " && ") if negated else ("==", " || ")
            return joint.join(f"{compared(term)} {operator} {compared(choice)}" for choice in choices)
        case IsNone(term, negated):
            return f"{'' if negated else '!'}{operand_of(term)}.has_value()"
        case Logical(operator, terms):
            return f" {'&&' if operator == 'and' else '||'} ".join(operand_of(term) for term in terms)
        case Not(operand):
            return f"!{operand_of(operand)}"
        case Conditional(condition, then, otherwise):
            return f"{operand_of(condition)} ? {operand_of(then)} : {operand_of(otherwise)}"
        case Call("min" | "max" as function, arguments):
            return f"std::{function}({{{', '.join(cpp(argument) for argument in arguments)}}})"
        case Call(function, arguments):
            return f"{FUNCTIONS[function]}({', '.join(cpp(argument) for argument in arguments)})"


def operand_of(node: Expression) -> str:
    text = cpp(node)
    return text if isinstance(node, Name | Literal | Call) else f"({text})"


def compared(node: Expression) -> str:
    """One side of a comparison: a string literal compares with std::string as it is, an integer needs no type."""
    if isinstance(node, Literal) and isinstance(node.value, str):
        return string(node.value)
    if isinstance(node, Literal) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return str(node.value)
    return operand_of(node)
