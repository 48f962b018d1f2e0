# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Document-relative positions of keys, for arguments that hold such."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..spec.model import Spec, TensorArgument
from .cases import Problem
from .evaluate import evaluate
from .tensor_dims import dim_names


def drawn_positions(
    spec: Spec,
    problem: Problem,
    item: TensorArgument,
    shape: tuple[int, ...],
    others: Mapping[str, Any],
    rng: np.random.Generator,
) -> Any:
    """Document-relative positions, each inside its row's window: distinct, in random order, -1 behind them."""
    context = spec.context_parallel
    assert context is not None
    names = dim_names(spec, item.name, problem.form)
    row_dim = next(at for at, name in enumerate(names) if name in context.query)
    seen = visible_counts(spec, problem, shape[row_dim], others)
    rows = np.moveaxis(np.full(shape, -1), row_dim, 0)
    for row, count in enumerate(seen):
        for place in np.ndindex(rows.shape[1:-1]):
            kept = rng.permutation(count)[: rows.shape[-1]]
            rows[row][place][: len(kept)] = kept
    return np.moveaxis(rows, 0, row_dim)


def visible_counts(spec: Spec, problem: Problem, rows: int, others: Mapping[str, Any]) -> list[int]:
    """For each row the number of keys that it sees, counted document by document."""
    context = spec.context_parallel
    assert context is not None
    mask = evaluate(context.mask, {**others, "causal": "causal", "full": "full"})
    key_dim = next(dim for dim in context.key if dim in spec.bound(problem.form))
    groups = problem.documents.get(key_dim)
    if groups is None:
        pairs = [(rows, problem.extents[key_dim])]
    else:
        query_dim = next(dim for dim in context.query if dim in problem.documents)
        queries = [tokens for group in problem.documents[query_dim] for tokens in group]
        pairs = list(zip(queries, [tokens for group in groups for tokens in group], strict=True))
    return [
        keys if mask == "full" else max(0, min(keys, keys - queries + row + 1))
        for queries, keys in pairs
        for row in range(queries)
    ]
