# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The reference against loops that use nothing but Python floats, against values worked out by hand, and its laws."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hyper_parallel.reference.dense_lightning_indexer import INT64_MAX, softmax_lse

TYPES = {
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
}
N1, D = 8, 16


def by_loops(query: Any, key: Any, weights: Any) -> tuple[list[float], list[float]]:
    """Row maxima and sums of one document from nested lists: query [q][n][d], key [k][d], weights [q][n]."""
    maxima, sums = [], []
    for i in range(len(query)):
        visible = []
        for j in range(len(key)):
            if j > len(key) - len(query) + i:
                continue
            score = 0.0
            for n in range(len(query[i])):
                dot = 0.0
                for d in range(len(key[j])):
                    dot += query[i][n][d] * key[j][d]
                if dot > 0.0:
                    score += weights[i][n] * dot
            visible.append(score)
        maxima.append(max(visible, default=-math.inf))
        sums.append(sum(math.exp(score - maxima[-1]) for score in visible))
    return maxima, sums


def packed_by_loops(query: Any, key: Any, weights: Any, q_ends: list[int], k_ends: list[int]) -> tuple[Any, Any]:
    """``by_loops`` over the documents of a TND call, as arrays [1, T1] of float64."""
    rows = [tensor.astype(np.float64).tolist() for tensor in (query, key[:, 0], weights)]
    maxima, sums = [], []
    for (q0, q1), (k0, k1) in zip(pairwise([0, *q_ends]), pairwise([0, *k_ends]), strict=True):
        document = by_loops(rows[0][q0:q1], rows[1][k0:k1], rows[2][q0:q1])
        maxima += document[0]
        sums += document[1]
    return np.array([maxima], dtype=np.float64), np.array([sums], dtype=np.float64)


def sample(rng: np.random.Generator, dtype: str, weights_dtype: str, *shapes: tuple[int, ...]) -> list[Any]:
    """Query, key and weights of the given shapes, rounded to their types."""
    kinds = (dtype, dtype, weights_dtype)
    return [rng.standard_normal(shape).astype(TYPES[kind]) for shape, kind in zip(shapes, kinds, strict=True)]


def sample_packed(q_rows: int, k_rows: int, dtype: str = "float32", weights_dtype: str = "float32") -> list[Any]:
    rng = np.random.default_rng(q_rows * 100 + k_rows)
    return sample(rng, dtype, weights_dtype, (q_rows, N1, D), (k_rows, 1, D), (q_rows, N1))


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


@pytest.mark.parametrize(("q_ends", "k_ends"), PACKED.values(), ids=PACKED.keys())
def test_tnd_equals_loops(q_ends: list[int], k_ends: list[int]) -> None:
    tensors = sample_packed(q_ends[-1], k_ends[-1], "float64", "float64")
    got = softmax_lse(*tensors, q_ends, k_ends, layout="TND")
    expected = packed_by_loops(*tensors, q_ends, k_ends)
    for value, oracle in zip(got, expected, strict=True):
        assert value.shape == (1, q_ends[-1])
        np.testing.assert_allclose(value, oracle, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("s1", "s2"), [(5, 5), (3, 8), (6, 2), (1, 1), (0, 4), (4, 0)])
@pytest.mark.parametrize("batch", [0, 1, 3])
def test_bsnd_equals_loops(batch: int, s1: int, s2: int) -> None:
    rng = np.random.default_rng(s1 * 10 + s2)
    query, key, weights = sample(rng, "float64", "float64", (batch, s1, N1, D), (batch, s2, 1, D), (batch, s1, N1))
    got = softmax_lse(query, key, weights)
    assert [value.shape for value in got] == [(batch, 1, s1)] * 2
    for row in range(batch):
        expected = by_loops(query[row].tolist(), key[row, :, 0].tolist(), weights[row].tolist())
        for value, oracle in zip(got, expected, strict=True):
            np.testing.assert_allclose(value[row, 0], np.array(oracle), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("weights_dtype", TYPES)
def test_rounded_inputs_equal_loops(dtype: str, weights_dtype: str) -> None:
    """The inputs' rounding is the only one before the result's."""
    tensors = sample_packed(9, 12, dtype, weights_dtype)
    got = softmax_lse(*tensors, [3, 3, 9], [5, 5, 12], layout="TND")
    expected = packed_by_loops(*tensors, [3, 3, 9], [5, 5, 12])
    result = np.float64 if "float64" in (dtype, weights_dtype) else np.float32
    for value, oracle in zip(got, expected, strict=True):
        assert value.dtype == result
        np.testing.assert_allclose(value, oracle, rtol=100 * np.finfo(np.float64).eps + np.finfo(result).eps / 2)


def test_worked_out_by_hand() -> None:
    """Two heads, two dims, two queries of three keys: row 0 sees keys 0 and 1, row 1 sees all."""
    query = np.array([[[1, 0], [0, 2]], [[1, 1], [-1, 0]]], dtype=np.float32)
    key = np.array([[[1, 1]], [[2, -1]], [[-3, 1]]], dtype=np.float32)
    weights = np.array([[1, 0.5], [2, -1]], dtype=np.float32)
    # Row 0, head 0: q.k = 1, 2        head 1: q.k = 2, -2 -> relu 2, 0
    #   res = 1*1 + 0.5*2 = 2,  1*2 + 0.5*0 = 2            max 2, sum e^0 + e^0 = 2
    # Row 1, head 0: q.k = 2, 1, -2 -> relu 2, 1, 0        head 1: q.k = -1, -2, 3 -> relu 0, 0, 3
    #   res = 2*2 - 0 = 4,  2*1 - 0 = 2,  2*0 - 1*3 = -3   max 4, sum 1 + e^-2 + e^-7
    softmax_max, softmax_sum = softmax_lse(query, key, weights, [2], [3], layout="TND")
    assert softmax_max.tolist() == [[2.0, 4.0]]
    np.testing.assert_allclose(softmax_sum, [[2.0, 1.1362471652]], rtol=1e-7)  # 1 + 0.1353352832 + 0.0009118820


def test_batch_worked_out_by_hand() -> None:
    """One head, one dim: res = w * relu(q * k)."""
    query = np.array([2, 3, 1, 1], dtype=np.float32).reshape(2, 2, 1, 1)
    key = np.array([1, -1, 4, 5], dtype=np.float32).reshape(2, 2, 1, 1)
    weights = np.array([1, 1, 0.5, -1], dtype=np.float32).reshape(2, 2, 1)
    # Batch row 0: q=2 sees k=1: res 2, sum 1.   q=3 sees 1, -1: res 3, 0: max 3, sum 1 + e^-3 = 1.0497870684
    # Batch row 1: q=1 sees k=4, w=0.5: res 2, sum 1.
    #              q=1 sees k=4, 5, w=-1: res -4, -5: max -4, sum 1 + e^-1 = 1.3678794412
    softmax_max, softmax_sum = softmax_lse(query, key, weights)
    assert softmax_max.tolist() == [[[2.0, 3.0]], [[2.0, -4.0]]]
    np.testing.assert_allclose(softmax_sum, [[[1.0, 1.0497870684]], [[1.0, 1.3678794412]]], rtol=1e-7)


def test_rows_that_see_no_key() -> None:
    """Three queries, one key: the first two rows lie above the causal diagonal."""
    ones = np.ones((3, 1, 1), dtype=np.float32)
    softmax_max, softmax_sum = softmax_lse(ones, ones[:1], ones[:, 0], [3], [1], layout="TND")
    assert softmax_max.tolist() == [[-math.inf, -math.inf, 1.0]]
    assert softmax_sum.tolist() == [[0.0, 0.0, 1.0]]


def test_packing_is_running_the_documents_one_by_one() -> None:
    q_ends, k_ends = [3, 3, 4, 9], [4, 6, 6, 12]
    query, key, weights = sample_packed(9, 12)
    packed = softmax_lse(query, key, weights, q_ends, k_ends, layout="TND")
    single = [
        softmax_lse(query[q0:q1], key[k0:k1], weights[q0:q1], [q1 - q0], [k1 - k0], layout="TND")
        for (q0, q1), (k0, k1) in zip(pairwise([0, *q_ends]), pairwise([0, *k_ends]), strict=True)
    ]
    for index, value in enumerate(packed):
        np.testing.assert_array_equal(value, np.concatenate([document[index] for document in single], axis=1))


def test_batch_is_packing_equal_documents() -> None:
    rng = np.random.default_rng(3)
    query, key, weights = sample(rng, "float32", "float32", (2, 3, N1, D), (2, 5, 1, D), (2, 3, N1))
    batched = softmax_lse(query, key, weights)
    packed = softmax_lse(
        query.reshape(6, N1, D), key.reshape(10, 1, D), weights.reshape(6, N1), [3, 6], [5, 10], layout="TND"
    )
    for value, other in zip(batched, packed, strict=True):
        np.testing.assert_array_equal(value.reshape(1, 6), other)


def test_order_of_heads_does_not_matter() -> None:
    query, key, weights = sample_packed(4, 6, "float64", "float64")
    order = np.random.default_rng(0).permutation(N1)
    plain = softmax_lse(query, key, weights, [4], [6], layout="TND")
    permuted = softmax_lse(query[:, order], key, weights[:, order], [4], [6], layout="TND")
    for value, other in zip(plain, permuted, strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-12)


def test_order_of_keys_that_every_row_sees_does_not_matter() -> None:
    query, key, weights = sample_packed(3, 8, "float64", "float64")
    order = [4, 2, 0, 5, 1, 3, 6, 7]  # row 0 of 3 sees keys 0..5
    plain = softmax_lse(query, key, weights, [3], [8], layout="TND")
    permuted = softmax_lse(query, key[order], weights, [3], [8], layout="TND")
    for value, other in zip(plain, permuted, strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-12)


def test_the_last_key_is_seen_by_the_last_row_only() -> None:
    query, key, weights = sample_packed(4, 6)
    plain = softmax_lse(query, key, weights, [4], [6], layout="TND")
    key[-1] = 100.0
    changed = softmax_lse(query, key, weights, [4], [6], layout="TND")
    for value, other in zip(plain, changed, strict=True):
        np.testing.assert_array_equal(value[:, :3], other[:, :3])
    assert plain[1][0, 3] != changed[1][0, 3]


def test_scaling_weights_scales_the_maximum() -> None:
    query, key, weights = sample_packed(4, 6, "float64", "float64")
    plain, _ = softmax_lse(query, key, weights, [4], [6], layout="TND")
    scaled, _ = softmax_lse(query, key, 4.0 * weights, [4], [6], layout="TND")
    np.testing.assert_array_equal(scaled, 4.0 * plain)


def test_large_scores_do_not_overflow() -> None:
    query, key, weights = sample_packed(4, 6, "float64", "float64")
    _, softmax_sum = softmax_lse(query, key, 1e6 * weights, [4], [6], layout="TND")
    assert np.all((softmax_sum >= 1.0) & (softmax_sum <= 6.0))


MISTAKES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "layout": ({"layout": "BNSD"}, ValueError, "layout should be 'BSND' or 'TND', but got 'BNSD'"),
    "rank": ({"layout": "BSND"}, ValueError, "should have 4 dims in layout 'BSND'"),
    "sparse mode": ({"sparse_mode": 0}, ValueError, "sparse_mode should be 3"),
    "window before": ({"pre_tokens": 5}, ValueError, "pre_tokens should be INT64_MAX"),
    "window after": ({"next_tokens": 0}, ValueError, "next_tokens should be INT64_MAX"),
    "no query lengths": ({"actual_seq_qlen": None}, ValueError, "actual_seq_qlen is missing"),
    "no key lengths": ({"actual_seq_klen": None}, ValueError, "actual_seq_klen is missing"),
    "too short": ({"actual_seq_qlen": [1, 3]}, ValueError, "actual_seq_qlen should end at the 4 tokens"),
    "no documents": ({"actual_seq_qlen": []}, ValueError, "actual_seq_qlen should end at the 4 tokens"),
    "decreasing": ({"actual_seq_klen": [7, 6]}, ValueError, "actual_seq_klen should not decrease"),
    "negative": ({"actual_seq_klen": [-1, 6]}, ValueError, "actual_seq_klen should not decrease or be negative"),
    "numbers of documents": ({"actual_seq_klen": [1, 2, 6]}, ValueError, "same number of documents.* 2 and 3"),
    "key heads": ({"key_index": np.zeros((6, 2, D))}, ValueError, "N2 .dim 1. of key_index should be 1"),
    "head size": ({"key_index": np.zeros((6, 1, D + 1))}, ValueError, "agree in batch and head size"),
    "weights": ({"weights": np.zeros((4, N1 + 1))}, ValueError, "weights should have query_index's shape"),
    "integers": ({"weights": np.zeros((4, N1), dtype=np.int32)}, TypeError, "weights should be .*, but is int32"),
}


@pytest.mark.parametrize(("change", "error", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_named(change: dict[str, Any], error: type[Exception], message: str) -> None:
    query, key, weights = sample_packed(4, 6)
    arguments = {
        "query_index": query,
        "key_index": key,
        "weights": weights,
        "actual_seq_qlen": [1, 4],
        "actual_seq_klen": [2, 6],
        "layout": "TND",
        "sparse_mode": 3,
        "pre_tokens": INT64_MAX,
        "next_tokens": INT64_MAX,
    }
    with pytest.raises(error, match=message):
        softmax_lse(**{**arguments, **change})


def test_lengths_in_bsnd_are_refused() -> None:
    query, key, weights = sample_packed(4, 6)
    with pytest.raises(ValueError, match="belong to layout 'TND'"):
        softmax_lse(query[np.newaxis], key[np.newaxis], weights[np.newaxis], actual_seq_qlen=[4])
