# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Calls of the two losses: tensors of any dims, and the order in which the kernels' operators take them."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyper_parallel.reference import dense_lightning_indexer, samples, sparse_lightning_indexer
from hyper_parallel.reference.documents import INT64_MAX
from tests.reference.kl_cases import TYPES

DENSE = "npu_dense_lightning_indexer_grad_kl_loss"
SPARSE = "npu_sparse_lightning_indexer_grad_kl_loss"
REFERENCES = {DENSE: dense_lightning_indexer.grad_kl_loss, SPARSE: sparse_lightning_indexer.grad_kl_loss}
SCALE = 0.4


def draw(
    op: str,
    query_shape: tuple[int, ...],
    key_shape: tuple[int, ...],
    *,
    dtype: str = "float32",
    weights_dtype: str = "",
    heads: tuple[int, int] = (4, 4),
    size: int = 5,
    rope: int = 0,
    index: tuple[int, int] = (2, 7),
    selected: int = 6,
    **packed: Any,
) -> dict[str, Any]:
    """Tensors by name, in the operator's order but for the ropes, for queries and keys of the shapes [B, S] or [T]."""
    rng = np.random.default_rng([*query_shape, *key_shape, *heads, size])

    def normal(*shape: int, kind: str = dtype, scale: float = 1.0) -> Any:
        return (rng.standard_normal(shape) * scale).astype(TYPES[kind])

    # Scores of size one: no softmax is a single key, and no exponent's error hides the others.
    main, small = (size + rope) ** -0.25 / SCALE**0.5, index[1] ** -0.25
    tensors = {
        "query": normal(*query_shape, heads[0], size, scale=main),
        "key": normal(*key_shape, heads[1], size, scale=main),
        "query_index": normal(*query_shape, *index, scale=small),
        "key_index": normal(*key_shape, 1, index[1], scale=small),
        "weights": normal(*query_shape, index[0], kind=weights_dtype or dtype, scale=index[0] ** -0.5),
    }
    ropes = {}
    if rope:
        ropes["query_rope"] = normal(*query_shape, heads[0], rope, scale=main)
        ropes["key_rope"] = normal(*key_shape, heads[1], rope, scale=main)
    return tensors | _statistics(op, rng, tensors | ropes, selected, packed) | ropes


def _statistics(
    op: str, rng: np.random.Generator, tensors: dict[str, Any], selected: int, packed: dict[str, Any]
) -> dict[str, Any]:
    """What belongs to the tensors: float32, as the kernels make it."""
    attention = {name: t for name, t in tensors.items() if name in ("query", "key", "query_rope", "key_rope")}
    found: dict[str, Any] = {}
    if op == SPARSE:
        found["sparse_indices"] = samples.selected_positions(rng, tensors["query"], tensors["key"], selected, **packed)
    selection = found.get("sparse_indices")
    values = samples.attention_statistics(**attention, scale_value=SCALE, **packed, selection=selection)
    found |= dict(zip(("softmax_max", "softmax_sum"), values, strict=True))
    if op == DENSE:
        values = samples.index_statistics(*(tensors[x] for x in ("query_index", "key_index", "weights")), **packed)
        found |= dict(zip(("softmax_max_index", "softmax_sum_index"), values, strict=True))
    return {name: t if name == "sparse_indices" else t.astype(np.float32) for name, t in found.items()}


def arguments(
    tensors: dict[str, Any], layout: str = "BSND", actual_seq_qlen: Any = None, actual_seq_klen: Any = None
) -> list[Any]:
    """The arguments of the operator in C++."""
    given = [tensor for name, tensor in tensors.items() if not name.endswith("rope")]
    ropes = [tensors.get("query_rope"), tensors.get("key_rope")]
    return [*given, SCALE, *ropes, actual_seq_qlen, actual_seq_klen, layout, 3, INT64_MAX, INT64_MAX]
