# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The host kernel of npu_mhc_post, compiled and run without a framework, against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mhc_kernels import FACTOR, POST, eps_of, exact, magnitudes
from recorder import Recorder
from tolerance import assert_close

from hyper_parallel.reference import mhc
from tests.compiler import needs_compiler
from tests.reference.kl_cases import TYPES
from tests.reference.mhc_cases import TOKENS, draw_post

pytestmark = needs_compiler


def forward(mhc_kernels: Recorder, tensors: dict[str, Any]) -> Any:
    (out,) = mhc_kernels.run(list(tensors.values()), POST)
    return out


def backward(mhc_kernels: Recorder, grad_out: Any, tensors: dict[str, Any]) -> list[Any]:
    return mhc_kernels.run([grad_out, *tensors.values()], f"{POST}_backward")


def assert_equals_reference(mhc_kernels: Recorder, tensors: dict[str, Any]) -> None:
    eps = eps_of(tensors["x"])
    out = forward(mhc_kernels, tensors)
    assert out.dtype == tensors["x"].dtype
    (expected,), (terms,) = mhc.post(**exact(tensors)), mhc.post(**magnitudes(tensors))
    assert_close(out, expected, terms, FACTOR, eps, "out")
    grad_out = np.random.default_rng(3).standard_normal(out.shape).astype(out.dtype)
    gradients = backward(mhc_kernels, grad_out, tensors)
    exact_grad = grad_out.astype(np.float64)
    expected_gradients = mhc.post_backward(exact_grad, **exact(tensors))
    all_terms = mhc.post_backward(np.abs(exact_grad), **magnitudes(tensors))
    for name, gradient, value, terms in zip(tensors, gradients, expected_gradients, all_terms, strict=True):
        assert gradient.dtype == tensors[name].dtype, name
        assert_close(gradient, value, terms, FACTOR, eps, f"gradient of {name}")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("tokens", TOKENS, ids=str)
def test_equal_to_the_reference(mhc_kernels: Recorder, tokens: tuple[int, ...], dtype: str) -> None:
    assert_equals_reference(mhc_kernels, draw_post(tokens, dtype))


@pytest.mark.parametrize("width", [1, 16, 255, 256, 257, 1030])
@pytest.mark.parametrize("streams", [1, 2, 4, 5, 7, 8, 9])
def test_numbers_of_streams_and_widths(mhc_kernels: Recorder, streams: int, width: int) -> None:
    assert_equals_reference(mhc_kernels, draw_post((3,), "bfloat16", streams, width))


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_threads_and_repetition_do_not_change_a_bit(
    mhc_kernels: Recorder, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    tensors = draw_post((70,), dtype, 4, 300)
    grad_out = draw_post((71,), dtype, 4, 300)["x"][:70]
    runs = []
    for threads in ("1", "1", "2", "3"):
        monkeypatch.setenv("HYPER_PARALLEL_CPU_THREADS", threads)
        runs.append([forward(mhc_kernels, tensors), *backward(mhc_kernels, grad_out, tensors)])
    for run in runs[1:]:
        for first, other in zip(runs[0], run, strict=True):
            assert first.tobytes() == other.tobytes()


def test_not_a_number_and_infinity_stay_where_they_belong(mhc_kernels: Recorder) -> None:
    tensors = draw_post((4,), "float32", 3, 20)
    tensors["x"][1, 2, 5] = np.nan
    tensors["h_out"][2, 7] = np.inf
    tensors["h_res"][3, 0, 1] = -np.inf
    with np.errstate(invalid="ignore"):
        (expected,) = mhc.post(**tensors)
    out = forward(mhc_kernels, tensors)
    np.testing.assert_array_equal(np.isfinite(out), np.isfinite(expected))
    np.testing.assert_array_equal(out[~np.isfinite(out)], expected[~np.isfinite(expected)])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_floats_are_rounded_to_16_bits_as_numpy_rounds_them(mhc_kernels: Recorder, dtype: str) -> None:
    """One stream of width 1 that is 1: out is h_res, rounded. Every upper half of a float with the lower halves that
    matter: exact numbers, ties, and those just beside them, in both types."""
    upper = np.arange(2**16, dtype=np.uint32)[:, np.newaxis] << 16
    ties = [base + near for base in (0, 0x1000, 0x2000, 0x3000, 0x8000, 0x10000) for near in (-1, 0, 1)]
    lower = np.array([tie for tie in ties if 0 <= tie < 2**16], dtype=np.uint32)
    values = (upper | lower).ravel().view(np.float32)
    values = values[(values != 0) | ~np.signbit(values)]  # the kernel's sum makes +0 of -0
    ones = np.ones((len(values), 1), dtype=TYPES[dtype])
    out = forward(
        mhc_kernels,
        {
            "x": ones[..., np.newaxis],
            "h_res": values.reshape(-1, 1, 1),
            "h_out": np.zeros_like(ones),
            "h_post": -np.ones(ones.shape, np.float32),  # times zero: adds the neutral -0
        },
    )
    with np.errstate(over="ignore", invalid="ignore"):
        expected = values.astype(TYPES[dtype])
    number = ~np.isnan(values)
    np.testing.assert_array_equal(out.ravel()[number].view(np.uint16), expected[number].view(np.uint16))
    assert np.all(np.isnan(out.ravel()[~number]))
