# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Pieces of the torch.library files that the template places."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .python_code import TYPES, import_line, type_import
from .python_expression import quoted
from .python_layout import Group, Item, lay_out, prefixed

if TYPE_CHECKING:
    from ..plan.operator import OperatorPlan, TorchBackwardPlan

Parameters = Iterable[tuple[str, str]]
"""Names and types."""

FROM_CHECKS = ("INT64_MAX", "factorial")
FROM_RUNTIME = ("empty_if_absent", "single_or_double")
IMPORTED = ("torch", *FROM_CHECKS, *FROM_RUNTIME)
"""What the functions that allocate may use, in the order of import lines."""


def names_read(body: str) -> set[str]:
    """The variables that the statements of a function's body read."""
    tree = ast.parse(textwrap.dedent(body))
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def library_imports(parameters: Parameters, used: Iterable[str], backward: TorchBackwardPlan | None) -> str:
    """The import lines of an operator's file: for types, and for the names that its functions use."""
    declared = [*parameters, *(backward.parameters if backward else ())]
    types = {word for _, kind in declared for word in kind.split()} & set(TYPES)
    defining = [*(["BackwardKernel"] if backward else []), "define_operator"]
    checks = [name for name in used if name in FROM_CHECKS]
    lines = ["from typing import Any", ""]
    lines += ["import torch", ""] if "torch" in used else []
    lines += [import_line("hyper_parallel.core.shard.argument_checks", *checks)] if checks else []
    runtime = (*defining, *(name for name in used if name in FROM_RUNTIME))
    return "\n".join(
        [*lines, type_import(types), import_line("hyper_parallel.platform.torch.library_operator", *runtime)]
    )


def allocation_signature(name: str, parameters: Parameters) -> str:
    """The first line of a function that allocates: it is called with all arguments, and names those it needs."""
    items = (*(f"{parameter}: {kind}" for parameter, kind in parameters), "**_others: Any")
    return lay_out(Group(f"def {name}(", items, ") -> tuple[Tensor, ...]:", comma=True), 0)


def definition(op: OperatorPlan) -> str:
    """The statement that defines the operator."""
    plan = op.torch_library
    assert plan is not None
    items: list[Item] = [f"{op.class_name}DFunction"]
    items += [texts("arguments", plan.arguments), texts("outputs", plan.outputs), "empty_outputs=empty_outputs"]
    if plan.backward:
        inner = [texts("arguments", plan.backward.arguments), texts("outputs", plan.backward.outputs)]
        refused = [texts("refused", plan.backward.refused)] if plan.backward.refused else []
        items.append(Group("backward=BackwardKernel(", (*inner, "empty_outputs=empty_gradients", *refused), ")"))
    items += [prefixed("delegate=", quoted(op.torch_delegate))] if op.torch_delegate else []
    return lay_out(Group("define_operator(", tuple(items), ")"), 0)


def texts(name: str, words: Iterable[str]) -> Group:
    """A keyword argument that is a tuple of strings."""
    return Group(f"{name}=(", tuple(quoted(word) for word in words), ")", is_tuple=True)


PIECES = (allocation_signature, definition, library_imports)
"""What the template may call, each by its name."""
