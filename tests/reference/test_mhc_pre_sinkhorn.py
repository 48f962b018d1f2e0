# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Mixing before the layer, with the clamp and without, against loops, and its laws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hyper_parallel.reference.mhc import pre_clamp_sinkhorn, pre_sinkhorn

from .kl_cases import TYPES
from .mhc_cases import HC_EPS, NORM_EPS, OUTPUTS, TOKENS, draw_pre, pre_by_loops

CLAMP = (-0.6, 0.9)


def assert_equal(got: tuple[Any, ...], expected: dict[str, Any], tolerance: float = 1e-12) -> None:
    for name, value in zip(OUTPUTS, got, strict=True):
        assert value.shape == expected[name].shape, name
        np.testing.assert_allclose(value, expected[name], rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("num_iters", [1, 2, 5])
@pytest.mark.parametrize("streams", [1, 3, 4])
@pytest.mark.parametrize("tokens", TOKENS)
def test_equals_loops(tokens: tuple[int, ...], streams: int, num_iters: int) -> None:
    inputs = draw_pre(tokens, streams=streams)
    got = pre_sinkhorn(**inputs, hc_mult=streams, num_iters=num_iters, hc_eps=HC_EPS, norm_eps=NORM_EPS)
    assert_equal(got, pre_by_loops(inputs, num_iters, HC_EPS, NORM_EPS))


@pytest.mark.parametrize("tokens", TOKENS)
def test_clamped_equals_loops(tokens: tuple[int, ...]) -> None:
    inputs = draw_pre(tokens)
    settings = {"hc_mult": 3, "num_iters": 2, "hc_eps": HC_EPS, "norm_eps": NORM_EPS}
    *got, h_res_logits = pre_clamp_sinkhorn(**inputs, **settings, clamp_min=CLAMP[0], clamp_max=CLAMP[1])
    expected = pre_by_loops(inputs, 2, HC_EPS, NORM_EPS, CLAMP)
    assert_equal(tuple(got), expected)
    assert h_res_logits.shape == expected["norm_out"].shape
    np.testing.assert_allclose(h_res_logits[0], expected["logits"], rtol=1e-12, atol=1e-12)
    assert not h_res_logits[1:].any()


def test_defaults_equal_loops() -> None:
    inputs = draw_pre((2, 2), streams=4)
    assert_equal(pre_sinkhorn(**inputs), pre_by_loops(inputs, 20, 1e-6, 1e-6))
    assert_equal(pre_clamp_sinkhorn(**inputs)[:-1], pre_by_loops(inputs, 20, 1e-6, 1e-6))


@pytest.mark.parametrize("bounds", [(0.0, 0.0), (1.0, 1.0), (1.0, -1.0), (-1e9, 1e9)])
def test_these_bounds_clamp_nothing(bounds: tuple[float, float]) -> None:
    inputs = draw_pre((2, 2))
    clamped = pre_clamp_sinkhorn(**inputs, hc_mult=3, clamp_min=bounds[0], clamp_max=bounds[1])
    for left, right in zip(clamped, pre_sinkhorn(**inputs, hc_mult=3), strict=False):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("dtype", TYPES)
def test_types_of_the_outputs(dtype: str) -> None:
    inputs = draw_pre((5,), dtype)
    outputs = pre_clamp_sinkhorn(**inputs, hc_mult=3, num_iters=3)
    others = np.float64 if dtype == "float64" else np.float32
    assert [value.dtype for value in outputs] == [TYPES[dtype], *[others] * 8]
    expected = pre_by_loops(inputs, 3, 1e-6, 1e-6)
    rounding = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24, "float64": 1e-12}[dtype]
    np.testing.assert_allclose(outputs[0].astype(np.float64), expected["h_in"], rtol=1.01 * rounding, atol=1e-9)
    for name, value in zip(OUTPUTS[1:], outputs[1:], strict=False):
        np.testing.assert_allclose(value, expected[name], rtol=1e-7 if others is np.float32 else 1e-12, atol=1e-9)


def test_worked_out_by_hand() -> None:
    """Two streams of one dim; phi is 0, so that everything comes from the bias."""
    x = np.array([[[3.0], [5.0]]])
    bias = np.array([0.0, np.log(3), 0.0, -np.log(3), np.log(3), 0.0, 0.0, 0.0])
    h_in, h_post, h_res, h_pre, _, inv_rms, sums, norms = pre_sinkhorn(
        x, np.zeros((8, 2)), np.ones(3), bias, hc_mult=2, num_iters=2, hc_eps=0.0, norm_eps=8.0
    )
    # h_pre = sigmoid(0, ln 3) = 1/2, 3/4;  h_in = 3/2 + 15/4;  h_post = 2 sigmoid(0, -ln 3) = 1, 1/2
    # inv_rms = 1 / sqrt((9 + 25) / 2 + 8) = 1/5
    # softmax of (ln 3, 0), (0, 0):  3/4 1/4 / 1/2 1/2;  columns 5/4, 3/4:  3/5 1/3 / 2/5 2/3
    # rows 14/15, 16/15:  9/14 5/14 / 3/8 5/8;  columns 57/56, 55/56:  12/19 4/11 / 7/19 7/11
    np.testing.assert_allclose(h_pre, [[1 / 2, 3 / 4]])
    np.testing.assert_allclose(h_in, [[5.25]])
    np.testing.assert_allclose(h_post, [[1.0, 1 / 2]])
    np.testing.assert_allclose(inv_rms, [[1 / 5]])
    np.testing.assert_allclose(sums[:, 0], [[0, 0], [5 / 4, 3 / 4], [14 / 15, 16 / 15], [57 / 56, 55 / 56]])
    np.testing.assert_allclose(norms[2, 0], [[9 / 14, 5 / 14], [3 / 8, 5 / 8]])
    np.testing.assert_allclose(h_res, [[12 / 19, 4 / 11, 7 / 19, 7 / 11]])


def test_the_residual_weights_are_doubly_stochastic() -> None:
    h_res = pre_sinkhorn(**draw_pre((6,), streams=4), num_iters=200, hc_eps=1e-9)[2].reshape(6, 4, 4)
    np.testing.assert_allclose(h_res.sum(axis=-2), 1.0, atol=1e-7)  # the columns were divided last
    np.testing.assert_allclose(h_res.sum(axis=-1), 1.0, atol=1e-4)
    assert (h_res > 0).all()


def test_every_output_is_there_whatever_out_flag_says() -> None:
    inputs = draw_pre((2, 2), "float32")
    for left, right in zip(
        pre_sinkhorn(**inputs, hc_mult=3, out_flag=False), pre_sinkhorn(**inputs, hc_mult=3), strict=True
    ):
        np.testing.assert_array_equal(left, right)


def test_tokens_do_not_meet() -> None:
    inputs = draw_pre((3, 4), "float32")
    whole = pre_clamp_sinkhorn(**inputs, hc_mult=3, num_iters=3, clamp_min=CLAMP[0], clamp_max=CLAMP[1])
    part = inputs | {"x": inputs["x"][1:, :2]}
    got = pre_clamp_sinkhorn(**part, hc_mult=3, num_iters=3, clamp_min=CLAMP[0], clamp_max=CLAMP[1])
    for name, left, right in zip((*OUTPUTS, "h_res_logits"), got, whole, strict=True):
        steps = name in {"sum_out", "norm_out", "h_res_logits"}
        np.testing.assert_allclose(left, right[:, 1:, :2] if steps else right[1:, :2], rtol=1e-6, err_msg=name)


def test_order_of_streams_moves_the_outputs() -> None:
    inputs, order = draw_pre((2, 2)), np.array([2, 0, 1])
    rows = np.concatenate([order, 3 + order, 6 + (3 * order[:, np.newaxis] + order).ravel()])
    columns = (4 * order[:, np.newaxis] + np.arange(4)).ravel()
    moved = {
        "x": inputs["x"][:, :, order],
        "phi": inputs["phi"][rows][:, columns],
        "alpha": inputs["alpha"],
        "bias": inputs["bias"][rows],
    }
    h_in, h_post, h_res, *_ = pre_sinkhorn(**inputs, hc_mult=3)
    got = pre_sinkhorn(**moved, hc_mult=3)
    np.testing.assert_allclose(got[0], h_in, rtol=1e-10)
    np.testing.assert_allclose(got[1], h_post[..., order], rtol=1e-10)
    matrix = h_res.reshape(2, 2, 3, 3)[..., order, :][..., order]
    np.testing.assert_allclose(got[2].reshape(2, 2, 3, 3), matrix, rtol=1e-10)


def test_large_logits_do_not_overflow() -> None:
    inputs = draw_pre((2, 2))
    outputs = pre_sinkhorn(**inputs | {"bias": inputs["bias"] * 1e4}, hc_mult=3)
    assert all(np.all(np.isfinite(value)) for value in outputs)


MISTAKES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "rank": ({"x": np.zeros((3, 4))}, ValueError, "x should have 4 dims .* or 3 .*, but has .3, 4."),
    "multiplicity": ({"hc_mult": 4}, ValueError, "hc_mult should be N, the 3 streams of x, but got 4"),
    "iterations": ({"num_iters": 0}, ValueError, "num_iters should be at least 1, but got 0"),
    "rows of phi": ({"phi": np.zeros((16, 12))}, ValueError, "dim 0 of phi should be 15, but phi has shape"),
    "columns of phi": ({"phi": np.zeros((15, 8))}, ValueError, "dim 1 of phi should be 12, but phi has shape"),
    "alpha": ({"alpha": np.zeros(2)}, ValueError, "dim 0 of alpha should be 3"),
    "bias": ({"bias": np.zeros((1, 15))}, ValueError, "bias should have the 1 dims '15', but has shape"),
    "integers": ({"bias": np.zeros(15, dtype=int)}, TypeError, "bias should be .*, but is int64"),
}


@pytest.mark.parametrize("operator", [pre_sinkhorn, pre_clamp_sinkhorn])
@pytest.mark.parametrize(("change", "error", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_named(operator: Any, change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        operator(**{**draw_pre((2, 3)), "hc_mult": 3, **change})
