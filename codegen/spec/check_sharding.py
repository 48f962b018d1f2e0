# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of `sharding`, `combine` and `context_parallel`: what can be decided about the layout rule without a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ..diagnostics import Findings, Span, suggestion
from .dims import REST, Dim
from .expression import Conditional, Expression, Name, names_in
from .model import Attribute, ContextParallel, LengthsArgument, Output, Spec, TensorArgument
from .yaml_nodes import Scalar

MASKS = ("causal", "full")


def check(spec: Spec, findings: Findings) -> None:
    """Add a finding for every claim that contradicts the operator's dims."""
    check_shard(spec, findings)
    check_reduce(spec, findings)
    check_groups(spec, findings)
    if spec.context_parallel:
        check_context_parallel(spec, spec.context_parallel, findings)
    for output in spec.outputs:
        check_combine(spec, output, findings)
        check_sums(spec, output, findings)


def known_dim(spec: Spec, name: str, at: Span, rule: str, findings: Findings) -> bool:
    known = {*spec.dim_docs, REST} if spec.has_any_rank else {*spec.dim_docs}
    if name in known:
        return True
    findings.add(rule, at, f"unknown dim '{name}'", suggestion(name, known))
    return False


def check_shard(spec: Spec, findings: Findings) -> None:
    reasons = not_shardable(spec)
    for name in spec.sharding.allowed:
        at = spec.sharding.places[name]
        if known_dim(spec, name, at, "HP301", findings) and name in reasons:
            findings.add("HP301", at, f"'{name}' cannot be sharded: {reasons[name]}", "delete it here")


def not_shardable(spec: Spec) -> dict[str, str]:
    """The dims that may not stand in `shard`, and why."""
    reasons = dict.fromkeys(spec.counts, "it is the number of documents, which every group has of its own")
    for name, attribute in spec.axes.items():
        reasons.setdefault(name, f"'{attribute.name}' chooses it")
    for tensor in spec.tensors:
        for form in spec.format.names:
            held = tensor.dims.bare(form)
            counted = [name for name, lengths in spec.counts.items() if name in held and lengths.of in spec.bound(form)]
            for name in held - set(counted) if counted else ():
                reasons.setdefault(
                    name, f"{tensor.name} has it beside {counted[0]}, and each group's own values are not cut"
                )
    holders: list[TensorArgument | Output] = [*spec.tensors, *spec.outputs]
    for holder in holders:
        for form, dims in holder.dims.per_format.items():
            seen = Counter(dim.name for dim in dims if dim.name)
            for name in (name for name, count in seen.items() if count > 1):
                reasons.setdefault(name, f"{holder.name} has it twice in format {form}")
            for dim in dims:
                for name in dim.names if dim.name is None else ():
                    reasons.setdefault(name, f"it is part of the dim '{dim.text}' of {holder.name} in format {form}")
    return reasons


def check_reduce(spec: Spec, findings: Findings) -> None:
    """A contracted dim is one that no output has."""
    for name in spec.sharding.reduce:
        at = spec.sharding.places[name]
        holder = next((output for output in spec.outputs if has_dim(output, name)), None)
        if holder:
            message = f"'{name}' is not contracted: the output '{holder.name}' has it"
            findings.add("HP301", at, message, "a dim that outputs keep belongs into 'shard'")
        if name in spec.sharding.shard:
            findings.add("HP301", at, f"'{name}' stands in 'shard' and in 'reduce'", "delete one")


def has_dim(holder: TensorArgument | Output, name: str) -> bool:
    return any(name in holder.dims.bare(form) for form in holder.dims.per_format)


def check_groups(spec: Spec, findings: Findings) -> None:
    for group in spec.sharding.linear:
        for name in group:
            if not isinstance(spec.by_name.get(name), TensorArgument):
                hint = suggestion(name, [tensor.name for tensor in spec.tensors])
                findings.add("HP301", spec.sharding.places[name], f"'{name}' is no tensor argument", hint)
    for group in spec.sharding.together:
        for name in group:
            at = spec.sharding.places[name]
            if known_dim(spec, name, at, "HP301", findings) and name not in spec.sharding.allowed:
                findings.add("HP301", at, f"'{name}' is tied to others but may not be sharded", "add it to 'shard'")


def check_context_parallel(spec: Spec, context: ContextParallel, findings: Findings) -> None:
    for name in (*context.query, *context.key, *context.lengths):
        known_dim(spec, name, context.places[name], "HP303", findings)
    for name in context.query:
        if name in spec.dim_docs and name not in spec.sharding.shard:
            hint = "add it to 'sharding.shard'"
            findings.add("HP303", context.places[name], f"the query dim '{name}' may not be sharded", hint)
    check_one_per_format(spec, context, findings)
    check_context_lengths(spec, context, findings)
    check_mask(spec, context.mask, context.mask_scalar, findings)
    check_ratio(spec, context, findings)
    for output in spec.outputs:
        for form in spec.format.names:
            held = output.dims.bare(form)
            if held & set(context.query) and held & set(context.key):
                message = f"the output '{output.name}' has the query and the key dim in format {form}"
                findings.add("HP303", output.at, message, "such an output cannot be cut along the sequence")


def check_one_per_format(spec: Spec, context: ContextParallel, findings: Findings) -> None:
    for role, names in (("query", context.query), ("key", context.key)):
        for form in spec.format.names:
            present = [name for name in names if name in spec.bound(form)]
            if len(present) > 1:
                message = f"format {form} has more than one {role} dim: {', '.join(present)}"
                findings.add("HP303", context.places[present[1]], message)


def check_context_lengths(spec: Spec, context: ContextParallel, findings: Findings) -> None:
    for dim, argument in context.lengths.items():
        lengths = spec.by_name.get(argument)
        if not isinstance(lengths, LengthsArgument):
            message = f"'{argument}' is not an argument of type lengths"
            hint = suggestion(argument, [item.name for item in spec.lengths])
            findings.add("HP303", context.places[argument], message, hint)
        elif lengths.of != dim:
            message = f"'{argument}' holds the document ends of '{lengths.of}', not of '{dim}'"
            findings.add("HP303", context.places[argument], message)
        if dim in spec.dim_docs and dim not in (*context.query, *context.key):
            findings.add("HP303", context.places[dim], f"'{dim}' is neither a query nor a key dim")


def check_mask(spec: Spec, mask: Expression, scalar: Scalar, findings: Findings) -> None:
    """`causal`, `full`, or a choice between them that depends on attributes."""
    if isinstance(mask, Conditional):
        for name in names_in(mask.condition):
            if not isinstance(spec.by_name.get(name.id), Attribute):
                place = scalar.at(name.offset, len(name.id))
                hint = suggestion(name.id, [attribute.name for attribute in spec.attributes])
                findings.add("HP303", place, f"'{name.id}' is not an attribute, so no mask can depend on it", hint)
        check_mask(spec, mask.then, scalar, findings)
        check_mask(spec, mask.otherwise, scalar, findings)
    elif not (isinstance(mask, Name) and mask.id in MASKS):
        word = mask.id if isinstance(mask, Name) else scalar.text
        hint = suggestion(word, MASKS)
        findings.add("HP303", scalar.at(mask.offset, len(word)), f"'{word}' is not a mask", hint)


def check_ratio(spec: Spec, context: ContextParallel, findings: Findings) -> None:
    if context.ratio is None:
        return
    by = spec.by_name.get(context.ratio.by)
    if not (isinstance(by, Attribute) and by.type == "int"):
        at = context.places[context.ratio.by]
        findings.add("HP303", at, f"the ratio '{context.ratio.by}' is not an attribute of type int")
    if context.ratio.residual not in spec.by_name:
        at = context.places[context.ratio.residual]
        hint = suggestion(context.ratio.residual, spec.by_name)
        findings.add("HP303", at, f"unknown argument '{context.ratio.residual}'", hint)


def lacking(spec: Spec, dims: Iterable[Dim], form: str) -> list[str]:
    """The dims of `shard` in this format that a tensor with these dims lacks: it needs `combine` if there are any.

    The key dim counts as present if the query dim is: it lies on a prefix of the query dim's axes. So do dims that are
    cut together with one that is present.
    """
    present = {dim.text if dim.is_rest else dim.name for dim in dims}
    context = spec.context_parallel
    if context and present & set(context.query):
        present |= set(context.key)
    for group in spec.sharding.together:
        if present & set(group):
            present |= set(group)
    inputs = {REST} if spec.rest_owner(form) else set()
    return [name for name in spec.sharding.shard if name in inputs | spec.bound(form) and name not in present]


def check_sums(spec: Spec, output: Output, findings: Findings) -> None:
    """Partial sums, which linear and reduce make, go with no other way to combine."""
    if output.combine in ("max", "min") and (spec.sharding.linear or spec.sharding.reduce):
        rule = "linear" if spec.sharding.linear else "reduce"
        message = f"'{output.name}' is combined by {output.combine}, but sharding.{rule} makes outputs sums"
        findings.add("HP302", output.at, message, "an operator with such an output is not linear")


def check_combine(spec: Spec, output: Output, findings: Findings) -> None:
    missing = [(form, name) for form, dims in output.dims.per_format.items() for name in lacking(spec, dims, form)]
    if missing and output.combine is None:
        form, name = missing[0]
        message = f"the output '{output.name}' lacks the dim '{name}' in format {form}, and {name} may be sharded"
        # A kernel that needs the whole dim, as a norm over it does, has no combine that gives the right values.
        hint = f"take '{name}' out of sharding.shard if the kernel needs all of {name} at once; or say how the shards "
        findings.add("HP302", output.at, message, hint + "make up the whole: combine: sum|max|min|same")
    if output.combine is not None and not missing:
        message = f"the output '{output.name}' has every dim that may be sharded, so there is nothing to combine"
        findings.add("HP302", output.at, message, "delete 'combine'")
    key = set(spec.context_parallel.key) if spec.context_parallel else set()
    for form in spec.format.names:
        if output.dims.bare(form) & key and output.combine not in (None, "sum"):
            message = f"the output '{output.name}' has the key dim, so blocks add up: combine must be sum"
            findings.add("HP302", output.at, message)
            return
