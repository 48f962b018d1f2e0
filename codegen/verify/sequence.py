# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The sequence in a case: which ranks share one, whose documents a rank passes, and tensors in dealt order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..spec.model import Spec
from .cases import Axes, Case
from .dealing import dealt_tokens
from .problem import Whole, ends_of
from .tensor_dims import dim_names


@dataclass(frozen=True)
class SharedSequence:
    """Where query and key dim lie.

    Attributes:
        query: The query dim of the format, "" if it has none.
        key: The key dim.
        over: The mesh axes over which a sequence is shared: those of the query dim behind those of the key dim.
        groups: The mesh axes along which groups have documents of their own.
    """

    query: str
    key: str
    over: Axes
    groups: Axes


def sequence_of(spec: Spec, case: Case) -> SharedSequence:
    """What the placement of the tensors makes of the sequence."""
    form, context = case.problem.form, spec.context_parallel
    bound = spec.bound(form)
    query = next((dim for dim in context.query if dim in bound), "") if context else ""
    key = next((dim for dim in context.key if dim in bound), "") if context else ""
    if query:
        of_query, of_key = axes_of(spec, case, query), axes_of(spec, case, key)
        return SharedSequence(query, key, of_query[len(of_key) :], of_key)
    packed = next((item.of for item in spec.lengths if item.of in bound), "")
    return SharedSequence("", "", (), axes_of(spec, case, packed))


def axes_of(spec: Spec, case: Case, dim: str) -> Axes:
    """The mesh axes that shard a dim in some tensor."""
    for name, placed in case.placed.items():
        for text, axes in zip(dim_names(spec, name, case.problem.form), placed.dims, strict=True):
            if text == dim and axes:
                return axes
    return ()


def own_values(spec: Spec, form: str) -> tuple[str, ...]:
    """The tensors of which each group holds its own, as it has documents of its own."""
    return tuple(item.name for item in spec.tensors if spec.counts.keys() & set(dim_names(spec, item.name, form)))


def in_dealt_order(spec: Spec, case: Case, whole: Whole) -> Whole:
    """The call as the ranks hold it: whatever has the query dim in dealt order, keys if they were dealt, too."""
    found = sequence_of(spec, case)
    if not found.over or case.order.chunks == 1:
        return whole
    groups = case.part(found.groups, 0)[1]
    ranks = case.part(found.over, 0)[1]
    index = {found.query: dealt_index(case, found.query, groups, ranks)}
    if case.order.keys == "dealt" and found.key:
        index[found.key] = dealt_index(case, found.key, groups, ranks)

    def dealt(values: Mapping[str, Any]) -> dict[str, Any]:
        result = dict(values)
        for name in values:
            for at, dim in enumerate(dim_names(spec, name, case.problem.form)):
                if dim in index:
                    result[name] = result[name].take(index[dim], axis=at)
        return result

    return Whole(
        dealt(whole.tensors), whole.others, dealt(whole.outputs), dealt(whole.cotangents), dealt(whole.gradients)
    )


def dealt_index(case: Case, dim: str, groups: int, ranks: int) -> Any:
    """Natural tokens in the order in which all ranks hold them, one group after another."""
    documents: Sequence[Sequence[int]] | None = case.problem.documents.get(dim)
    if documents is None:
        documents = [[case.problem.extents[dim] // groups]] * groups
    start, found = 0, []
    for group in documents:
        found += [start + token for token in dealt_tokens(case.order, ranks, group)]
        start += sum(group)
    return np.array(found, int)


def keywords_on(spec: Spec, case: Case, whole: Whole, rank: int) -> dict[str, Any]:
    """What a rank passes besides its shards: attributes, and the lengths and the own values of its group."""
    group = case.part(sequence_of(spec, case).groups, rank)[0]
    others = dict(whole.others)
    for item in spec.lengths:
        groups = case.problem.documents.get(item.of)
        if groups is not None:
            others[item.name] = ends_of(item, groups[group % len(groups)])
    for name in own_values(spec, case.problem.form):
        if name in whole.tensors:
            others[name] = values_of_group(spec, case, name, whole.tensors[name], group)
    return others


def values_of_group(spec: Spec, case: Case, name: str, whole: Any, group: int) -> Any:
    """A group's own values of a tensor that has them for the documents of all groups."""
    for at, dim in enumerate(dim_names(spec, name, case.problem.form)):
        lengths = spec.counts.get(dim)
        if lengths is not None:
            counts = [len(one) for one in case.problem.documents[lengths.of]]
            start = sum(counts[:group])
            whole = whole.take(range(start, start + counts[group]), axis=at)
    return whole
