# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Pieces of Python code that the templates place: imports, assignments from calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .python_layout import WIDTH, Group, call, lay_out

if TYPE_CHECKING:
    from ..plan.operator import Parameter

TYPES = ("DType", "Integers", "Lengths", "Tensor")


def imports(
    parameters: Iterable[Parameter],
    defaults: bool = False,
    checks: bool = False,
    any: bool = False,
    body: str = "",
) -> str:
    """The import lines for the types of a signature, and for what its defaults and the body use."""
    parameters = tuple(parameters)
    lines = []
    if any:
        lines += ["from typing import Any", ""]
    used = body + " ".join(item.python_default for item in parameters if defaults)
    if not checks and "math." in used:
        lines = ["import math", *lines] if lines else ["import math", ""]
    names = [name for name, is_used in (("INT64_MAX", "INT64_MAX" in used), ("ArgumentChecks", checks)) if is_used]
    if names:
        lines.append(f"from hyper_parallel.core.shard.argument_checks import {', '.join(names)}")
    words = {word for item in parameters for word in item.python_type.split()} | {"Tensor"}
    lines.append(f"from hyper_parallel.core.shard.argument_types import {', '.join(sorted(words & set(TYPES)))}")
    return "\n".join(lines)


def unpacked(targets: Iterable[str], function: str, arguments: Iterable[str], indent: int) -> str:
    """`a, b = function(...)` with one argument per line; the targets in brackets where they need several lines."""
    targets = tuple(targets)
    lead, inner = " " * indent, " " * (indent + 4)
    lines = [f"{lead}{', '.join(targets)} = {function}("]
    if len(targets) == 1:
        lines = [f"{lead}({targets[0]},) = {function}("]
    if len(lines[0]) > WIDTH:
        lines = [f"{lead}(", *(f"{inner}{target}," for target in targets), f"{lead}) = {function}("]
    return "\n".join([*lines, *(f"{inner}{argument}," for argument in arguments), f"{lead})"])


def call_line(function: str, arguments: Iterable[str], indent: int) -> str:
    """A statement that is a call."""
    return lay_out(call(function, *arguments), indent)


def saved_line(names: Iterable[str], indent: int) -> str:
    """Unpacking of what forward has saved."""
    names = tuple(names)
    lead = " " * indent
    line = (
        f"{lead}{', '.join(names)} = ctx.saved_tensors"
        if len(names) > 1
        else f"{lead}({names[0]},) = ctx.saved_tensors"
    )
    if len(line) <= WIDTH:
        return line
    return lay_out(Group("(", names, ") = ctx.saved_tensors"), indent)
