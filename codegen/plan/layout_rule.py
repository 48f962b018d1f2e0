# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The `rule` of the emitted DistributedOp."""

from __future__ import annotations

from collections.abc import Mapping

from ..spec.dims import Dim
from ..spec.model import Dims, Spec
from ..text.python_expression import quoted
from ..text.python_layout import Group, Item, call, lay_out, strings


def layout_rule(spec: Spec) -> str:
    """`rule = LayoutRule(...)`, indented as a class attribute."""
    context = spec.context_parallel
    items: list[Item] = [strings("arguments=", [item.name for item in spec.arguments])]
    if spec.format.kind == "attribute":
        items.append(f"format_argument={quoted(spec.format.selector)}")
    if spec.format.kind == "rank":
        items.append(f"format_rank={quoted(spec.format.selector)}")
    items.append(per_format(spec, "inputs=", {item.name: item.dims for item in spec.tensors}))
    items.append(per_format(spec, "outputs=", {item.name: item.dims for item in spec.outputs}))
    items.append(strings("shard=", spec.sharding.shard))
    combine = {item.name: item.combine for item in spec.outputs if item.combine}
    if combine:
        entries = tuple(f"{quoted(name)}: {quoted(word)}" for name, word in combine.items())
        items.append(Group("combine={", entries, "}"))
    if context:
        lengths = tuple(f"{quoted(dim)}: {quoted(name)}" for dim, name in context.lengths.items())
        parts: list[Item] = [strings("query=", context.query), strings("key=", context.key)]
        parts.append(f"mask={quoted(context.mask)}")
        if lengths:
            parts.append(Group("lengths={", lengths, "}"))
        items.append(Group("context_parallel=ContextParallel(", tuple(parts), ")"))
    return lay_out(call("rule = LayoutRule", *items), 4)


def per_format(spec: Spec, prefix: str, tensors: Mapping[str, Dims]) -> Group:
    """format -> tensor -> dims, as nested dicts."""
    forms = []
    for form in spec.format.names:
        entries = tuple(dims_entry(name, dims.per_format[form]) for name, dims in tensors.items())
        forms.append(Group(f"{quoted(form)}: {{", entries, "}"))
    return Group(f"{prefix}{{", tuple(forms), "}")


def dims_entry(name: str, dims: tuple[Dim, ...]) -> Group:
    return strings(f"{quoted(name)}: ", ["".join(dim.text.split()) for dim in dims])
