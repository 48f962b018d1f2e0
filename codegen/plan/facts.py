# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Facts about a spec that several artifacts need."""

from __future__ import annotations

from itertools import pairwise

from ..spec.model import FLOATING, LengthsArgument, Output, Spec, TensorArgument


def packed_dims(spec: Spec, form: str) -> tuple[str, ...]:
    """The packed dims of a format: those whose documents each data-parallel group counts from zero."""
    counted = [item.of for item in spec.lengths if item.of in spec.bound(form)]
    context = spec.context_parallel
    if context and counted:
        return tuple(dim for dim in (*context.query, *context.key) if dim in spec.bound(form))
    return tuple(dict.fromkeys(counted))


def group_dims(spec: Spec, form: str) -> tuple[str, ...]:
    """The packed dims whose parts are the groups: the key dims where there is a cut along the sequence."""
    context = spec.context_parallel
    packed = packed_dims(spec, form)
    return tuple(dim for dim in packed if dim in context.key) if context else packed


def group_values(spec: Spec, form: str) -> tuple[str, ...]:
    """Tensors that hold each group's own values, because a dim of theirs is a number of documents."""
    counts = {name for name, lengths in spec.counts.items() if lengths.of in spec.bound(form)}
    return tuple(tensor.name for tensor in spec.tensors if tensor.dims.bare(form) & counts)


def visible_outputs(spec: Spec) -> tuple[Output, ...]:
    """The outputs that a caller sees."""
    return tuple(output for output in spec.outputs if not output.hidden)


def takes_host_dtypes(tensor: TensorArgument) -> bool:
    """Whether kernels on the host take float32 and float64 as well: the dtypes are listed, and floating."""
    return all(dtype in FLOATING for dtype in tensor.dtypes)


def same_documents(spec: Spec, form: str) -> list[list[LengthsArgument]]:
    """The pairs of lengths in a format that speak of the same documents."""
    present = spec.bound(form)
    context = spec.context_parallel
    names = [name for dim, name in context.lengths.items() if dim in present] if context else []
    pairs = [[item for item in spec.lengths if item.name in names]] if len(names) == 2 else []
    for counted in {item.count: None for item in spec.lengths if item.count}:
        alike = [item for item in spec.lengths if item.count == counted and item.of in present]
        pairs += [[first, second] for first, second in pairwise(alike) if [first, second] not in pairs]
    for group in spec.sharding.together:
        alike = [item for item in spec.lengths if item.of in group and item.of in present]
        pairs += [[first, second] for first, second in pairwise(alike) if [first, second] not in pairs]
    return pairs
