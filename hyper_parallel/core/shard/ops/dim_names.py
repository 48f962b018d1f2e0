# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The dims of a call's tensors by name. What `...` stands for is named by the first tensor that has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hyper_parallel.core.dtensor.layout import Layout

if TYPE_CHECKING:
    from hyper_parallel.core.shard.ops.layout_rule import LayoutRule

Dims = tuple[str, ...]


def named_dims(
    op: str, rule: LayoutRule, form: str, layouts: Mapping[str, Layout], values: Mapping[str, Any]
) -> tuple[dict[str, Dims], Dims]:
    """Every given tensor's dims, and those behind `...` (none if no tensor has it).

    Raises:
        ValueError: A tensor whose rank does not fit the format, or an attribute that names no dim.
        TypeError: An attribute that should name a dim and is no integer.
    """
    found: dict[str, Dims] = {}
    rest: Dims = ()
    for name, layout in layouts.items():
        dims, rank = rule.inputs[form][name], len(layout.tensor_map)
        if "..." in dims:
            rest = rest or _named_rest(op, rule, name, rank, values, dims)
            dims = with_rest(dims, rest)
        if rank != len(dims):
            raise ValueError(
                f"For {op}, {name} should have the {len(dims)} dims ({', '.join(dims)}) "
                f"of format {form}, but got {rank} dims with tensor_map={layout.tensor_map}."
            )
        found[name] = dims
    return found, rest


def with_rest(dims: Dims, rest: Dims) -> Dims:
    """The dims with those of `rest` in the place of `...`."""
    return tuple(name for dim in dims for name in (rest if dim == "..." else (dim,)))


def _named_rest(op: str, rule: LayoutRule, name: str, rank: int, values: Mapping[str, Any], dims: Dims) -> Dims:
    """Names for what is behind the `...` of a tensor; attributes that choose an axis name theirs."""
    count = rank - len(dims) + 1
    if count < 0:
        raise ValueError(f"For {op}, {name} should have at least {len(dims) - 1} dims, but got {rank}.")
    names = [f"...{index}" for index in range(count)]
    first = dims.index("...")
    for axis_name, argument in rule.axes.items():
        axis = values[argument]
        if not isinstance(axis, int) or isinstance(axis, bool):
            raise TypeError(f"For {op}, {argument} should be of type int, but got {axis!r}.")
        index = (axis + rank if axis < 0 else axis) - first
        if not 0 <= index < count:
            raise ValueError(
                f"For {op}, {argument} should name a dim of {name}, from {first - rank} to "
                f"{first + count - 1}, but got {axis}."
            )
        names[index] = axis_name
    return tuple(names)
