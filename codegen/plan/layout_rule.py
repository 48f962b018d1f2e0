# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The `rule` of the emitted DistributedOp."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..spec.dims import Dim
from ..spec.expression import Conditional, Expression, Literal, Name
from ..spec.model import ContextParallel, Dims, Spec
from ..text.python_expression import laid_out, python, quoted
from ..text.python_layout import Group, Item, call, lay_out, statement, strings
from .facts import group_dims, group_values, visible_outputs


def layout_rule(spec: Spec) -> str:
    """`rule = LayoutRule(...)`, indented as a class attribute; fields at their defaults are left out."""
    items: list[Item] = [strings("arguments=", [item.name for item in spec.arguments])]
    if spec.format.kind != "fixed":
        items.append(f"format_{spec.format.kind.replace('attribute', 'argument')}={quoted(spec.format.selector)}")
    outputs = visible_outputs(spec)
    items.append(per_format(spec, "inputs=", {item.name: item.dims for item in spec.tensors}))
    items.append(per_format(spec, "outputs=", {item.name: item.dims for item in outputs}))
    items.append(strings("shard=", spec.sharding.shard))
    items += mapping("combine=", {item.name: item.combine for item in outputs if item.combine})
    if spec.sharding.reduce:
        items.append(strings("reduce=", list(spec.sharding.reduce)))
    items += groups("linear=", spec.sharding.linear)
    items += groups("together=", spec.sharding.together)
    items += mapping("axes=", {axis: attribute.name for axis, attribute in spec.axes.items()})
    items += mapping("when=", {item.name: item.when for item in outputs if item.when})
    items += names_per_format("group_values=", {form: group_values(spec, form) for form in spec.format.names})
    items += names_per_format("packed=", {form: group_dims(spec, form) for form in spec.format.names})
    if spec.lengths:
        items.append(strings("lengths=", [item.name for item in spec.lengths]))
    if spec.context_parallel:
        items.append(context_parallel(spec, spec.context_parallel))
    return lay_out(call("rule = LayoutRule", *items), 4)


def context_parallel(spec: Spec, context: ContextParallel) -> Group:
    parts: list[Item] = [strings("query=", context.query), strings("key=", context.key)]
    parts.append("mask=_mask" if depends_on_attributes(context) else f"mask={quoted(python(context.mask))}")
    parts += mapping("lengths=", context.lengths)
    ends = [item for item in spec.lengths if item.name in context.lengths.values()]
    with_zero = [item.name for item in ends if item.leading_zero]
    if with_zero:
        parts.append(strings("leading_zero=", with_zero))
    counts = list(dict.fromkeys(item.count for item in ends if item.count))
    if counts:
        parts.append(strings("counts=", counts))
    if context.ratio:
        parts.append(strings("ratio=", [context.ratio.by, context.ratio.residual]))
    positions = {item.name: item.positions for item in spec.tensors if item.positions}
    parts += mapping("positions=", positions | {item.name: item.positions for item in spec.outputs if item.positions})
    if context.requirements:
        texts = tuple(quoted(item.text) for item in context.requirements)
        parts.append(Group("require=(", texts, ")", is_tuple=True))
    return Group("context_parallel=ContextParallel(", tuple(parts), ")")


def depends_on_attributes(context: ContextParallel) -> bool:
    return isinstance(context.mask, Conditional)


def mask_function(spec: Spec) -> str:
    """The statement of the function that gives a call's mask; empty if there is only one mask."""
    context = spec.context_parallel
    if context is None or not depends_on_attributes(context):
        return ""
    mask = laid_out(with_words(context.mask), lambda attribute: f"values[{quoted(attribute)}]")
    return statement("return ", mask, "", 4)


def with_words(mask: Expression) -> Expression:
    """The expression with its masks as text; in conditions the same words may name attributes."""
    match mask:
        case Conditional(condition, then, otherwise):
            return Conditional(condition, with_words(then), with_words(otherwise))
        case Name(word):
            return Literal(word)
    return mask


def mapping(prefix: str, entries: Mapping[str, str | None]) -> list[Item]:
    """A dict of words, or nothing if it is empty."""
    pairs = tuple(f"{quoted(name)}: {quoted(str(word))}" for name, word in entries.items())
    return [Group(f"{prefix}{{", pairs, "}")] if pairs else []


def groups(prefix: str, groups_of_names: Iterable[tuple[str, ...]]) -> list[Item]:
    """A tuple of tuples of names, or nothing."""
    inner = tuple(strings("", group) for group in groups_of_names)
    return [Group(f"{prefix}(", inner, ")", is_tuple=True)] if inner else []


def names_per_format(prefix: str, entries: Mapping[str, tuple[str, ...]]) -> list[Item]:
    """format -> names, for the formats that have any."""
    inner = tuple(strings(f"{quoted(form)}: ", names) for form, names in entries.items() if names)
    return [Group(f"{prefix}{{", inner, "}")] if inner else []


def per_format(spec: Spec, prefix: str, tensors: Mapping[str, Dims]) -> Group:
    """format -> tensor -> dims, as nested dicts."""
    forms = []
    for form in spec.format.names:
        entries = tuple(dims_entry(name, dims.per_format[form]) for name, dims in tensors.items())
        forms.append(Group(f"{quoted(form)}: {{", entries, "}"))
    return Group(f"{prefix}{{", tuple(forms), "}")


def dims_entry(name: str, dims: tuple[Dim, ...]) -> Group:
    return strings(f"{quoted(name)}: ", [dim.compact for dim in dims])
