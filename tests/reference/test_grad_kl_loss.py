# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The dense loss against loops, against differences, against values worked out by hand, and its laws."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hyper_parallel.reference import samples
from hyper_parallel.reference.dense_lightning_indexer import grad_kl_loss

from .finite_differences import assert_gradients
from .kl_cases import GRADIENTS, INDEX_TENSORS, PACKED, SCALE, TYPES, Tensors, draw, draw_packed, loss_by_loops


def arguments(tensors: Tensors) -> dict[str, Any]:
    index = samples.index_statistics(**tensors.indexer, **tensors.ends)
    return {
        **tensors.attention,
        **tensors.indexer,
        **tensors.attention_statistics(),
        **dict(zip(("softmax_max_index", "softmax_sum_index"), index, strict=True)),
        "scale_value": SCALE,
        **tensors.ends,
    }


def run(tensors: Tensors) -> dict[str, Any]:
    return dict(zip((*GRADIENTS, "loss"), grad_kl_loss(**arguments(tensors)), strict=True))


def assert_equal(got: dict[str, Any], expected: dict[str, Any], tolerance: float = 1e-10) -> None:
    for name, value in expected.items():
        assert got[name].shape == value.shape
        np.testing.assert_allclose(got[name].astype(np.float64), value, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (4, 1)])
@pytest.mark.parametrize("rope", [False, True])
@pytest.mark.parametrize("ends", PACKED.values(), ids=PACKED.keys())
def test_tnd_equals_loops(ends: tuple[list[int], list[int]], rope: bool, heads: tuple[int, int]) -> None:
    tensors = draw_packed(ends, heads=heads, rope=rope)
    assert_equal(run(tensors), loss_by_loops(tensors))


@pytest.mark.parametrize("heads", [(4, 4), (4, 2)])
@pytest.mark.parametrize(("s1", "s2"), [(5, 5), (3, 7), (4, 2), (0, 3), (3, 0)])
@pytest.mark.parametrize("batch", [0, 1, 3])
def test_bsnd_equals_loops(batch: int, s1: int, s2: int, heads: tuple[int, int]) -> None:
    tensors = draw((batch, s1), (batch, s2), heads=heads, rope=True)
    assert_equal(run(tensors), loss_by_loops(tensors))


@pytest.mark.parametrize("weights_dtype", [None, "float32"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_outputs_have_the_types_of_their_inputs(dtype: str, weights_dtype: str | None) -> None:
    tensors = draw_packed(([3, 4, 9], [5, 6, 12]), rope=True, dtype=dtype, weights_dtype=weights_dtype)
    got, expected = run(tensors), loss_by_loops(tensors)
    types = [TYPES[dtype], TYPES[dtype], TYPES[weights_dtype or dtype], np.float32]
    assert [value.dtype for value in got.values()] == types
    for name, value in got.items():
        rounding = 2e-6 if value.dtype == np.float32 else {"bfloat16": 2.0**-8, "float16": 2.0**-11}[dtype] * 1.01
        np.testing.assert_allclose(value.astype(np.float64), expected[name], rtol=rounding, atol=2e-6)


@pytest.mark.parametrize(
    "tensors",
    [
        draw((2, 3), (2, 5), heads=(4, 2), rope=True),
        draw_packed(([2, 2, 5], [3, 3, 7])),
        draw_packed(([4, 6], [2, 5])),
    ],
    ids=["BSND", "TND", "rows that see no key"],
)
def test_gradients_are_those_of_the_loss(tensors: Tensors) -> None:
    """With p held fixed; the index statistics follow the tensors that are varied."""

    def loss(**indexer: Any) -> float:
        return float(run(replace(tensors, **indexer))["loss"][0])

    got = run(tensors)
    gradients = dict(zip(INDEX_TENSORS, (got[name] for name in GRADIENTS), strict=True))
    assert_gradients(loss, tensors.indexer, gradients)


def column(*values: float) -> Any:
    """One head, one dim: [rows, 1, 1]."""
    return np.array(values, dtype=np.float64).reshape(-1, 1, 1)


def one_row(query: float, key: Any, weights: float, key_index: Any) -> dict[str, Any]:
    """A row with two keys, one head and one dim everywhere, scale 1."""
    tensors = [column(query), column(*key), column(1.0), column(*key_index), column(weights)[:, 0]]
    ends = {"actual_seq_qlen": [1], "actual_seq_klen": [2], "layout": "TND"}
    main = samples.attention_statistics(*tensors[:2], 1.0, **ends)
    index = samples.index_statistics(*tensors[2:], **ends)
    outputs = grad_kl_loss(*tensors, *main, *index, 1.0, **ends)
    return {name: value.ravel() for name, value in zip((*GRADIENTS, "loss"), outputs, strict=True)}


def test_worked_out_by_hand() -> None:
    got = one_row(1.0, (0.0, math.log(3)), math.log(2), (1.0, 2.0))
    # Main scores 0, ln 3: p = 1/4, 3/4.   Index scores ln 2 * (1, 2): s = 1/3, 2/3.
    # loss = 1/4 ln(3/4) + 3/4 ln(9/8) = -0.0719205181 + 0.0883372768
    # d_res = s - p = 1/12, -1/12          d_weights = 1/12 * 1 - 1/12 * 2
    # dS = d_res * ln 2                    d_query = dS . (1, 2),   d_key = dS * 1
    twelfth = math.log(2) / 12
    np.testing.assert_allclose(got["loss"], [0.0164167587], rtol=1e-8)
    np.testing.assert_allclose(got["d_weights"], [-1 / 12])
    np.testing.assert_allclose(got["d_query_index"], [-twelfth])
    np.testing.assert_allclose(got["d_key_index"], [twelfth, -twelfth])


def test_logarithms_are_clipped() -> None:
    got = one_row(0.0, (1.0, 1.0), 100.0, (0.0, 1.0))
    # p = 1/2, 1/2; s = e^-100, 1: the first logarithm stops at ln 1e-8 = -18.420680744
    np.testing.assert_allclose(got["loss"], [math.log(0.5) + 0.5 * 18.420680744], rtol=1e-9)
    np.testing.assert_allclose(got["d_weights"], [0.5])


def test_an_indexer_equal_to_the_attention_has_no_loss() -> None:
    """One head, positive products, weight = scale: the two softmaxes are one."""
    rng = np.random.default_rng(1)
    query, key = rng.uniform(0.1, 1.0, (5, 1, 3)), rng.uniform(0.1, 1.0, (7, 1, 3))
    ends = {"layout": "TND", "actual_seq_qlen": [5], "actual_seq_klen": [7]}
    outputs = run(Tensors(query, key, query, key, np.full((5, 1), SCALE), ends=ends))
    for value in outputs.values():
        np.testing.assert_allclose(value, 0.0, atol=1e-14)


def test_loss_adds_up_over_documents() -> None:
    q_ends, k_ends = [3, 3, 4, 9], [4, 6, 6, 12]
    tensors = draw_packed((q_ends, k_ends), rope=True)
    whole = run(tensors)
    parts = []
    for rows, columns in tensors.documents():
        of_keys = {name: getattr(tensors, name)[columns] for name in ("key", "key_index", "key_rope")}
        of_rows = {name: getattr(tensors, name)[rows] for name in ("query", "query_index", "weights", "query_rope")}
        lengths = {"actual_seq_qlen": [rows.stop - rows.start], "actual_seq_klen": [columns.stop - columns.start]}
        parts.append(run(Tensors(**of_keys, **of_rows, ends={"layout": "TND", **lengths})))
    for name in GRADIENTS:
        np.testing.assert_array_equal(whole[name], np.concatenate([part[name] for part in parts]))
    np.testing.assert_allclose(whole["loss"], sum(part["loss"] for part in parts), rtol=1e-12)


def test_blocks_of_rows_with_their_windows_add_up() -> None:
    """Rows [0, 2) and [2, 5) of a document, each with the keys that its last row sees."""
    tensors = draw((1, 5), (1, 7), heads=(4, 2))
    whole = run(tensors)
    d_key, loss = np.zeros_like(whole["d_key_index"]), 0.0
    for rows, window in ((slice(0, 2), 4), (slice(2, 5), 7)):
        of_keys = {name: getattr(tensors, name)[:, :window] for name in ("key", "key_index")}
        of_rows = {name: getattr(tensors, name)[:, rows] for name in ("query", "query_index", "weights")}
        block = run(Tensors(**of_keys, **of_rows))
        np.testing.assert_allclose(block["d_query_index"], whole["d_query_index"][:, rows], atol=1e-12)
        np.testing.assert_allclose(block["d_weights"], whole["d_weights"][:, rows], atol=1e-12)
        d_key[:, :window] += block["d_key_index"]
        loss += block["loss"]
    np.testing.assert_allclose(d_key, whole["d_key_index"], atol=1e-12)
    np.testing.assert_allclose(loss, whole["loss"], rtol=1e-12)


def test_order_of_heads_does_not_matter() -> None:
    tensors = draw((2, 3), (2, 5), rope=True)
    whole = run(tensors)
    order, index_order = [2, 0, 3, 1], [1, 0]
    permuted = run(
        replace(
            tensors,
            **{name: value[:, :, order] for name, value in tensors.attention.items()},
            query_index=tensors.query_index[:, :, index_order],
            weights=tensors.weights[:, :, index_order],
        )
    )
    expected = whole | {name: whole[name][:, :, index_order] for name in ("d_query_index", "d_weights")}
    assert_equal(permuted, expected)


def test_grouped_heads_are_repeated_keys() -> None:
    grouped = draw((2, 3), (2, 5), heads=(4, 2))
    plain = replace(grouped, key=np.repeat(grouped.key, 2, axis=2))
    assert_equal(run(plain), run(grouped))


def test_rope_is_more_head_size() -> None:
    split = draw((2, 3), (2, 5), rope=True)
    query = np.concatenate([split.query, split.query_rope], axis=-1)
    key = np.concatenate([split.key, split.key_rope], axis=-1)
    assert_equal(run(replace(split, query=query, key=key, query_rope=None, key_rope=None)), run(split))


def test_large_scores_do_not_overflow() -> None:
    tensors = draw((2, 3), (2, 5))
    outputs = run(replace(tensors, query=tensors.query * 1e4, weights=tensors.weights * 1e4))
    assert all(np.all(np.isfinite(value)) for value in outputs.values())


MISTAKES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "layout": ({"layout": "SBND"}, ValueError, "layout should be 'BSND' or 'TND', but got 'SBND'"),
    "rank": ({"layout": "BSND"}, ValueError, "query should have the 4 dims 'B S1 N1 D', but has shape"),
    "sparse mode": ({"sparse_mode": 0}, ValueError, "sparse_mode should be 3"),
    "window before": ({"pre_tokens": 5}, ValueError, "pre_tokens should be INT64_MAX"),
    "window after": ({"next_tokens": 0}, ValueError, "next_tokens should be INT64_MAX"),
    "no lengths": ({"actual_seq_qlen": None}, ValueError, "actual_seq_qlen is missing"),
    "too short": ({"actual_seq_klen": [1, 3]}, ValueError, "actual_seq_klen should end at the 6 tokens"),
    "lone rope": ({"query_rope": np.zeros((4, 4, 2))}, ValueError, "go together, but key_rope is missing"),
    "other lone rope": ({"key_rope": np.zeros((6, 2, 2))}, ValueError, "go together, but query_rope is missing"),
    "heads": ({"key": np.zeros((6, 3, 3))}, ValueError, "N1 .* should be a multiple of N2 .*N1 is 4 and N2 is 3"),
    "no heads": ({"key": np.zeros((6, 0, 3))}, ValueError, "N1 .* should be a multiple of N2 .*N2 is 0"),
    "statistics": ({"softmax_max": np.zeros((2, 5, 2))}, ValueError, "T1 .dim 1. of softmax_max should be 4"),
    "group": (
        {"softmax_max": np.zeros((2, 4, 1)), "softmax_sum": np.zeros((2, 4, 1))},
        ValueError,
        "G .* of softmax_max should be N1 / N2 = 2, but is 1",
    ),
    "head size": ({"key": np.zeros((6, 2, 4))}, ValueError, "D .dim 2. of key should be 3, but key has shape"),
    "weights": ({"weights": np.zeros((4, 3))}, ValueError, "N1i .dim 1. of weights should be 2"),
    "index heads": ({"key_index": np.zeros((6, 2, 5))}, ValueError, "dim 1 of key_index should be 1"),
    "index statistics": ({"softmax_sum_index": np.zeros((1, 5))}, ValueError, "T1 .* of softmax_sum_index should be 4"),
    "integers": ({"softmax_max_index": np.zeros((1, 4), dtype=int)}, TypeError, "softmax_max_index should be .* int64"),
}


@pytest.mark.parametrize(("change", "error", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_named(change: dict[str, Any], error: type[Exception], message: str) -> None:
    good = arguments(draw_packed(([1, 4], [2, 6]), heads=(4, 2)))
    with pytest.raises(error, match=message):
        grad_kl_loss(**{**good, **change})


def test_lengths_in_bsnd_are_refused() -> None:
    with pytest.raises(ValueError, match="belong to layout 'TND'"):
        grad_kl_loss(**arguments(draw((2, 3), (2, 5))), actual_seq_klen=[5, 10])
