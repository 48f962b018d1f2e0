# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The dims of tensors by name, `...` written out as two dims of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..spec.model import Output, Spec
from .evaluate import evaluate

REST = ("...0", "...1")
_KNOWN: dict[tuple[int, str, str], tuple[Spec, tuple[str, ...]]] = {}
"""With the spec, so that its id stays its own."""


def dim_names(spec: Spec, name: str, form: str) -> tuple[str, ...]:
    """The dims of a tensor argument or an output as text; a bare name is a dim that may be sharded."""
    key = (id(spec), name, form)
    known = _KNOWN.get(key)
    if known is None:
        holder: Any = spec.by_name.get(name) or spec.output_by_name[name]
        found: list[str] = []
        for dim in holder.dims.per_format[form]:
            found += rest_names(spec, holder) if dim.is_rest else [dim.compact]
        known = _KNOWN[key] = spec, tuple(found)
    return known[1]


def rest_names(spec: Spec, holder: Any) -> list[str]:
    """The dims of `...`: two, and among them, where its default says, the one that an attribute chooses."""
    names = list(REST)
    for axis, attribute in spec.axes.items():
        at = attribute.default if isinstance(attribute.default, int) else -1
        resized = holder.resize.get(axis) if isinstance(holder, Output) else None
        names.insert(at if at >= 0 else len(names) + 1 + at, axis if resized is None else f"({axis} resized)")
    return names


def rest_dims(spec: Spec, form: str) -> list[str]:
    """The dims that `...` stands for in a format, if a tensor has it."""
    return list(REST) if spec.rest_owner(form) is not None else []


def shape_of(spec: Spec, name: str, form: str, names: Mapping[str, Any]) -> tuple[int, ...]:
    """The shape of a tensor argument; `names` has the extents and the other arguments."""
    texts = {dim.compact: dim.expression for dim in spec.by_name[name].dims.per_format[form] if not dim.is_rest}  # type: ignore[union-attr]
    return tuple(
        int(evaluate(texts[text], names) if text in texts else names[text]) for text in dim_names(spec, name, form)
    )
