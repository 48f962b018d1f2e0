# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Pieces of Python code that the templates place: imports, signatures, assignments from calls."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .python_expression import quoted
from .python_layout import WIDTH, Chain, Group, Item, assigned, call, columns, flat, lay_out, prefixed, statement

if TYPE_CHECKING:
    from ..artifacts import IndexedOperator
    from ..plan.operator import Parameter

TYPES = ("DType", "Integers", "Lengths", "Tensor")


def types_used(parameters: Iterable[Parameter]) -> tuple[str, ...]:
    """The names of types in a signature."""
    return tuple(sorted({word for item in parameters for word in item.python_type.split()} & set(TYPES)))


def type_imports(operators: Iterable[IndexedOperator], typing: Iterable[str] = ()) -> str:
    """The import lines for the types of several operators' signatures."""
    lines = [f"from typing import {', '.join(typing)}", ""] if typing else []
    return "\n".join([*lines, type_import(name for op in operators for name in op.types)])


def type_import(types: Iterable[str]) -> str:
    return f"from hyper_parallel.core.shard.argument_types import {', '.join(sorted({*types, 'Tensor'}))}"


def imports(
    parameters: Iterable[Parameter],
    defaults: bool = False,
    checks: bool = False,
    typing: Iterable[str] = (),
    body: str = "",
) -> str:
    """The import lines for the types of a signature, and for what its defaults and the body use."""
    parameters = tuple(parameters)
    used = names_used(body + " ".join(flat(item.python_default) for item in parameters if defaults))
    lines = ["import math"] if "math" in used else []
    lines += [f"from typing import {', '.join(typing)}"] if typing else []
    lines += [""] if lines else []
    needed = used | ({"ArgumentChecks"} if checks else set())
    names = [name for name in ("INT64_MAX", "ArgumentChecks", "factorial") if name in needed]
    if names:
        lines.append(f"from hyper_parallel.core.shard.argument_checks import {', '.join(names)}")
    return "\n".join([*lines, type_import(types_used(parameters))])


def names_used(code: str) -> set[str]:
    """The names in Python code, those inside of texts left out."""
    return set(re.findall(r"[^\W\d]\w*", TEXT.sub("", code)))


TEXT = re.compile(r"""\"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""")


def import_line(module: str, *names: str) -> str:
    """`from module import names`, one name per line where that is too long."""
    line = f"from {module} import {', '.join(names)}"
    return line if columns(line) <= WIDTH else lay_out(Group(f"from {module} import (", names, ")"), 0)


def parameter_line(parameter: Parameter, indent: int, defaults: bool = True) -> str:
    """One parameter of a signature."""
    first, *others = parameter.python_type.split(" | ")
    given: Item = f"{parameter.name}: {first}" if not others else others[-1]
    if defaults and parameter.python_default:
        given = prefixed(f"{given} = ", parameter.python_default)
    declared = given if not others else Chain((f"{parameter.name}: {first}", given), ("|",))
    return lay_out(declared, indent, ",")


def signature_end(outputs: int, conditional: bool, indent: int) -> str:
    """The last line of a signature: the brackets' end and the return type."""
    if conditional or outputs == 1:
        return f"{' ' * indent}) -> {'Any' if conditional else 'Tensor'}:"
    return lay_out(Group(") -> tuple[", ("Tensor",) * outputs, "]:"), indent)


def class_line(name: str, base: str) -> str:
    return lay_out(Group(f"class {name}(", (base,), "):"), 0)


def word_line(target: str, word: str, indent: int) -> str:
    """A string assigned to a target."""
    return statement(f"{target} = ", quoted(word), "", indent)


def tuple_lines(items: Iterable[Item], indent: int) -> str:
    """`return (...)` with one element per line, as a tuple of one if it is one."""
    items = tuple(items)
    group = Group("return (", items, ")", is_tuple=True)
    return lay_out(group, indent) if len(items) == 1 else exploded(group, indent)


def returned_names(names: Iterable[str], indent: int) -> str:
    """`return a, b`, in brackets where it needs several lines."""
    names = tuple(names)
    line = f"{' ' * indent}return {', '.join(names)}"
    return line if columns(line) <= WIDTH else exploded(Group("return (", names, ")"), indent)


def exploded(group: Group, indent: int) -> str:
    """The group with one element per line, whether or not it would fit on one."""
    inner = (lay_out(item, indent + 4, ",") for item in group.items)
    return "\n".join([" " * indent + group.opening, *inner, " " * indent + group.closing])


def unpacked(targets: Iterable[str], function: str, arguments: Iterable[Item], indent: int) -> str:
    """`a, b = function(...)` with one argument per line; the targets in brackets where they need several lines."""
    targets, value = tuple(targets), call(function, *arguments)
    names = f"({targets[0]},)" if len(targets) == 1 else ", ".join(targets)
    if columns(f"{' ' * indent}{names} = {value.opening}") <= WIDTH:
        return exploded(call(f"{names} = {function}", *value.items), indent)
    if len(targets) == 1 and columns(f"{' ' * indent}{names} = (") <= WIDTH:
        return f"{' ' * indent}{names} = (\n{exploded(value, indent + 4)}\n{' ' * indent})"
    right = exploded(value, indent).lstrip()
    if columns(f"{' ' * indent}) = {value.opening}") > WIDTH >= columns(f"{' ' * indent}    {value.opening}"):
        right = f"(\n{exploded(value, indent + 4)}\n{' ' * indent})"
    return exploded(Group("(", targets, f") = {right}"), indent)


def returned_call(function: str, arguments: Iterable[str], indent: int) -> str:
    """`return function(...)` with one argument per line."""
    value, lead = call(function, *arguments), " " * indent
    if columns(f"{lead}return {value.opening}") <= WIDTH or columns(f"{lead}    {value.opening}") > WIDTH:
        return exploded(call(f"return {function}", *value.items), indent)
    return f"{lead}return (\n{exploded(value, indent + 4)}\n{lead})"


def call_line(function: str, arguments: Iterable[str], indent: int) -> str:
    """A statement that is a call."""
    return lay_out(call(function, *arguments), indent)


def assignment(target: str, value: Item, indent: int) -> str:
    """A name given to a value."""
    return statement(f"{target} = ", value, "", indent)


def named_call(target: str, function: str, word: str, indent: int) -> str:
    """A name given to what a function returns for a word."""
    return assigned((target,), call(function, quoted(word)), indent, is_tuple=False)


def commented(item: Item, comment: str, indent: int) -> str:
    """An element of a tuple with a comment behind it."""
    return lay_out(item, indent, f",  # {comment}")


def saved_line(names: Iterable[str], indent: int) -> str:
    """Unpacking of what forward has saved."""
    names = tuple(names)
    if len(names) == 1:
        return statement(f"({names[0]},) = ", "ctx.saved_tensors", "", indent)
    return several_from(names, "ctx.saved_tensors", indent)


def several_from(names: Iterable[str], value: str, indent: int) -> str:
    """Unpacking of a value to several names, in brackets where they need several lines."""
    names = tuple(names)
    line = f"{' ' * indent}{', '.join(names)} = {value}"
    return line if columns(line) <= WIDTH else exploded(Group("(", names, f") = {value}"), indent)


def refusal_signature(name: str, indent: int) -> str:
    """The signature of a function that takes anything and only raises."""
    return lay_out(Group(f"def {name}(", ("*_arguments: Any",), ") -> NoReturn:"), indent)


def refusal(exception: str, sentences: tuple[str, str], indent: int) -> str:
    """`raise` with a message: one string if it fits on a line, else one for each of two sentences."""
    value = call(f"raise {exception}", quoted("".join(sentences)))
    if columns(f"{' ' * (indent + 4)}{flat(value.items[0])}") <= WIDTH:
        return lay_out(value, indent)
    inner = "\n".join(" " * (indent + 4) + quoted(sentence) for sentence in sentences)
    return f"{' ' * indent}{value.opening}\n{inner}\n{' ' * indent})"


PIECES = (
    assignment,
    call_line,
    class_line,
    commented,
    import_line,
    imports,
    named_call,
    parameter_line,
    refusal,
    refusal_signature,
    returned_call,
    returned_names,
    saved_line,
    signature_end,
    tuple_lines,
    type_imports,
    unpacked,
    word_line,
)
"""What the templates may call, each by its name."""
