# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Inputs and oracles of the two losses and of the selection. The references are checked by loops in tests/reference.

Statistics and selected positions are those of the whole tensors, so that every part of them belongs to its part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hyper_parallel.reference import dense_lightning_indexer, lightning_indexer, samples, sparse_lightning_indexer
from tests.reference.kl_cases import SCALE, TYPES, Tensors

from .lse_cases import DOCUMENTS, joined
from .sharded_calls import Call, place

DENSE, SPARSE = "npu_dense_lightning_indexer_grad_kl_loss", "npu_sparse_lightning_indexer_grad_kl_loss"
TOP_K = "npu_lightning_indexer"
OUTPUTS = ("d_query_index", "d_key_index", "d_weights", "loss")
DIFFERENTIABLE = ("query_index", "key_index", "weights")
REFERENCES = {DENSE: dense_lightning_indexer.grad_kl_loss, SPARSE: sparse_lightning_indexer.grad_kl_loss}
INDEX_STATISTICS = ("softmax_max_index", "softmax_sum_index")
KEYS_SELECTED = 3

# Head counts that the kernels take; head sizes that they do not fix are small.
HEADS, SIZE, ROPE_SIZE, INDEX_HEADS, INDEX_SIZE = 32, 3, 64, 8, 128


def draw(
    op: str,
    query_shape: tuple[int, ...],
    key_shape: tuple[int, ...],
    ends: tuple[Sequence[int], Sequence[int]] | None = None,
    *,
    dtype: str = "float64",
    weights_dtype: str = "",
    key_heads: int = HEADS,
    rope: bool = False,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tensors by name, and the lengths and layout of a packed call; shapes are ``[B, S]`` or ``[T]``."""
    rng = np.random.default_rng([*query_shape, *key_shape, key_heads])

    def normal(*shape: int, kind: str = dtype, scale: float = 1.0) -> Any:
        return (rng.standard_normal(shape) * scale).astype(TYPES[kind])

    tensors = {
        "query": normal(*query_shape, HEADS, SIZE),
        "key": normal(*key_shape, key_heads, SIZE),
        # The scale makes scores of size one, so that no softmax is a single key.
        "query_index": normal(*query_shape, INDEX_HEADS, INDEX_SIZE, scale=0.2),
        "key_index": normal(*key_shape, 1, INDEX_SIZE, scale=0.2),
        "weights": normal(*query_shape, INDEX_HEADS, kind=weights_dtype or dtype, scale=0.4),
    }
    ropes = {}
    if rope:
        ropes["query_rope"] = normal(*query_shape, HEADS, ROPE_SIZE, scale=0.2)
        ropes["key_rope"] = normal(*key_shape, key_heads, ROPE_SIZE, scale=0.2)
    packed: dict[str, Any] = {}
    if ends is not None:
        packed = {"layout": "TND", "actual_seq_qlen": list(ends[0]), "actual_seq_klen": list(ends[1])}
    return {**tensors, **statistics(op, rng, {**tensors, **ropes}, packed), **ropes}, packed


def statistics(
    op: str, rng: np.random.Generator, tensors: Mapping[str, Any], packed: Mapping[str, Any]
) -> dict[str, Any]:
    """What the operator takes besides: it is not free."""
    attention = {name: tensors[name] for name in ("query", "key", "query_rope", "key_rope") if name in tensors}
    found, selection = {}, None
    if op == SPARSE:
        selection = samples.selected_positions(rng, tensors["query"], tensors["key"], KEYS_SELECTED, **packed)
        found["sparse_indices"] = selection
    row_max, row_sum = samples.attention_statistics(**attention, scale_value=SCALE, **packed, selection=selection)
    found |= {"softmax_max": row_max, "softmax_sum": row_sum}
    if op == DENSE:
        indexer = {name: tensors[name] for name in DIFFERENTIABLE}
        found |= dict(zip(INDEX_STATISTICS, samples.index_statistics(**indexer, **packed), strict=True))
    return found


def by_name(op: str, tensors: Mapping[str, Any], packed: Mapping[str, Any]) -> dict[str, Any]:
    """The oracle's outputs."""
    return dict(zip(OUTPUTS, REFERENCES[op](**tensors, scale_value=SCALE, **packed), strict=True))


def for_loops(tensors: Mapping[str, Any], packed: Mapping[str, Any]) -> Tensors:
    """The same inputs for the loops of tests/reference."""
    names = ("query", "key", "query_index", "key_index", "weights", "query_rope", "key_rope")
    return Tensors(**{name: tensors.get(name) for name in names}, ends=dict(packed))


COTANGENT = np.array([-2.5])


def batch_call(op: str, batch: int = 4, **options: Any) -> Call:
    """A BSND call in float64."""
    tensors, _ = draw(op, (batch, 2), (batch, 3), **options)
    return loss_call(op, tensors, {}, lambda rank: {"scale_value": SCALE})


def packed_call(op: str, mesh: tuple[int, ...], axes: Sequence[str], groups: int, **options: Any) -> Call:
    """A TND call in float64 whose groups, with documents of their own, lie on these mesh axes."""
    documents = DOCUMENTS[:groups]
    ends = joined([query for query, _ in documents]), joined([key for _, key in documents])
    tensors, packed = draw(op, (ends[0][-1],), (ends[1][-1],), ends, **options)

    def keywords(rank: int) -> dict[str, Any]:
        query, key = documents[place(axes, mesh, rank)[0]]
        return {**packed, "actual_seq_qlen": list(query), "actual_seq_klen": list(key), "scale_value": SCALE}

    return loss_call(op, tensors, packed, keywords)


def loss_call(op: str, tensors: Mapping[str, Any], packed: Mapping[str, Any], keywords: Any) -> Call:
    outputs = by_name(op, tensors, packed)
    gradients = {name: COTANGENT[0] * outputs[f"d_{name}"] for name in DIFFERENTIABLE}
    return Call(op, tensors, keywords, outputs, {"loss": COTANGENT}, gradients)


def top_k_tensors(
    query_shape: tuple[int, ...], key_shape: tuple[int, ...], dtype: str = "float64", weights_dtype: str = ""
) -> dict[str, Any]:
    rng = np.random.default_rng([*query_shape, *key_shape])
    shapes = (*query_shape, INDEX_HEADS, INDEX_SIZE), (*key_shape, 1, INDEX_SIZE), (*query_shape, INDEX_HEADS)
    kinds = dtype, dtype, weights_dtype or dtype
    values = [(rng.standard_normal(shape) * 0.2).astype(TYPES[kind]) for shape, kind in zip(shapes, kinds, strict=True)]
    return dict(zip(("query", "key", "weights"), values, strict=True))


def starts(ends: Sequence[int]) -> Any:
    """Cumulative lengths as this operator takes them: int32, with the leading zero."""
    return np.array([0, *ends], np.int32)


def top_k_outputs(tensors: Mapping[str, Any], **keywords: Any) -> dict[str, Any]:
    found = lightning_indexer.top_k(**tensors, **keywords)
    return dict(zip(("sparse_indices", "sparse_values"), found, strict=True))


def top_k_batch_call(sparse_mode: int) -> Call:
    tensors = top_k_tensors((4, 2), (4, 5))
    keywords = {"sparse_count": KEYS_SELECTED, "sparse_mode": sparse_mode, "return_value": True}
    return Call(TOP_K, tensors, lambda rank: keywords, top_k_outputs(tensors, **keywords), {}, {})


def top_k_packed_call(mesh: tuple[int, ...], axes: Sequence[str], groups: int, sparse_mode: int) -> Call:
    documents = DOCUMENTS[:groups]
    ends = [joined([document[which] for document in documents]) for which in (0, 1)]
    tensors = top_k_tensors((ends[0][-1],), (ends[1][-1],))
    shared = {"sparse_count": KEYS_SELECTED, "sparse_mode": sparse_mode, "layout": "TND"}

    def lengths(query: Sequence[int], key: Sequence[int]) -> dict[str, Any]:
        return {"cu_seq_lens_q": starts(query), "cu_seq_lens_k": starts(key)}

    whole = top_k_outputs(tensors, **shared, **lengths(*ends))
    return Call(
        TOP_K, tensors, lambda rank: {**shared, **lengths(*documents[place(axes, mesh, rank)[0]])}, whole, {}, {}
    )
