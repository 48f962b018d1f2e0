# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A kernel call: the name of the kernel and its arguments in the kernel's own order."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from ..diagnostics import Diagnostic, SpecError
from .expression import Converter, Expression, parse_python
from .yaml_nodes import Scalar

KERNEL_NAME = re.compile(r"aclnn[A-Z][A-Za-z0-9]*\Z")
MOST_ARGUMENTS = 128


@dataclass(frozen=True)
class KernelCall:
    """`kernel` launched with `arguments`; `place` is the scalar it was read from, for messages."""

    kernel: str
    arguments: tuple[Expression, ...]


def parse_kernel_call(scalar: Scalar) -> KernelCall:
    """Parse `aclnnFoo(x, 0, grad(out))`.

    Raises:
        SpecError: HP401 if it is not one call of an aclnn kernel, HP202 for an argument outside the language.
    """
    tree = parse_python(scalar.text, scalar)
    example = "such as: aclnnFoo(x, weight, out)"
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
        raise SpecError(Diagnostic("HP401", scalar.span, "a kernel call is a name and its arguments", example))
    converter = Converter(scalar.text, scalar)
    at = converter.place(tree.func)
    if not KERNEL_NAME.match(tree.func.id):
        message = f"'{tree.func.id}' is not the name of a kernel: aclnn and a capital letter"
        raise SpecError(Diagnostic("HP401", scalar.at(at, len(tree.func.id)), message, example))
    if tree.keywords:
        raise SpecError(Diagnostic("HP401", scalar.at(at), "a kernel takes its arguments by position", example))
    if len(tree.args) > MOST_ARGUMENTS:
        raise SpecError(Diagnostic("HP401", scalar.at(at), f"more than {MOST_ARGUMENTS} arguments"))
    return KernelCall(tree.func.id, tuple(converter.convert(argument) for argument in tree.args))
