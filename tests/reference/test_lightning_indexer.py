# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The choice of keys against loops, against values worked out by hand, and its laws."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from hyper_parallel.reference.lightning_indexer import top_k

from .kl_cases import PACKED, TYPES, packed_lists

N1, D = 4, 6


def draw(query_shape: tuple[int, ...], key_shape: tuple[int, ...], dtype: str = "float64") -> list[Any]:
    rng = np.random.default_rng([*query_shape, *key_shape])
    shapes = [(*query_shape, N1, D), (*key_shape, 1, D), (*query_shape, N1)]
    return [rng.standard_normal(shape).astype(TYPES[dtype]) for shape in shapes]


def by_loops(query: Any, key: Any, weights: Any, count: int, causal: bool) -> list[list[tuple[int, float]]]:
    """Index and value of the chosen keys of each row of one document, found one by one: the best that is left."""
    chosen = []
    for i in range(len(query)):
        left = {}
        for j in range(len(key)):
            if causal and j > len(key) - len(query) + i:
                continue
            score = 0.0
            for n in range(len(query[i])):
                product = sum(q * k for q, k in zip(query[i][n], key[j], strict=True))
                score += weights[i][n] * max(product, 0.0)
            left[j] = score
        row = []
        for _ in range(count):
            if not left:
                row.append((-1, -np.inf))
                continue
            best = min(left, key=lambda j: (-left[j], j))
            row.append((best, left.pop(best)))
        chosen.append(row)
    return chosen


def documents_by_loops(tensors: list[Any], starts: Any, count: int, causal: bool) -> tuple[Any, Any]:
    """The same of every document: ``[T1, 1, K]``. ``starts``: cumulative lengths of the query and of the key."""
    query, key = packed_lists(tensors[0], 2), packed_lists(tensors[1][..., 0, :], 1)
    weights, rows = packed_lists(tensors[2], 1), []
    for (q0, q1), (k0, k1) in zip(pairwise(starts[0]), pairwise(starts[1]), strict=True):
        rows += by_loops(query[q0:q1], key[k0:k1], weights[q0:q1], count, causal)
    pairs = np.array(rows, dtype=np.float64).reshape(len(rows), 1, count, 2)
    return pairs[..., 0].astype(np.int32), pairs[..., 1]


@pytest.mark.parametrize("count", [1, 3, 20])
@pytest.mark.parametrize("sparse_mode", [0, 3])
@pytest.mark.parametrize("ends", PACKED.values(), ids=PACKED.keys())
def test_tnd_equals_loops(ends: tuple[list[int], list[int]], sparse_mode: int, count: int) -> None:
    tensors = draw((ends[0][-1],), (ends[1][-1],))
    starts = [np.array([0, *lengths], dtype=np.int32) for lengths in ends]
    got = top_k(*tensors, count, *starts, layout="TND", sparse_mode=sparse_mode, return_value=True)
    indices, values = documents_by_loops(tensors, starts, count, sparse_mode == 3)
    assert got[0].dtype == np.int32
    np.testing.assert_array_equal(got[0], indices)
    np.testing.assert_allclose(got[1], values, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("sparse_mode", [0, 3])
@pytest.mark.parametrize(("s1", "s2"), [(5, 5), (3, 8), (6, 2), (0, 4), (4, 0)])
@pytest.mark.parametrize("batch", [0, 1, 3])
def test_bsnd_equals_loops(batch: int, s1: int, s2: int, sparse_mode: int) -> None:
    tensors = draw((batch, s1), (batch, s2))
    indices, values = top_k(*tensors, 3, sparse_mode=sparse_mode)
    starts = [[row * length for row in range(batch + 1)] for length in (s1, s2)]
    expected = documents_by_loops(tensors, starts, 3, sparse_mode == 3)
    assert indices.shape == values.shape == (batch, s1, 1, 3)
    np.testing.assert_array_equal(indices, expected[0].reshape(indices.shape))
    np.testing.assert_allclose(values, expected[1].reshape(values.shape), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_values_are_float32(dtype: str) -> None:
    tensors = draw((9,), (12,), dtype)
    starts = [0, 3, 9], [0, 5, 12]
    indices, values = top_k(*tensors, 4, *starts, layout="TND")
    expected = documents_by_loops(tensors, starts, 4, causal=False)
    assert (indices.dtype, values.dtype) == (np.int32, np.float32)
    np.testing.assert_array_equal(indices, expected[0])
    np.testing.assert_allclose(values, expected[1], rtol=1e-6, atol=1e-6)


def scalars(*values: float) -> Any:
    """One head, one dim: [1, rows, 1, 1]."""
    return np.array(values, dtype=np.float32).reshape(1, -1, 1, 1)


def test_worked_out_by_hand() -> None:
    query, key, weights = scalars(1, -1), scalars(2, 5, -3, 2), np.array([[[1.0, 2.0]]], dtype=np.float32)
    weights = weights.reshape(1, 2, 1)
    # Row 0: res = relu(k) = 2, 5, 0, 2.   Row 1: res = 2 * relu(-k) = 0, 0, 6, 0.
    indices, values = top_k(query, key, weights, 3)
    assert indices.tolist() == [[[[1, 0, 3]], [[2, 0, 1]]]]
    assert values.tolist() == [[[[5.0, 2.0, 2.0]], [[6.0, 0.0, 0.0]]]]
    # Causal: row 0 of 2 sees the keys 0..2 of 4, row 1 all.
    indices, values = top_k(query, key, weights, 4, sparse_mode=3)
    assert indices.tolist() == [[[[1, 0, 2, -1]], [[2, 0, 1, 3]]]]
    assert values.tolist() == [[[[5.0, 2.0, 0.0, -np.inf]], [[6.0, 0.0, 0.0, 0.0]]]]


def test_negative_scores_come_before_unused_places() -> None:
    indices, values = top_k(scalars(1), scalars(3, 1), np.full((1, 1, 1), -1.0, dtype=np.float32), 3)
    assert indices.ravel().tolist() == [1, 0, -1]
    assert values.ravel().tolist() == [-1.0, -3.0, -np.inf]


def test_scores_that_are_equal_as_returned_are_ties() -> None:
    """The first differs from the second by less than float32 can hold."""
    key = np.array([1.0, 1.0 + 2.0**-30]).reshape(1, 2, 1, 1)
    query, weights = np.ones((1, 1, 1, 1), dtype=np.float32), np.ones((1, 1, 1), dtype=np.float32)
    assert top_k(query, key, weights, 2)[0].ravel().tolist() == [0, 1]
    assert top_k(query.astype(np.float64), key, weights, 2)[0].ravel().tolist() == [1, 0]


def test_equal_keys_come_in_their_order() -> None:
    query, key, weights = draw((4,), (3,), "float32")
    key = np.tile(key, (5, 1, 1))  # keys j, j + 3, j + 6, ... are one
    indices, _ = top_k(query, key, np.abs(weights), 15, [0, 4], [0, 15], layout="TND")
    for row in indices[:, 0]:
        for kind in range(3):
            same = [index for index in row if index % 3 == kind]
            assert same == sorted(same)


def test_order_of_keys_moves_the_indices() -> None:
    query, key, weights = draw((4,), (8,))
    order = np.random.default_rng(0).permutation(8)
    indices, values = top_k(query, key, weights, 2, [0, 4], [0, 8], layout="TND")
    moved, same = top_k(query, key[order], weights, 2, [0, 4], [0, 8], layout="TND")
    used = values > 0  # zeros tie, and ties go by index
    assert used.any()
    np.testing.assert_array_equal(order[moved][used], indices[used])
    np.testing.assert_allclose(same, values, atol=1e-12)


def test_order_of_heads_does_not_matter() -> None:
    query, key, weights = draw((2, 3), (2, 8))
    order = [2, 0, 3, 1]
    plain = top_k(query, key, weights, 3, sparse_mode=3)
    permuted = top_k(query[:, :, order], key, weights[:, :, order], 3, sparse_mode=3)
    np.testing.assert_array_equal(plain[0], permuted[0])
    np.testing.assert_allclose(plain[1], permuted[1], rtol=1e-12)


def test_indices_are_positions_in_the_own_document() -> None:
    query, key, weights = draw((4,), (6,))
    packed = top_k(query, key, weights, 2, [0, 1, 4], [0, 2, 6], layout="TND", sparse_mode=3)
    alone = top_k(query[1:], key[2:], weights[1:], 2, [0, 3], [0, 4], layout="TND", sparse_mode=3)
    np.testing.assert_array_equal(packed[0][1:], alone[0])


def test_values_are_there_in_either_case() -> None:
    tensors = draw((2, 3), (2, 5), "float32")
    for left, right in zip(top_k(*tensors, 2, return_value=False), top_k(*tensors, 2, return_value=True), strict=True):
        np.testing.assert_array_equal(left, right)


MISTAKES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "layout": ({"layout": "BNSD"}, ValueError, "layout should be 'BSND' or 'TND', but got 'BNSD'"),
    "rank": ({"layout": "BSND"}, ValueError, "query should have the 4 dims 'B S1 N1 D'"),
    "sparse mode": ({"sparse_mode": 1}, ValueError, "sparse_mode should be 0 .* or 3 .*, but got 1"),
    "count": ({"sparse_count": 0}, ValueError, "sparse_count should be at least 1, but got 0"),
    "ratio": ({"cmp_ratio": 4}, ValueError, "cmp_ratio should be 1 .*, but got 4"),
    "residual": ({"cmp_residual_k": np.zeros(2)}, ValueError, "cmp_residual_k should be None, but is an array"),
    "paged": ({"block_table": np.zeros((2, 3))}, ValueError, r"block_table should be None, but .* shape \(2, 3\)"),
    "no lengths": ({"cu_seq_lens_q": None}, ValueError, "cu_seq_lens_q is missing"),
    "no leading zero": ({"cu_seq_lens_k": [2, 6]}, ValueError, "cu_seq_lens_k should begin with 0, .* got .2, 6."),
    "no lengths at all": ({"cu_seq_lens_k": []}, ValueError, "cu_seq_lens_k should begin with 0"),
    "too short": ({"cu_seq_lens_q": [0, 3]}, ValueError, "cu_seq_lens_q should end at the 4 tokens"),
    "decreasing": ({"cu_seq_lens_k": [0, 7, 6]}, ValueError, "cu_seq_lens_k should not decrease"),
    "documents": ({"cu_seq_lens_k": [0, 6]}, ValueError, "cu_seq_lens_q and cu_seq_lens_k .* have 2 and 1"),
    "key heads": ({"key": np.zeros((6, 2, D))}, ValueError, "dim 1 of key should be 1"),
    "head size": ({"key": np.zeros((6, 1, D + 1))}, ValueError, "D .dim 2. of key should be 6"),
    "weights": ({"weights": np.zeros((4, N1 + 1))}, ValueError, "N1 .dim 1. of weights should be 4"),
    "integers": ({"weights": np.zeros((4, N1), dtype=np.int32)}, TypeError, "weights should be .*, but is int32"),
}


@pytest.mark.parametrize(("change", "error", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_named(change: dict[str, Any], error: type[Exception], message: str) -> None:
    query, key, weights = draw((4,), (6,))
    good = {"query": query, "key": key, "weights": weights, "sparse_count": 2, "layout": "TND"}
    lengths = {"cu_seq_lens_q": [0, 1, 4], "cu_seq_lens_k": [0, 2, 6]}
    with pytest.raises(error, match=message):
        top_k(**{**good, **lengths, **change})


def test_lengths_in_bsnd_are_refused() -> None:
    with pytest.raises(ValueError, match="cu_seq_lens_q and cu_seq_lens_k belong to layout 'TND'"):
        top_k(*draw((2, 3), (2, 5)), 2, cu_seq_lens_q=[0, 3, 6])
