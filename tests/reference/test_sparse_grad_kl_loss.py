# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The sparse loss against loops, against differences, against the dense loss, and its laws."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hyper_parallel.reference import dense_lightning_indexer, samples
from hyper_parallel.reference.sparse_lightning_indexer import grad_kl_loss

from .finite_differences import assert_gradients
from .kl_cases import GRADIENTS, INDEX_TENSORS, PACKED, SCALE, TYPES, Tensors, draw, draw_packed, loss_by_loops


def select(tensors: Tensors, count: int = 3) -> Any:
    return samples.selected_positions(np.random.default_rng(5), tensors.query, tensors.key, count, **tensors.ends)


def arguments(tensors: Tensors, selection: Any) -> dict[str, Any]:
    return {
        **tensors.attention,
        **tensors.indexer,
        "sparse_indices": selection,
        **tensors.attention_statistics(selection),
        "scale_value": SCALE,
        **tensors.ends,
    }


def run(tensors: Tensors, selection: Any, **changes: Any) -> dict[str, Any]:
    outputs = grad_kl_loss(**{**arguments(tensors, selection), **changes})
    return dict(zip((*GRADIENTS, "loss"), outputs, strict=True))


def assert_equal(got: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        assert got[name].shape == value.shape
        np.testing.assert_allclose(got[name], value, rtol=1e-10, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("rope", [False, True])
@pytest.mark.parametrize("heads", [(4, 4), (4, 2)])
@pytest.mark.parametrize("ends", PACKED.values(), ids=PACKED.keys())
def test_tnd_equals_loops(ends: tuple[list[int], list[int]], heads: tuple[int, int], rope: bool) -> None:
    tensors = draw_packed(ends, heads=heads, rope=rope)
    selection = select(tensors)
    assert_equal(run(tensors, selection), loss_by_loops(tensors, selection))


@pytest.mark.parametrize("count", [1, 2, 9])
@pytest.mark.parametrize(("s1", "s2"), [(5, 5), (3, 7), (4, 2), (0, 3), (3, 0)])
@pytest.mark.parametrize("batch", [0, 1, 3])
def test_bsnd_equals_loops(batch: int, s1: int, s2: int, count: int) -> None:
    tensors = draw((batch, s1), (batch, s2), rope=True)
    selection = select(tensors, count)
    assert_equal(run(tensors, selection), loss_by_loops(tensors, selection))


def test_p_is_rebuilt_from_the_statistics_as_they_are() -> None:
    """Statistics of the attention over every key: p adds up to less than 1."""
    tensors = draw((2, 3), (2, 7))
    selection = select(tensors)
    got = run(tensors, selection, **tensors.attention_statistics())
    assert_equal(got, loss_by_loops(tensors, selection, normalised_over_selection=False))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_outputs_have_the_types_of_their_inputs(dtype: str) -> None:
    tensors = draw_packed(([3, 4, 9], [5, 6, 12]), dtype=dtype, weights_dtype="float32")
    selection = select(tensors)
    got, expected = run(tensors, selection), loss_by_loops(tensors, selection)
    assert [value.dtype for value in got.values()] == [TYPES[dtype], TYPES[dtype], np.float32, np.float32]
    for name, value in got.items():
        rounding = 2e-6 if value.dtype == np.float32 else {"bfloat16": 2.0**-8, "float16": 2.0**-11}[dtype] * 1.01
        np.testing.assert_allclose(value.astype(np.float64), expected[name], rtol=rounding, atol=2e-6)


@pytest.mark.parametrize(
    "tensors", [draw((2, 3), (2, 5), heads=(4, 2), rope=True), draw_packed(([2, 2, 5], [3, 3, 7]))], ids=["BSND", "TND"]
)
def test_gradients_are_those_of_the_loss(tensors: Tensors) -> None:
    selection = select(tensors)

    def loss(**indexer: Any) -> float:
        return float(run(replace(tensors, **indexer), selection)["loss"][0])

    got = run(tensors, selection)
    gradients = dict(zip(INDEX_TENSORS, (got[name] for name in GRADIENTS), strict=True))
    assert_gradients(loss, tensors.indexer, gradients)


def test_worked_out_by_hand() -> None:
    """One row, three keys, the first and the last selected: the dense loss of two keys."""
    query, key = np.ones((1, 1, 1)), np.array([0.0, 50.0, math.log(3)]).reshape(3, 1, 1)
    key_index = np.array([1.0, 70.0, 2.0]).reshape(3, 1, 1)
    ends = {"actual_seq_qlen": [1], "actual_seq_klen": [3], "layout": "TND"}
    selection = np.array([[[2, -1, 0]]], dtype=np.int32)
    # p = 1/4, 3/4: maximum ln 3, sum 1 + 1/3.   s = softmax(ln 2 * (1, 2)) = 1/3, 2/3.
    maximum, total = np.full((1, 1, 1), math.log(3)), np.full((1, 1, 1), 4 / 3)
    weights = np.full((1, 1), math.log(2))
    d_query, d_key, d_weights, loss = grad_kl_loss(
        query, key, query, key_index, weights, selection, maximum, total, 1.0, **ends
    )
    twelfth = math.log(2) / 12
    np.testing.assert_allclose(loss, [0.0164167587], rtol=1e-8)  # 1/4 ln(3/4) + 3/4 ln(9/8)
    np.testing.assert_allclose(d_weights, [[-1 / 12]])
    np.testing.assert_allclose(d_query.ravel(), [-twelfth])
    np.testing.assert_allclose(d_key.ravel(), [twelfth, 0.0, -twelfth])


@pytest.mark.parametrize("ends", PACKED.values(), ids=PACKED.keys())
def test_selecting_every_key_is_the_dense_loss(ends: tuple[list[int], list[int]]) -> None:
    tensors = draw_packed(ends)
    selection = np.full((ends[0][-1], 1, 16), -1, dtype=np.int32)
    for rows, columns in tensors.documents():
        q_length, k_length = rows.stop - rows.start, columns.stop - columns.start
        for i in range(q_length):
            seen = max(0, k_length - q_length + i + 1)
            selection[rows.start + i, 0, :seen] = np.arange(seen)
    index = samples.index_statistics(**tensors.indexer, **tensors.ends)
    dense = dense_lightning_indexer.grad_kl_loss(
        tensors.query,
        tensors.key,
        *tensors.indexer.values(),
        *tensors.attention_statistics().values(),
        *index,
        SCALE,
        **tensors.ends,
    )
    assert_equal(run(tensors, selection), dict(zip((*GRADIENTS, "loss"), dense, strict=True)))


def test_order_of_positions_does_not_matter() -> None:
    tensors = draw((2, 3), (2, 7))
    selection = select(tensors, 4)
    assert_equal(run(tensors, selection[..., [2, 0, 3, 1]]), run(tensors, selection))


def test_keys_that_no_row_selects_do_not_matter() -> None:
    tensors = draw((1, 2), (1, 5))
    selection = np.array([[[[0, 2]], [[2, -1]]]], dtype=np.int32)
    whole = run(tensors, selection)
    key, key_index = tensors.key.copy(), tensors.key_index.copy()
    key[:, [1, 3, 4]] = key_index[:, [1, 3, 4]] = 1e3
    got = run(replace(tensors, key=key, key_index=key_index), selection)
    assert_equal(got, whole)
    assert not got["d_key_index"][:, [1, 3, 4]].any()


def test_rows_that_select_nothing_add_nothing() -> None:
    tensors = draw((1, 2), (1, 5))
    outputs = run(tensors, np.full((1, 2, 1, 3), -1, dtype=np.int32))
    assert not any(value.any() for value in outputs.values())


POSITIONS = np.array([[0], [0], [1], [1]], dtype=np.int32)[:, np.newaxis]  # documents of [1, 3] rows and [2, 4] keys


def with_position(row: int, *positions: int) -> Any:
    changed = np.concatenate([POSITIONS, np.full_like(POSITIONS, -1)], axis=-1)
    changed[row, 0, : len(positions)] = positions
    return changed


MISTAKES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "layout": ({"layout": "BNSD"}, ValueError, "layout should be 'BSND' or 'TND'"),
    "sparse mode": ({"sparse_mode": 0}, ValueError, "sparse_mode should be 3"),
    "window": ({"pre_tokens": 5}, ValueError, "pre_tokens should be INT64_MAX"),
    "type": ({"sparse_indices": POSITIONS.astype(np.int64)}, TypeError, "sparse_indices should be int32, but is int64"),
    "rows": ({"sparse_indices": POSITIONS[:3]}, ValueError, "T1 .dim 0. of sparse_indices should be 4"),
    "heads": ({"sparse_indices": POSITIONS.repeat(2, 1)}, ValueError, "dim 1 of sparse_indices should be 1"),
    "later key": ({"sparse_indices": with_position(1, 2)}, ValueError, "row 0 of a document .* 4 key rows holds 2"),
    "next document": ({"sparse_indices": with_position(0, 2)}, ValueError, "row 0 of a document .* 2 key rows holds 2"),
    "negative": ({"sparse_indices": with_position(3, -2)}, ValueError, "row 2 of a document .* holds -2"),
    "twice": ({"sparse_indices": with_position(3, 1, 1)}, ValueError, "once per row, but row 2 .* holds 1 2 times"),
}


@pytest.mark.parametrize(("change", "error", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_named(change: dict[str, Any], error: type[Exception], message: str) -> None:
    good = arguments(draw_packed(([1, 4], [2, 6])), POSITIONS)
    with pytest.raises(error, match=message):
        grad_kl_loss(**{**good, **change})
