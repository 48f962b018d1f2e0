# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Sentences for docstrings, made from the facts of a spec."""

from __future__ import annotations

from collections.abc import Sequence

from ..spec.model import Attribute, LengthsArgument, Output, Spec, TensorArgument
from ..text.python_expression import literal
from .facts import takes_host_dtypes


def sentences(*parts: str) -> str:
    """Sentences joined; each ends with a full stop."""
    return " ".join(part if part.endswith((".", "!", "?")) else f"{part}." for part in parts if part)


def listed(names: Sequence[str]) -> str:
    """`B, S1 and T1`."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def shape_text(item: TensorArgument | Output) -> str:
    """`Shape [B, S1] (BSND) or [T1] (TND)`, or one shape if it is the same in every format."""
    shapes = {form: "[" + ", ".join(dim.text for dim in dims) + "]" for form, dims in item.dims.per_format.items()}
    if isinstance(item, Output) and item.resize:
        shapes = dict.fromkeys(shapes, f"like {item.like}, with another {listed(list(item.resize))}")
    if len(set(shapes.values())) == 1:
        return "Shape " + next(iter(shapes.values()))
    alike = {shape: [form for form, other in shapes.items() if other == shape] for shape in shapes.values()}
    return "Shape " + " or ".join(f"{shape} ({', '.join(forms)})" for shape, forms in alike.items())


def tensor_doc(spec: Spec, tensor: TensorArgument) -> str:
    words = [f"that of {dtype}" if dtype in spec.by_name else dtype for dtype in tensor.dtypes]
    others = [dtype for dtype in ("float32", "float64") if dtype not in tensor.dtypes]
    host = f", on the host also {' or '.join(others)}" if takes_host_dtypes(tensor) and others else ""
    missing = "None if there is none" if tensor.optional else ""
    positions = (
        f"Positions in the row's own document of {tensor.positions}, -1 where unused" if tensor.positions else ""
    )
    return sentences(f"{shape_text(tensor)}; dtype {' or '.join(words)}{host}", positions, missing)


def lengths_doc(spec: Spec, lengths: LengthsArgument) -> str:
    zero = "with" if lengths.leading_zero else "without"
    text = f"Integers that do not decrease and end at {lengths.of}, {zero} a leading zero"
    forms = [form for form in spec.format.names if lengths.of in spec.bound(form)]
    others = [form for form in spec.format.names if form not in forms]
    return sentences(text, f"None in format {' and '.join(others)}" if others else "")


def attribute_doc(spec: Spec, attribute: Attribute) -> str:
    choices = attribute.choices
    if spec.format.kind == "attribute" and attribute.name == spec.format.selector:
        choices = spec.format.names
    plain = "" if attribute.doc or choices or attribute.axis else f"Of type {attribute.type}"
    axis = f"Chooses the dim {attribute.axis}; negative numbers count from the last" if attribute.axis else ""
    return sentences("One of " + ", ".join(literal(choice) for choice in choices) if len(choices) > 1 else plain, axis)


def output_doc(spec: Spec, output: Output) -> str:
    dtype = f"that of {output.dtype}" if output.dtype in spec.by_name else output.dtype
    when = f"Returned only with {output.when}" if output.when else ""
    combine = ""
    if output.combine:
        how = "the same on every shard" if output.combine == "same" else f"Partial({output.combine})"
        combine = f"Over mesh axes that shard only dims it lacks: {how}"
    return sentences(output.doc, f"{shape_text(output)}; dtype {dtype}", when, combine)


def sharding_note(spec: Spec) -> str:
    """The layout rule in words."""
    rule = spec.sharding
    names = ["every dim but the named ones" if name == "..." else name for name in rule.shard]
    others = [name for name in spec.dim_docs if name not in rule.allowed]
    parts = [f"{listed(names)} may lie on mesh axes" if names else "no dim may lie on a mesh axis"]
    if rule.reduce:
        parts.append(f"{listed(list(rule.reduce))} may too, and outputs are then Partial(sum)")
    parts += [f"{listed(group)} are cut alike" for group in rule.together]
    if rule.linear:
        groups = " or ".join(listed(group) for group in rule.linear)
        parts.append(f"on one axis either {groups} may be Partial(sum)")
    parts += [f"{listed(others)} must be replicated"] if others and names else []
    sequence = ""
    if spec.context_parallel:
        query, key = listed(spec.context_parallel.query), listed(spec.context_parallel.key)
        windows = "runs on its own rows and the keys that they see"
        sequence = f"Where the query dim ({query}) lies on axes that the key dim ({key}) lacks, each rank {windows}"
    return sentences("Sharding: " + "; ".join(parts), sequence)
