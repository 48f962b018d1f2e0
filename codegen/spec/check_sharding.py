# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of `sharding`, `combine` and `context_parallel`: what can be decided about the layout rule without a run."""

from __future__ import annotations

from collections.abc import Iterable

from ..diagnostics import Findings, suggestion
from .dims import Dim
from .model import LengthsArgument, Output, Spec, TensorArgument


def check(spec: Spec, findings: Findings) -> None:
    """Add a finding for every claim that contradicts the operator's dims."""
    for name, at in spec.sharding.places.items():
        if name not in spec.dim_docs:
            findings.add("HP301", at, f"unknown dim '{name}'", suggestion(name, spec.dim_docs))
            continue
        reason = not_shardable(spec, name)
        if reason:
            findings.add("HP301", at, f"'{name}' cannot be sharded: {reason}", "delete it here")
    if spec.context_parallel:
        check_context_parallel(spec, findings)
    for output in spec.outputs:
        check_combine(spec, output, findings)


def not_shardable(spec: Spec, name: str) -> str:
    """Why a dim may not stand in `shard`; empty if it may."""
    holders: list[TensorArgument | Output] = [*spec.tensors, *spec.outputs]
    for holder in holders:
        for form, dims in holder.dims.per_format.items():
            if sum(dim.name == name for dim in dims) > 1:
                return f"{holder.name} has it twice in format {form}"
            for dim in dims:
                if dim.name is None and name in dim.names:
                    return f"it is part of the dim '{dim.text}' of {holder.name} in format {form}"
    return ""


def check_context_parallel(spec: Spec, findings: Findings) -> None:
    context = spec.context_parallel
    assert context is not None
    for name in (*context.query, *context.key, *context.lengths):
        if name not in spec.dim_docs:
            findings.add("HP303", context.places[name], f"unknown dim '{name}'", suggestion(name, spec.dim_docs))
    for name in context.query:
        if name in spec.dim_docs and name not in spec.sharding.shard:
            hint = "add it to 'sharding.shard'"
            findings.add("HP303", context.places[name], f"the query dim '{name}' may not be sharded", hint)
    for role, names in (("query", context.query), ("key", context.key)):
        for form in spec.format.names:
            present = [name for name in names if name in dims_of(spec, form)]
            if len(present) > 1:
                message = f"format {form} has more than one {role} dim: {', '.join(present)}"
                findings.add("HP303", context.places[present[1]], message)
    for dim, argument in context.lengths.items():
        lengths = spec.by_name.get(argument)
        known = [item.name for item in spec.lengths]
        if not isinstance(lengths, LengthsArgument):
            message = f"'{argument}' is not an argument of type lengths"
            findings.add("HP303", context.places[argument], message, suggestion(argument, known))
        elif lengths.of != dim:
            message = f"'{argument}' holds the document ends of '{lengths.of}', not of '{dim}'"
            findings.add("HP303", context.places[argument], message)
        if dim in spec.dim_docs and dim not in (*context.query, *context.key):
            findings.add("HP303", context.places[dim], f"'{dim}' is neither the query nor the key dim")
    for output in spec.outputs:
        for form, dims in output.dims.per_format.items():
            held = {dim.name for dim in dims}
            if held & set(context.query) and held & set(context.key):
                message = f"the output '{output.name}' has the query and the key dim in format {form}"
                findings.add("HP303", output.at, message, "such an output cannot be cut along the sequence")


def dims_of(spec: Spec, form: str) -> set[str]:
    return {dim.name for tensor in spec.tensors for dim in tensor.dims.per_format[form] if dim.name}


def lacking(spec: Spec, dims: Iterable[Dim], form: str) -> list[str]:
    """The dims of `shard` in this format that a tensor with these dims lacks: it needs `combine` if there are any.

    The key dim counts as present if the query dim is: it lies on a prefix of the query dim's axes.
    """
    present = {dim.name for dim in dims}
    context = spec.context_parallel
    if context and present & set(context.query):
        present |= set(context.key)
    return [name for name in spec.sharding.shard if name in dims_of(spec, form) and name not in present]


def check_combine(spec: Spec, output: Output, findings: Findings) -> None:
    missing = [(form, name) for form, dims in output.dims.per_format.items() for name in lacking(spec, dims, form)]
    if missing and output.combine is None:
        form, name = missing[0]
        message = f"the output '{output.name}' lacks the dim '{name}' in format {form}, and {name} may be sharded"
        findings.add("HP302", output.at, message, "say how the shards make up the whole: combine: sum|max|min|same")
    if output.combine is not None and not missing:
        message = f"the output '{output.name}' has every dim that may be sharded, so there is nothing to combine"
        findings.add("HP302", output.at, message, "delete 'combine'")
