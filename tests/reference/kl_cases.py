# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors for the two losses, and the losses once more, by loops over Python floats."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np

from hyper_parallel.reference import samples

SCALE = 0.4
INDEX_TENSORS = ("query_index", "key_index", "weights")
GRADIENTS = ("d_query_index", "d_key_index", "d_weights")
TYPES = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16, "float32": np.float32, "float64": np.float64}

# Query and key ends of the documents of a TND call.
PACKED = {
    "one document": ([5], [5]),
    "ragged": ([3, 4, 9], [5, 6, 12]),
    "fewer queries than keys": ([2, 5], [7, 11]),
    "more queries than keys": ([4, 9], [2, 5]),
    "queries without any key": ([3, 5], [0, 4]),
    "keys without any query": ([0, 3], [4, 8]),
    "empty in the middle": ([2, 2, 5], [3, 3, 7]),
    "empty at both ends": ([0, 4, 4], [0, 6, 6]),
    "all empty": ([0, 0], [0, 0]),
}


@dataclass(frozen=True)
class Tensors:
    """The free inputs of a call, and the lengths if it is a TND one."""

    query: Any
    key: Any
    query_index: Any
    key_index: Any
    weights: Any
    query_rope: Any = None
    key_rope: Any = None
    ends: dict[str, Any] = field(default_factory=dict)

    @property
    def indexer(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in INDEX_TENSORS}

    @property
    def attention(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("query", "key", "query_rope", "key_rope")}

    def attention_statistics(self, selection: Any = None) -> dict[str, Any]:
        values = samples.attention_statistics(**self.attention, scale_value=SCALE, **self.ends, selection=selection)
        return dict(zip(("softmax_max", "softmax_sum"), values, strict=True))

    def documents(self) -> list[tuple[slice, slice]]:
        """Rows of the query and of the key; in BSND of the packed batch."""
        if self.ends:
            q_ends, k_ends = self.ends["actual_seq_qlen"], self.ends["actual_seq_klen"]
        else:
            q_ends, k_ends = ([(b + 1) * t.shape[1] for b in range(t.shape[0])] for t in (self.query, self.key))
        rows = zip(pairwise([0, *q_ends]), pairwise([0, *k_ends]), strict=True)
        return [(slice(*query), slice(*key)) for query, key in rows]


def draw(
    query_shape: tuple[int, ...],
    key_shape: tuple[int, ...],
    ends: tuple[list[int], list[int]] | None = None,
    heads: tuple[int, int] = (4, 4),
    rope: bool = False,
    dtype: str = "float64",
    weights_dtype: str | None = None,
) -> Tensors:
    """Tensors for queries and keys of the shapes ``[B, S]`` or ``[T]``."""
    rng = np.random.default_rng([*query_shape, *key_shape, *heads])

    def normal(*shape: int, dtype: str = dtype) -> Any:
        return rng.standard_normal(shape).astype(TYPES[dtype])

    return Tensors(
        query=normal(*query_shape, heads[0], 3),
        key=normal(*key_shape, heads[1], 3),
        query_index=normal(*query_shape, 2, 5),
        key_index=normal(*key_shape, 1, 5),
        weights=normal(*query_shape, 2, dtype=weights_dtype or dtype),
        query_rope=normal(*query_shape, heads[0], 2) if rope else None,
        key_rope=normal(*key_shape, heads[1], 2) if rope else None,
        ends={} if ends is None else {"layout": "TND", "actual_seq_qlen": ends[0], "actual_seq_klen": ends[1]},
    )


def draw_packed(ends: tuple[list[int], list[int]], **changes: Any) -> Tensors:
    return draw((ends[0][-1],), (ends[1][-1],), ends, **changes)


def packed_lists(tensor: Any, trailing: int) -> Any:
    """Nested lists of floats, what stands before the last ``trailing`` dims packed into one."""
    shape = tensor.shape[tensor.ndim - trailing :]
    return tensor.astype(np.float64).reshape(math.prod(tensor.shape[: tensor.ndim - trailing]), *shape).tolist()


def dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def softmax(scores: list[float], over: list[int], keys: list[int]) -> list[float]:
    """``exp(score) / sum`` of each key in ``keys``, the sum running over those in ``over``."""
    total = sum(math.exp(scores[j]) for j in over)
    return [math.exp(scores[j]) / total for j in keys]


def loss_by_loops(tensors: Tensors, selection: Any = None, normalised_over_selection: bool = True) -> dict[str, Any]:
    """Loss and gradients. ``selection [.., 1, K]``: only these keys; the main softmax may still run over all seen."""
    query, key = packed_lists(tensors.query, 2), packed_lists(tensors.key, 2)
    q_index, k_index = packed_lists(tensors.query_index, 2), packed_lists(tensors.key_index[..., 0, :], 1)
    weights = packed_lists(tensors.weights, 1)
    chosen = None if selection is None else packed_lists(selection[..., 0, :], 1)
    if tensors.query_rope is not None:
        query_rope, key_rope = packed_lists(tensors.query_rope, 2), packed_lists(tensors.key_rope, 2)
    heads, key_heads = tensors.query.shape[-2], tensors.key.shape[-2]
    d_query, d_key = np.zeros(np.shape(q_index)), np.zeros(np.shape(k_index))
    d_weights, loss = np.zeros(np.shape(weights)), 0.0
    for rows, columns in tensors.documents():
        q_length, k_length = rows.stop - rows.start, columns.stop - columns.start
        for i in range(q_length):
            t = rows.start + i
            seen = [j for j in range(k_length) if j <= k_length - q_length + i]
            keys = seen if chosen is None else [int(j) for j in chosen[t] if j != -1]
            if not keys:
                continue
            p = [0.0] * len(keys)
            for n in range(heads):
                m = n // (heads // key_heads)
                scores = []
                for j in range(k_length):
                    score = dot(query[t][n], key[columns.start + j][m])
                    if tensors.query_rope is not None:
                        score += dot(query_rope[t][n], key_rope[columns.start + j][m])
                    scores.append(score * SCALE)
                over = keys if normalised_over_selection else seen
                for place, value in enumerate(softmax(scores, over, keys)):
                    p[place] += value / heads
            products = [[dot(q, k_index[columns.start + j]) for j in range(k_length)] for q in q_index[t]]
            res = [sum(w * max(products[n][j], 0.0) for n, w in enumerate(weights[t])) for j in range(k_length)]
            s = softmax(res, keys, keys)
            for place, j in enumerate(keys):
                loss += p[place] * (math.log(max(p[place], 1e-8)) - math.log(max(s[place], 1e-8)))
                d_res = s[place] - p[place]
                for n, w in enumerate(weights[t]):
                    if products[n][j] > 0:
                        d_weights[t, n] += d_res * products[n][j]
                        d_query[t, n] += d_res * w * np.array(k_index[columns.start + j])
                        d_key[columns.start + j] += d_res * w * np.array(q_index[t][n])
    gradients = zip(GRADIENTS, (d_query, d_key, d_weights), tensors.indexer.values(), strict=True)
    return {name: value.reshape(tensor.shape) for name, value, tensor in gradients} | {"loss": np.array([loss])}
