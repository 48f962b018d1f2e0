# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Where the emitted autograd function reads the extents that shape adapters need.

In backward() from what was saved or came in; what these do not tell is measured in forward(), which has every tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..spec.dims import Dim
from ..spec.model import Dims, Output, Spec, TensorArgument
from ..text.python_expression import quoted
from ..text.python_layout import Chain, Group, Item, call


def extent_after(spec: Spec, name: str, saved: Sequence[str], cotangents: Mapping[str, Dims]) -> Item | None:
    """The extent of a dim in backward(): of a saved tensor or an incoming gradient; None if none has it in all formats.

    Counted from the right if that is the same in every format.
    """
    holders: list[TensorArgument | Output] = [*spec.tensors, *spec.outputs]
    tensors = {item.name: item.dims for item in holders if item.name in saved}
    for variable, dims in (tensors | dict(cotangents)).items():
        places = {form: places_of(found, name) for form, found in dims.per_format.items()}
        if not all(places.values()):
            continue
        common = set.intersection(*(set(found) for found in places.values()))
        if common:
            return shape_of(variable, min(common))
        if spec.format.kind == "attribute" or spec.format.selector in saved:
            entries = {form: shape_of(variable, found[0]) for form, found in places.items()}
            return chosen(spec, entries, "ctx.")
    return None


def extent_before(spec: Spec, name: str) -> Item:
    """The extent of a dim in forward(), where every argument is at hand; zero in a format that lacks it."""
    return chosen(spec, {form: extent_in(spec, name, form) for form in spec.format.names}, "")


def extent_in(spec: Spec, name: str, form: str) -> Item:
    if name in spec.axes:
        owner = spec.rest_owner(form)
        return shape_of(owner.name, spec.axes[name].name) if owner else "0"
    for tensor in spec.tensors:
        places = places_of(tensor.dims.per_format[form], name)
        if places and not tensor.optional:
            return shape_of(tensor.name, min(places))
    lengths = spec.counts.get(name)
    if lengths is None or lengths.of not in spec.bound(form):
        return "0"
    count = call("len", lengths.name) if lengths.where == "host" else shape_of(lengths.name, 0)
    return Chain((count, "1"), ("-",)) if lengths.leading_zero else count


def shape_of(variable: str, index: int | str) -> Group:
    return Group(f"{variable}.shape[", (str(index),), "]", comma=False)


def places_of(dims: Sequence[Dim], name: str) -> tuple[int, ...]:
    """Where a dim stands, from the left and from the right; only one of them beside a `...`."""
    index = next((index for index, dim in enumerate(dims) if dim.name == name), None)
    if index is None:
        return ()
    rest = next((place for place, dim in enumerate(dims) if dim.is_rest), None)
    left, right = index, index - len(dims)
    if rest is None:
        return left, right
    return (left,) if index < rest else (right,)


def chosen(spec: Spec, entries: Mapping[str, Item], prefix: str) -> Item:
    """`a if <one format> else b`: formats with the extent of the last one need no test."""
    *_, last = entries.values()
    operands: list[Item] = []
    for form, extent in entries.items():
        if extent != last:
            operands += [extent, format_test(spec, form, prefix)]
    return Chain((*operands, last), ("if", "else") * (len(operands) // 2)) if operands else last


def format_test(spec: Spec, form: str, prefix: str) -> Item:
    if spec.format.kind == "attribute":
        return Chain((f"{prefix}{spec.format.selector}", quoted(form)), ("==",))
    dims = next(item.dims for item in spec.tensors if item.name == spec.format.selector)
    return Chain((call("len", f"{spec.format.selector}.shape"), str(len(dims.per_format[form]))), ("==",))
