# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The restricted expression language: Python syntax, parsed with `ast`, and nothing that can run.

One tree serves every use: it is evaluated by nobody here, but printed as Python and as C++ (`hpgen.emit`).
"""

from __future__ import annotations

import ast
import keyword
import math
import operator
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from ..diagnostics import Diagnostic, SpecError, suggestion
from .names import FUNCTIONS, LITERALS
from .yaml_nodes import CONTROL, Scalar

ADAPTERS = ("unflatten", "flatten", "unsqueeze", "transpose")
"""The functions that give a tensor another shape."""

PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}\Z")
LONGEST = 4000
LONGEST_TEXT = 80
DEEPEST = 40

BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%"}
COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


@dataclass(frozen=True)
class Literal:
    value: str | int | float | bool | None
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Name:
    id: str
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Negative:
    operand: Expression
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Binary:
    operator: str
    left: Expression
    right: Expression
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Comparison:
    """`a < b <= c`: the terms with the operators between them."""

    operators: tuple[str, ...]
    terms: tuple[Expression, ...]
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Membership:
    term: Expression
    choices: tuple[Expression, ...]
    negated: bool
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True)
class IsNone:
    term: Expression
    negated: bool
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Logical:
    """`and` or `or` of several terms."""

    operator: str
    terms: tuple[Expression, ...]
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Not:
    operand: Expression
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Conditional:
    condition: Expression
    then: Expression
    otherwise: Expression
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Call:
    function: str
    arguments: tuple[Expression, ...]
    offset: int = field(default=0, compare=False)


Expression: TypeAlias = (
    "Literal | Name | Negative | Binary | Comparison | Membership | IsNone | Logical | Not | Conditional | Call"
)


def children(node: Expression) -> tuple[Expression, ...]:
    """The direct operands of a node."""
    if isinstance(node, Name | Literal):
        return ()
    match node:
        case Negative(operand) | Not(operand):
            return (operand,)
        case Binary(_, left, right):
            return (left, right)
        case Comparison(_, terms) | Logical(_, terms):
            return terms
        case Membership(term, choices):
            return (term, *choices)
        case IsNone(term):
            return (term,)
        case Conditional(condition, then, otherwise):
            return (condition, then, otherwise)
        case Call(_, arguments):
            return arguments


def names_in(node: Expression) -> tuple[Name, ...]:
    """Every name that the expression uses, left to right, repeated ones again."""
    if isinstance(node, Name):
        return (node,)
    return tuple(name for child in children(node) for name in names_in(child))


def calls_in(node: Expression) -> tuple[Call, ...]:
    """Every function call of the expression, outer ones first."""
    inner = tuple(call for child in children(node) for call in calls_in(child))
    return (node, *inner) if isinstance(node, Call) else inner


def leading_space(text: str) -> int:
    return len(text) - len(text.lstrip())


def parse_python(text: str, scalar: Scalar, offset: int = 0) -> ast.expr:
    """Parse `text`, which stands at `offset` in `scalar`, as one Python expression; SpecError HP202 if it is none."""
    if len(text) > LONGEST:
        raise SpecError(Diagnostic("HP202", scalar.span, f"an expression of more than {LONGEST} characters"))
    flat = "".join(" " if char.isspace() else char for char in text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(flat.lstrip(), mode="eval").body
    except SyntaxError as error:
        column = min(leading_space(flat) + max((error.offset or 1) - 1, 0), max(len(text) - 1, 0))
        message = f"not an expression: {error.msg}"
        raise SpecError(Diagnostic("HP202", scalar.at(offset + column), message, syntax_hint(flat))) from None
    except (ValueError, RecursionError, MemoryError):
        raise SpecError(Diagnostic("HP202", scalar.span, "not an expression, or too deeply nested")) from None


def syntax_hint(text: str) -> str:
    """What usually lies behind an expression that Python does not parse."""
    for wrong, right in (("=>", ">="), ("=<", "<="), ("&&", "and"), ("||", "or"), ("<>", "!=")):
        if wrong in text:
            return f"write {right} for {wrong}"
    if re.search(r"(?<![=<>!])=(?!=)", text):
        return "write == to compare"
    return ""


def parse_expression(scalar: Scalar, text: str | None = None, offset: int = 0) -> Expression:
    """Parse a scalar's text (or the part of it at `offset`) as an expression."""
    source = scalar.text if text is None else text
    if PLAIN_NAME.match(source) and not keyword.iskeyword(source) and source not in LITERALS:
        return Name(source, offset)  # what Python's parser would find: most dims are no more than a name
    return Converter(source, scalar, offset).convert(parse_python(source, scalar, offset))


class Converter:
    """Python's tree to ours, refusing everything that is not in the language."""

    def __init__(self, text: str, scalar: Scalar, offset: int = 0) -> None:
        self.text = text
        self.scalar = scalar
        self.base = offset
        self.characters = Columns(text.lstrip())

    def place(self, node: ast.expr) -> int:
        """Offset of a node in the scalar's text; the parse left out leading space, and counts in UTF-8 bytes."""
        return self.base + leading_space(self.text) + self.characters.at(node.col_offset)

    def refuse(self, node: ast.expr, message: str, hint: str = "") -> SpecError:
        length = max(1, (node.end_col_offset or node.col_offset + 1) - node.col_offset)
        return SpecError(Diagnostic("HP202", self.scalar.at(self.place(node), length), message, hint))

    def convert(self, node: ast.expr, depth: int = 0) -> Expression:
        if depth > DEEPEST:
            raise self.refuse(node, f"nested more than {DEEPEST} deep")
        at, below = self.place(node), depth + 1
        match node:
            case ast.Constant(value=value):
                return self.literal(node, value, at)
            case ast.Name(id=name):
                return Literal(LITERALS[name], at) if name in LITERALS else Name(name, at)
            case ast.UnaryOp(op=ast.USub(), operand=ast.UnaryOp(op=ast.USub(), operand=operand)):
                return self.convert(operand, below)  # printed, it would be no double negative either
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return Negative(self.convert(operand, below), at)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return Not(self.convert(operand, below), at)
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in BINARY:
                pair = self.convert(left, below), self.convert(right, below)
                return self.bounded(node, Binary(BINARY[type(operator)], *pair, at))
            case ast.BoolOp(op=operator, values=values):
                terms = tuple(self.convert(value, below) for value in values)
                return Logical("and" if isinstance(operator, ast.And) else "or", terms, at)
            case ast.IfExp(test=test, body=body, orelse=otherwise):
                parts = [self.convert(part, below) for part in (test, body, otherwise)]
                return Conditional(parts[0], parts[1], parts[2], at)
            case ast.Compare():
                return self.comparison(node, below, at)
            case ast.Call():
                return self.bounded(node, self.call(node, below, at))
        raise self.refuse(node, f"'{shown(node)}' is not part of the expression language", LANGUAGE)

    def literal(self, node: ast.expr, value: object, at: int) -> Expression:
        if value is None or isinstance(value, str | int | float):
            if isinstance(value, int) and abs(value) > LITERALS["INT64_MAX"]:
                raise self.refuse(node, "an integer of more than 64 bits")
            control = CONTROL.search(value) if isinstance(value, str) else None
            if control:  # written as an escape: YAML has refused the character itself
                raise self.refuse(node, f"the character U+{ord(control.group()):04X} is not allowed in a spec")
            if isinstance(value, str) and len(value) > LONGEST_TEXT:
                raise self.refuse(node, f"a text of more than {LONGEST_TEXT} characters")
            return Literal(value, at)
        raise self.refuse(node, f"a literal of type {type(value).__name__} is not part of the language", LANGUAGE)

    def bounded(self, node: ast.expr, found: Expression) -> Expression:
        """What was found, unless it is a number that has no value or more than 64 bits."""
        by = divisor(found)
        if by is not None and constant(by) == 0:
            raise self.refuse(node, "division by zero")
        try:
            value = constant(found)
        except ValueError as error:
            raise self.refuse(node, str(error)) from None
        if value is not None and abs(value) > LITERALS["INT64_MAX"]:
            raise self.refuse(node, "an integer of more than 64 bits")
        return found

    def comparison(self, node: ast.Compare, depth: int, at: int) -> Expression:
        first, operators, others = node.left, node.ops, node.comparators
        if isinstance(operators[0], ast.Is | ast.IsNot):
            if len(operators) == 1 and isinstance(others[0], ast.Constant) and others[0].value is None:
                return IsNone(self.convert(first, depth), isinstance(operators[0], ast.IsNot), at)
            raise self.refuse(node, "'is' compares with None only", "use == for values")
        if isinstance(operators[0], ast.In | ast.NotIn):
            if len(operators) > 1 or not isinstance(others[0], ast.Tuple | ast.List) or not others[0].elts:
                raise self.refuse(node, "'in' takes a list of values", "such as: N in (8, 16)")
            choices = tuple(self.convert(choice, depth) for choice in others[0].elts)
            return Membership(self.convert(first, depth), choices, isinstance(operators[0], ast.NotIn), at)
        if not all(type(operator) in COMPARE for operator in operators):
            raise self.refuse(node, "'in' and 'is' do not chain", "join two comparisons with 'and'")
        terms = tuple(self.convert(term, depth) for term in (first, *others))
        return Comparison(tuple(COMPARE[type(operator)] for operator in operators), terms, at)

    def call(self, node: ast.Call, depth: int, at: int) -> Expression:
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
            name = shown(node.func)
            raise self.refuse(
                node.func,
                f"'{name}' is not a function of the language",
                OTHER_FUNCTIONS.get(name) or suggestion(name, FUNCTIONS),
            )
        if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
            raise self.refuse(node, "functions take plain positional arguments")
        least, most = FUNCTIONS[node.func.id]
        if len(node.args) < least or (most is not None and len(node.args) > most):
            wanted = str(least) if least == most else f"at least {least}"
            raise self.refuse(node, f"{node.func.id} takes {wanted} argument(s), not {len(node.args)}")
        return Call(node.func.id, tuple(self.convert(argument, depth) for argument in node.args), at)


def constant(node: Expression) -> int | None:
    """The value of an expression of integers without names; None for any other.

    Raises:
        ValueError: For a factorial outside of 64 bits.
    """
    match node:
        case Literal(value) if isinstance(value, int) and not isinstance(value, bool):
            return value
        case Negative() | Binary() | Call("fact" | "cdiv" | "min" | "max"):
            values: list[int] = []
            for child in children(node):
                value = constant(child)
                if value is None:
                    return None
                values.append(value)
            return computed(node, values)
        case _:
            return None


def divisor(node: Expression) -> Expression | None:
    match node:
        case Binary("//" | "%", _, right):
            return right
        case Call("cdiv", (_, right)):
            return right
        case _:
            return None


def computed(node: Expression, values: list[int]) -> int:
    match node:
        case Negative():
            return -values[0]
        case Binary(operator):
            return ARITHMETIC[operator](*values)
        case Call("fact"):
            if not 0 <= values[0] <= MOST_FACTORIAL:
                raise ValueError(f"fact({values[0]}) is outside of fact(0) to fact({MOST_FACTORIAL}), 64 bits")
            return math.factorial(values[0])
        case Call("cdiv"):
            return -(-values[0] // values[1])
        case _:
            return max(values) if isinstance(node, Call) and node.function == "max" else min(values)


MOST_FACTORIAL = 20
ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}


def shown(node: ast.expr) -> str:
    """A part of an expression for a message; not all of it if it is long."""
    try:
        text = ast.unparse(node)
    except (RecursionError, ValueError):  # too deep, or a number of thousands of digits
        return "this"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


MOST_SHOWN = 80
OTHER_FUNCTIONS = {
    "len": "rank(x) is the number of a tensor's dims; a lengths argument names the number of its documents: 'count: B'",
    "sum": "nothing in a spec depends on the values of a tensor",
    "abs": "max(a, -a)",
    "ceil": "cdiv(a, b)",
}
"""What to write for functions that one may expect."""
LANGUAGE = "names, literals, + - * // %, comparisons, in, and, or, not, is None, a if c else b, known functions"


class Columns:
    """Character offsets for the UTF-8 byte offsets that `ast` counts in."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.ascii = text.isascii()

    def at(self, column: int) -> int:
        if self.ascii:
            return max(0, column)
        return len(self.text.encode()[: max(0, column)].decode(errors="ignore"))
