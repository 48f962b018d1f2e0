# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The inputs that are not free: statistics against loops, positions against what is promised of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hyper_parallel.reference import samples
from hyper_parallel.reference.dense_lightning_indexer import softmax_lse

from .kl_cases import PACKED, SCALE, TYPES, Tensors, dot, draw, draw_packed, packed_lists

BATCHES = [((2, 3), (2, 5)), ((3, 4), (3, 2)), ((0, 3), (0, 3)), ((2, 0), (2, 3)), ((2, 3), (2, 0))]


def statistics_by_loops(tensors: Tensors, selection: Any = None) -> tuple[Any, Any]:
    """Row maxima and sums ``[N1, T1]``."""
    query, key = packed_lists(tensors.query, 2), packed_lists(tensors.key, 2)
    heads, key_heads = tensors.query.shape[-2], tensors.key.shape[-2]
    chosen = None if selection is None else packed_lists(selection[..., 0, :], 1)
    if tensors.query_rope is not None:
        query_rope, key_rope = packed_lists(tensors.query_rope, 2), packed_lists(tensors.key_rope, 2)
    maxima, sums = np.full((heads, len(query)), -np.inf), np.zeros((heads, len(query)))
    for rows, columns in tensors.documents():
        q_length, k_length = rows.stop - rows.start, columns.stop - columns.start
        for i in range(q_length):
            t = rows.start + i
            keys = [j for j in range(k_length) if j <= k_length - q_length + i]
            if chosen is not None:
                keys = [int(j) for j in chosen[t] if j != -1]
            for n in range(heads):
                m = n // (heads // key_heads)
                scores = []
                for j in keys:
                    score = dot(query[t][n], key[columns.start + j][m])
                    if tensors.query_rope is not None:
                        score += dot(query_rope[t][n], key_rope[columns.start + j][m])
                    scores.append(score * SCALE)
                maxima[n, t] = max(scores, default=-math.inf)
                sums[n, t] = sum(math.exp(score - maxima[n, t]) for score in scores)
    return maxima, sums


def by_query_head(statistics: Any, packed: bool) -> Any:
    """``[N1, T1]`` from ``[B, N2, S1, G]`` or ``[N2, T1, G]``, one number at a time."""
    per_batch = [statistics] if packed else list(statistics)
    key_heads, group = statistics.shape[-3], statistics.shape[-1]
    return np.array(
        [
            [row[n // group, i, n % group] for row in per_batch for i in range(row.shape[1])]
            for n in range(key_heads * group)
        ],
        dtype=np.float64,
    )


def assert_statistics(tensors: Tensors, selection: Any = None) -> None:
    got = tensors.attention_statistics(selection).values()
    for value, expected in zip(got, statistics_by_loops(tensors, selection), strict=True):
        assert value.dtype == np.float64
        np.testing.assert_allclose(by_query_head(value, bool(tensors.ends)), expected, rtol=1e-12)


@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (4, 1)])
@pytest.mark.parametrize("ends", PACKED.values(), ids=PACKED.keys())
def test_attention_statistics_of_documents_equal_loops(
    ends: tuple[list[int], list[int]], heads: tuple[int, int]
) -> None:
    assert_statistics(draw_packed(ends, heads=heads))


@pytest.mark.parametrize("heads", [(4, 4), (4, 2)])
@pytest.mark.parametrize(("query_shape", "key_shape"), BATCHES)
def test_attention_statistics_of_batches_equal_loops(
    query_shape: tuple[int, ...], key_shape: tuple[int, ...], heads: tuple[int, int]
) -> None:
    tensors = draw(query_shape, key_shape, heads=heads, rope=True)
    assert_statistics(tensors)
    selection = samples.selected_positions(np.random.default_rng(0), tensors.query, tensors.key, 2)
    assert_statistics(tensors, selection)


def test_shapes_and_types_of_the_statistics() -> None:
    grouped = draw((2, 3), (2, 5), heads=(4, 2), dtype="bfloat16")
    assert [(v.shape, v.dtype) for v in grouped.attention_statistics().values()] == [((2, 2, 3, 2), np.float32)] * 2
    packed = draw_packed(([3, 4], [5, 6]), heads=(4, 2), dtype="float32")
    assert [(v.shape, v.dtype) for v in packed.attention_statistics().values()] == [((2, 4, 2), np.float32)] * 2


@pytest.mark.parametrize("dtype", TYPES)
def test_index_statistics_are_the_operator_s(dtype: str) -> None:
    tensors = draw_packed(([3, 4], [5, 6]), dtype=dtype)
    got = samples.index_statistics(**tensors.indexer, **tensors.ends)
    for value, expected in zip(got, softmax_lse(**tensors.indexer, **tensors.ends), strict=True):
        np.testing.assert_array_equal(value, expected)


def assert_positions(tensors: Tensors, positions: Any, count: int) -> None:
    assert positions.dtype == np.int32
    assert positions.shape == (*tensors.query.shape[:-2], 1, count)
    by_row = positions.reshape(math.prod(positions.shape[:-2]), count).tolist()
    for rows, columns in tensors.documents():
        q_length, k_length = rows.stop - rows.start, columns.stop - columns.start
        for i, row in enumerate(by_row[rows]):
            used = [position for position in row if position != -1]
            assert row == used + [-1] * (count - len(used))
            assert len(set(used)) == len(used)
            seen = max(0, k_length - q_length + i + 1)
            assert all(0 <= position < seen for position in used)
            assert len(used) >= min(1, seen)


@pytest.mark.parametrize("count", [1, 3, 20])
@pytest.mark.parametrize("ends", PACKED.values(), ids=PACKED.keys())
def test_positions_of_documents(ends: tuple[list[int], list[int]], count: int) -> None:
    tensors = draw_packed(ends)
    positions = samples.selected_positions(np.random.default_rng(1), tensors.query, tensors.key, count, **tensors.ends)
    assert_positions(tensors, positions, count)


@pytest.mark.parametrize(("query_shape", "key_shape"), BATCHES)
def test_positions_of_batches(query_shape: tuple[int, ...], key_shape: tuple[int, ...]) -> None:
    tensors = draw(query_shape, key_shape)
    assert_positions(tensors, samples.selected_positions(np.random.default_rng(1), tensors.query, tensors.key, 3), 3)


def test_some_rows_are_full_and_some_are_not() -> None:
    tensors = draw((2, 8), (2, 20))
    positions = samples.selected_positions(np.random.default_rng(1), tensors.query, tensors.key, 6)
    used = (positions != -1).sum(axis=-1)
    assert used.max() == 6
    assert used.min() < 6


def test_the_generator_decides() -> None:
    tensors = draw((2, 8), (2, 20))
    first, again, other = (
        samples.selected_positions(np.random.default_rng(seed), tensors.query, tensors.key, 6) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_mistakes_are_named() -> None:
    tensors, rng = draw((2, 3), (2, 5)), np.random.default_rng(0)
    with pytest.raises(ValueError, match="layout should be 'BSND' or 'TND'"):
        samples.selected_positions(rng, tensors.query, tensors.key, 2, layout="BNSD")
    with pytest.raises(ValueError, match="actual_seq_qlen is missing"):
        samples.selected_positions(rng, tensors.query[0], tensors.key[0], 2, layout="TND")
    with pytest.raises(ValueError, match="key_rope is missing"):
        samples.attention_statistics(tensors.query, tensors.key, SCALE, query_rope=tensors.query)
    with pytest.raises(TypeError, match="sparse_indices should be int32, but is int64"):
        tensors.attention_statistics(np.zeros((2, 3, 1, 1), dtype=np.int64))
    with pytest.raises(ValueError, match=r"S1 .* of sparse_indices should be 3"):
        tensors.attention_statistics(np.zeros((2, 4, 1, 1), dtype=np.int32))
