# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Mixing after the layer against loops, against differences, and against values worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hyper_parallel.reference.mhc import post, post_backward

from .finite_differences import assert_gradients
from .kl_cases import TYPES
from .mhc_cases import TOKENS, draw_post


def post_by_loops(x: Any, h_res: Any, h_out: Any, h_post: Any) -> Any:
    out = np.zeros(x.shape)
    for place in np.ndindex(x.shape[:-2]):
        streams, weights, output, spread = (t[place].astype(np.float64).tolist() for t in (x, h_res, h_out, h_post))
        for n in range(len(streams)):
            for d in range(len(output)):
                mixed = sum(weights[m][n] * streams[m][d] for m in range(len(streams)))
                out[(*place, n, d)] = mixed + spread[n] * output[d]
    return out


def cotangent(inputs: dict[str, Any]) -> Any:
    return np.random.default_rng(9).standard_normal(inputs["x"].shape).astype(inputs["x"].dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("tokens", TOKENS)
def test_equals_loops(tokens: tuple[int, ...], dtype: str) -> None:
    inputs = draw_post(tokens, dtype)
    (out,) = post(**inputs)
    assert out.dtype == inputs["x"].dtype
    tolerance = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24, "float64": 1e-12}[dtype]
    expected = post_by_loops(**inputs)
    np.testing.assert_allclose(out.astype(np.float64), expected, rtol=1.01 * tolerance, atol=tolerance * 1e-3)


@pytest.mark.parametrize("tokens", [(2, 2), (3,)])
def test_gradients_equal_differences(tokens: tuple[int, ...]) -> None:
    inputs = draw_post(tokens)
    gradient = cotangent(inputs)

    def scalar(**tensors: Any) -> float:
        return float(np.sum(post(**tensors)[0] * gradient))

    assert_gradients(scalar, inputs, dict(zip(inputs, post_backward(gradient, **inputs), strict=True)))


def test_worked_out_by_hand() -> None:
    """Two streams, one dim."""
    x = np.array([[[2.0], [3.0]]])
    h_res = np.array([[[1.0, 10.0], [100.0, 1000.0]]])
    h_out, h_post = np.array([[5.0]]), np.array([[0.5, -1.0]])
    # out[0] = 1*2 + 100*3 + 0.5*5 = 304.5      out[1] = 10*2 + 1000*3 - 1*5 = 3015
    (out,) = post(x, h_res, h_out, h_post)
    assert out.tolist() == [[[304.5], [3015.0]]]
    # With the gradient g = (1, 2):
    #   d_x[m] = sum_n h_res[m, n] g[n] = 1 + 20, 100 + 2000      d_h_res[m, n] = x[m] g[n]
    #   d_h_out = 0.5*1 - 1*2                                     d_h_post[n] = g[n] * 5
    d_x, d_h_res, d_h_out, d_h_post = post_backward(np.array([[[1.0], [2.0]]]), x, h_res, h_out, h_post)
    assert d_x.tolist() == [[[21.0], [2100.0]]]
    assert d_h_res.tolist() == [[[2.0, 4.0], [3.0, 6.0]]]
    assert d_h_out.tolist() == [[-1.5]]
    assert d_h_post.tolist() == [[5.0, 10.0]]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_gradients_have_the_types_of_their_inputs(dtype: str) -> None:
    inputs = draw_post((2, 3), dtype)
    gradients = post_backward(cotangent(inputs), **inputs)
    for gradient, tensor in zip(gradients, inputs.values(), strict=True):
        assert (gradient.dtype, gradient.shape) == (tensor.dtype, tensor.shape)


def test_tokens_do_not_meet() -> None:
    inputs = draw_post((3, 4), "float32")
    gradient = cotangent(inputs)
    part = {name: tensor[1:, :2] for name, tensor in inputs.items()}
    np.testing.assert_array_equal(post(**part)[0], post(**inputs)[0][1:, :2])
    of_part, of_whole = post_backward(gradient[1:, :2], **part), post_backward(gradient, **inputs)
    for left, right in zip(of_part, of_whole, strict=True):
        np.testing.assert_array_equal(left, right[1:, :2])


def test_packed_tokens_are_the_batch() -> None:
    inputs = draw_post((2, 3))
    packed = {name: tensor.reshape(6, *tensor.shape[2:]) for name, tensor in inputs.items()}
    np.testing.assert_array_equal(post(**packed)[0], post(**inputs)[0].reshape(6, 3, 4))


def test_order_of_streams_moves_the_outputs() -> None:
    inputs, order = draw_post((2, 3)), [2, 0, 1]
    moved = {
        "x": inputs["x"][:, :, order],
        "h_res": inputs["h_res"][:, :, order][..., order],
        "h_out": inputs["h_out"],
        "h_post": inputs["h_post"][..., order],
    }
    np.testing.assert_allclose(post(**moved)[0], post(**inputs)[0][:, :, order], rtol=1e-12)


MISTAKES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "rank": ({"x": np.zeros((3, 4))}, ValueError, "x should have 4 dims .* or 3 .*, but has .3, 4."),
    "streams": ({"h_res": np.zeros((2, 3, 3, 4))}, ValueError, "N .dim 3. of h_res should be 3, but h_res has shape"),
    "tokens": ({"h_post": np.zeros((2, 4, 3))}, ValueError, "S .dim 1. of h_post should be 3"),
    "width": ({"h_out": np.zeros((2, 3, 5))}, ValueError, "D .dim 2. of h_out should be 4"),
    "dims": ({"h_out": np.zeros((6, 4))}, ValueError, "h_out should have the 3 dims 'B S D', but has shape"),
    "integers": ({"h_out": np.zeros((2, 3, 4), dtype=int)}, TypeError, "h_out should be .*, but is int64"),
}


@pytest.mark.parametrize(("change", "error", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_named(change: dict[str, Any], error: type[Exception], message: str) -> None:
    inputs = draw_post((2, 3)) | change
    with pytest.raises(error, match=message):
        post(**inputs)
    with pytest.raises(error, match=message):
        post_backward(np.zeros((2, 3, 3, 4)), **inputs)


def test_gradient_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"N \(dim 2\) of grad_out should be 3"):
        post_backward(np.zeros((2, 3, 2, 4)), **draw_post((2, 3)))
