# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The attention that an indexer is trained to imitate: its scores and its shapes."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .documents import DocumentSlices
from .tensor_checks import bind_dims, check_floating

TENSOR_DIMS = {
    "BSND": {"query": "B S1 N1 D", "key": "B S2 N2 D", "query_rope": "B S1 N1 Dr", "key_rope": "B S2 N2 Dr"},
    "TND": {"query": "T1 N1 D", "key": "T2 N2 D", "query_rope": "T1 N1 Dr", "key_rope": "T2 N2 Dr"},
}


class AttentionRows(NamedTuple):
    """``query [T1, N1, D]`` and ``key [T2, N2, D]`` in float64, batch and sequence packed, the rope part joined on."""

    query: NDArray[Any]
    key: NDArray[Any]

    def scores(self, document: DocumentSlices, scale: float) -> NDArray[Any]:
        """Scores ``[N1, q, k]`` of one document; query head n belongs to key head ``n // (N1 / N2)``."""
        query, key = self.query[document.query], self.key[document.key]
        key = np.repeat(key, query.shape[1] // key.shape[1], axis=1)
        scores: NDArray[Any] = np.matmul(query.transpose(1, 0, 2), key.transpose(1, 2, 0)) * scale
        return scores


def attention_tensors(
    query: NDArray[Any], key: NDArray[Any], query_rope: NDArray[Any] | None, key_rope: NDArray[Any] | None
) -> dict[str, NDArray[Any]]:
    """The tensors that are there, by name. ValueError if only one of the ropes is."""
    if query_rope is None and key_rope is None:
        return {"query": query, "key": key}
    if query_rope is None or key_rope is None:
        missing, given = ("query_rope", "key_rope") if query_rope is None else ("key_rope", "query_rope")
        raise ValueError(f"query_rope and key_rope go together, but {missing} is missing and {given} is given.")
    return {"query": query, "key": key, "query_rope": query_rope, "key_rope": key_rope}


def check_attention(dims: dict[str, str], **tensors: NDArray[Any]) -> dict[str, int]:
    """The extents of the dim names. TypeError or ValueError if a tensor does not fit, or N1 is no multiple of N2."""
    check_floating(**tensors)
    extents = bind_dims(dims, **tensors)
    if extents["N2"] == 0 or extents["N1"] % extents["N2"]:
        raise ValueError(
            "N1 (heads of query) should be a multiple of N2 (heads of key), "
            f"but N1 is {extents['N1']} and N2 is {extents['N2']}."
        )
    return extents


def attention_rows(tensors: dict[str, NDArray[Any]]) -> AttentionRows:
    """Packed rows of the tensors of ``attention_tensors``: q.k + q_rope.k_rope is one product of the joined heads."""
    packed = {
        name: tensor.astype(np.float64).reshape(prod(tensor.shape[:-2]), *tensor.shape[-2:])
        for name, tensor in tensors.items()
    }
    if "query_rope" not in packed:
        return AttentionRows(packed["query"], packed["key"])
    return AttentionRows(
        np.concatenate([packed["query"], packed["query_rope"]], axis=-1),
        np.concatenate([packed["key"], packed["key_rope"]], axis=-1),
    )


def packed_statistics(statistics: NDArray[Any], layout: str) -> NDArray[Any]:
    """``[B, N2, S1, G]`` or ``[N2, T1, G]`` as ``[N1, T1]`` in float64."""
    by_row = statistics.astype(np.float64)
    if layout == "BSND":
        batch, key_heads, length, group = by_row.shape
        by_row = by_row.transpose(1, 0, 2, 3).reshape(key_heads, batch * length, group)
    key_heads, tokens, group = by_row.shape
    return by_row.transpose(0, 2, 1).reshape(key_heads * group, tokens)


def unpacked_statistics(statistics: NDArray[Any], query: NDArray[Any], key_heads: int, layout: str) -> NDArray[Any]:
    """The inverse of ``packed_statistics`` for that query."""
    heads, tokens = statistics.shape
    by_row = statistics.reshape(key_heads, heads // key_heads, tokens).transpose(0, 2, 1)
    if layout == "TND":
        return by_row
    return by_row.reshape(key_heads, *query.shape[:2], heads // key_heads).transpose(1, 0, 2, 3)
