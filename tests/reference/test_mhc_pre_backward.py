# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The gradients of mixing before the layer, with the clamp and without, against differences, and their laws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hyper_parallel.reference.mhc import (
    pre_clamp_sinkhorn,
    pre_clamp_sinkhorn_backward,
    pre_sinkhorn,
    pre_sinkhorn_backward,
)

from .finite_differences import assert_gradients
from .mhc_cases import HC_EPS, NORM_EPS, OUTPUTS, SAVED, draw_pre

SETTINGS = {"hc_eps": HC_EPS, "norm_eps": NORM_EPS}
BOUNDS = {"clamp_min": -0.6, "clamp_max": 0.9}


def cotangents(x: Any) -> dict[str, Any]:
    """Gradients of h_in, h_post and h_res, the last one of two dims as the backward takes it."""
    rng = np.random.default_rng(4)
    shapes = {"grad_h_in": x.shape[-1:], "grad_h_post": x.shape[-2:-1], "grad_h_res": x.shape[-2:-1] * 2}
    return {name: rng.standard_normal((*x.shape[:-2], *shape)) for name, shape in shapes.items()}


def saved(outputs: tuple[Any, ...]) -> dict[str, Any]:
    values = dict(zip((*OUTPUTS, "h_res_logits"), outputs, strict=False))
    return {name: values[name] for name in (*SAVED, "h_res_logits") if name in values}


def product(outputs: tuple[Any, ...], gradients: dict[str, Any]) -> float:
    """What the gradients are of: h_in, h_post and h_res times their cotangents."""
    values = zip(outputs, gradients.values(), strict=False)
    return float(sum(np.sum(output * gradient.reshape(output.shape)) for output, gradient in values))


def named(inputs: dict[str, Any], gradients: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(inputs, gradients, strict=True))


@pytest.mark.parametrize("num_iters", [1, 2, 6])
@pytest.mark.parametrize(("tokens", "streams"), [((2, 2), 3), ((3,), 2), ((2,), 1)])
def test_gradients_equal_differences(tokens: tuple[int, ...], streams: int, num_iters: int) -> None:
    inputs = draw_pre(tokens, streams=streams)
    settings = {**SETTINGS, "hc_mult": streams, "num_iters": num_iters}
    gradients = cotangents(inputs["x"])

    def scalar(**tensors: Any) -> float:
        return product(pre_sinkhorn(**tensors, **settings), gradients)

    got = pre_sinkhorn_backward(**gradients, **inputs, **saved(pre_sinkhorn(**inputs, **settings)), hc_eps=HC_EPS)
    assert_gradients(scalar, inputs, named(inputs, got))


def test_gradients_with_the_defaults_equal_differences() -> None:
    inputs = draw_pre((2,), streams=4, width=2)
    gradients = cotangents(inputs["x"])

    def scalar(**tensors: Any) -> float:
        return product(pre_sinkhorn(**tensors), gradients)

    got = pre_sinkhorn_backward(**gradients, **inputs, **saved(pre_sinkhorn(**inputs)), hc_eps=1e-6)
    assert_gradients(scalar, inputs, named(inputs, got))


@pytest.mark.parametrize("tokens", [(2, 2), (3,)])
def test_clamped_gradients_equal_differences(tokens: tuple[int, ...]) -> None:
    inputs = draw_pre(tokens)
    settings = {**SETTINGS, "hc_mult": 3, "num_iters": 2}
    gradients = cotangents(inputs["x"])

    def scalar(**tensors: Any) -> float:
        return product(pre_clamp_sinkhorn(**tensors, **settings, **BOUNDS), gradients)

    outputs = pre_clamp_sinkhorn(**inputs, **settings, **BOUNDS)
    logits, low, high = outputs[-1][0], BOUNDS["clamp_min"], BOUNDS["clamp_max"]
    # Logits below, above and between the bounds, and none so near to one that a difference would cross it.
    assert (logits < low).any()
    assert (logits > high).any()
    assert ((low < logits) & (logits < high)).any()
    assert min(np.abs(logits - low).min(), np.abs(logits - high).min()) > 1e-3
    got = pre_clamp_sinkhorn_backward(**gradients, **inputs, **saved(outputs), hc_eps=HC_EPS, **BOUNDS)
    assert_gradients(scalar, inputs, named(inputs, got))


def test_the_gradient_passes_at_the_bounds() -> None:
    inputs = draw_pre((1,), streams=2)
    outputs = pre_clamp_sinkhorn(**inputs, hc_mult=2, **BOUNDS)
    gradients, tensors = cotangents(inputs["x"]), saved(outputs)

    def d_bias(*logits: float) -> Any:
        tensors["h_res_logits"][0, 0] = np.reshape(logits, (2, 2))
        return pre_clamp_sinkhorn_backward(**gradients, **inputs, **tensors, hc_eps=1e-6, **BOUNDS)[3][4:]

    inside = d_bias(0.0, 0.0, 0.0, 0.0)
    assert inside.all()
    np.testing.assert_array_equal(d_bias(-0.6, 0.9, 0.0, 0.0), inside)
    np.testing.assert_array_equal(d_bias(-0.61, 0.91, 0.0, 0.0), [0.0, 0.0, *inside[2:]])


@pytest.mark.parametrize("bounds", [(0.0, 0.0), (1.0, 1.0), (1.0, -1.0), (-1e9, 1e9)])
def test_these_bounds_change_no_gradient(bounds: tuple[float, float]) -> None:
    inputs = draw_pre((2, 2))
    gradients = cotangents(inputs["x"])
    plain = pre_sinkhorn_backward(**gradients, **inputs, **saved(pre_sinkhorn(**inputs, hc_mult=3)), hc_eps=1e-6)
    limits = {"clamp_min": bounds[0], "clamp_max": bounds[1]}
    outputs = pre_clamp_sinkhorn(**inputs, hc_mult=3, **limits)
    clamped = pre_clamp_sinkhorn_backward(**gradients, **inputs, **saved(outputs), hc_eps=1e-6, **limits)
    for left, right in zip(clamped, plain, strict=True):
        np.testing.assert_array_equal(left, right)


def test_gradients_of_parts_of_the_tokens() -> None:
    """That of x is a part of the whole one, those of phi, alpha and bias add up."""
    inputs = draw_pre((2, 4))
    settings = {"hc_mult": 3, "num_iters": 3}

    def backward(part: slice) -> tuple[Any, ...]:
        tensors = inputs | {"x": inputs["x"][:, part]}
        gradients = {name: value[:, part] for name, value in cotangents(inputs["x"]).items()}
        outputs = pre_clamp_sinkhorn(**tensors, **settings, **BOUNDS)
        return pre_clamp_sinkhorn_backward(**gradients, **tensors, **saved(outputs), hc_eps=1e-6, **BOUNDS)

    whole, first, second = backward(slice(None)), backward(slice(0, 1)), backward(slice(1, 4))
    np.testing.assert_allclose(np.concatenate([first[0], second[0]], axis=1), whole[0], rtol=1e-10, atol=1e-12)
    for left, right, total in zip(first[1:], second[1:], whole[1:], strict=True):
        np.testing.assert_allclose(left + right, total, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("tokens", [(0,), (0, 2)])
def test_no_tokens_give_zeros(tokens: tuple[int, ...]) -> None:
    inputs = draw_pre(tokens)
    outputs = saved(pre_sinkhorn(**inputs, hc_mult=3))
    for gradient, tensor in zip(
        pre_sinkhorn_backward(**cotangents(inputs["x"]), **inputs, **outputs, hc_eps=1e-6), inputs.values(), strict=True
    ):
        assert gradient.shape == tensor.shape
        assert not gradient.any()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_gradients_have_the_types_of_their_inputs(dtype: str) -> None:
    inputs = draw_pre((2, 3), dtype)
    outputs = saved(pre_sinkhorn(**inputs, hc_mult=3))
    gradients = {name: value.astype(np.float32) for name, value in cotangents(inputs["x"]).items()}
    got = pre_sinkhorn_backward(**gradients, **inputs, **outputs, hc_eps=1e-6)
    exact = {name: tensor.astype(np.float64) for name, tensor in inputs.items()}
    outputs = saved(pre_sinkhorn(**exact, hc_mult=3))
    expected = pre_sinkhorn_backward(**gradients, **exact, **outputs, hc_eps=1e-6)
    rounding = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24}[dtype]
    for gradient, tensor, value in zip(got, inputs.values(), expected, strict=True):
        assert (gradient.dtype, gradient.shape) == (tensor.dtype, tensor.shape)
        tolerance = rounding if gradient.dtype == inputs["x"].dtype else 0.0
        np.testing.assert_allclose(gradient.astype(np.float64), value, rtol=1.01 * tolerance + 1e-5, atol=1e-5)


@pytest.mark.parametrize("name", SAVED)
def test_what_is_saved_is_used(name: str) -> None:
    inputs = draw_pre((2, 2))
    gradients, tensors = cotangents(inputs["x"]), saved(pre_sinkhorn(**inputs, hc_mult=3))
    plain = pre_sinkhorn_backward(**gradients, **inputs, **tensors, hc_eps=1e-6)
    changed = pre_sinkhorn_backward(**gradients, **inputs, **{**tensors, name: tensors[name] * 1.1}, hc_eps=1e-6)
    assert not np.allclose(plain[0], changed[0])


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "h_res of one dim": ({"grad_h_res": np.zeros((2, 2, 9))}, "grad_h_res should have the 4 dims 'B S N N'"),
    "h_in": ({"grad_h_in": np.zeros((2, 2, 5))}, "C .dim 2. of grad_h_in should be 4"),
    "steps": ({"sum_out": np.zeros((4, 2, 2, 3))}, "I .dim 0. of norm_out should be 4"),
    "odd steps": (
        {"sum_out": np.zeros((3, 2, 2, 3)), "norm_out": np.zeros((3, 2, 2, 3, 3))},
        "I .* should be 2 . num_iters, but is 3",
    ),
    "h_pre": ({"h_pre": np.zeros((2, 2, 4))}, "N .dim 2. of h_pre should be 3"),
    "inv_rms": ({"inv_rms": np.zeros((2, 2, 3))}, "dim 2 of inv_rms should be 1"),
}


@pytest.mark.parametrize(("change", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_named(change: dict[str, Any], message: str) -> None:
    inputs = draw_pre((2, 2))
    good = {**cotangents(inputs["x"]), **inputs, **saved(pre_sinkhorn(**inputs, hc_mult=3)), "hc_eps": 1e-6}
    with pytest.raises(ValueError, match=message):
        pre_sinkhorn_backward(**{**good, **change})


def test_logits_of_another_shape_are_refused() -> None:
    inputs = draw_pre((2, 2))
    good = {**cotangents(inputs["x"]), **inputs, **saved(pre_clamp_sinkhorn(**inputs, hc_mult=3)), "hc_eps": 1e-6}
    with pytest.raises(ValueError, match="h_res_logits should have the 5 dims 'I B S N N'"):
        pre_clamp_sinkhorn_backward(**{**good, "h_res_logits": np.zeros((2, 2, 3, 3))}, **BOUNDS)
