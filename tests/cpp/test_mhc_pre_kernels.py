# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The host kernels of npu_mhc_pre_sinkhorn and npu_mhc_pre_clamp_sinkhorn, run without a framework, forward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mhc_kernels import CLAMP, FACTOR, PRE, eps_of, output_names, pre_outputs, pre_terms
from recorder import Recorder
from tolerance import assert_close

from tests.compiler import needs_compiler
from tests.reference.kl_cases import TYPES
from tests.reference.mhc_cases import HC_EPS, NORM_EPS, TOKENS, draw_pre

pytestmark = needs_compiler

CLAMPED = {"clamp_min": -0.75, "clamp_max": 0.5}


def attributes_of(op: str, streams: int, num_iters: int = 4, **changed: Any) -> dict[str, Any]:
    """In the order of the call."""
    common = {"hc_mult": streams, "num_iters": num_iters, "hc_eps": HC_EPS, "norm_eps": NORM_EPS, "out_flag": True}
    return {**common, **(CLAMPED if op == CLAMP else {}), **changed}


def run(mhc_kernels: Recorder, op: str, inputs: dict[str, Any], attributes: dict[str, Any]) -> dict[str, Any]:
    outputs = mhc_kernels.run([*inputs.values(), *attributes.values()], op)
    return dict(zip(output_names(op), outputs, strict=True))


def assert_equals_reference(mhc_kernels: Recorder, op: str, inputs: dict[str, Any], attributes: dict[str, Any]) -> None:
    """float64 goes in, but only h_in comes out in it: the runner makes the others float32."""
    outputs = run(mhc_kernels, op, inputs, attributes)
    expected = pre_outputs(op, inputs, attributes)
    terms = pre_terms(inputs, expected)
    for name, output in outputs.items():
        assert output.dtype == (inputs["x"].dtype if name == "h_in" else np.float32), name
        assert_close(output, expected[name], terms[name], FACTOR, eps_of(inputs["x"]), name)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("tokens", TOKENS, ids=str)
@pytest.mark.parametrize("op", [PRE, CLAMP])
def test_equal_to_the_reference(mhc_kernels: Recorder, op: str, tokens: tuple[int, ...], dtype: str) -> None:
    assert_equals_reference(mhc_kernels, op, draw_pre(tokens, dtype), attributes_of(op, 3))


@pytest.mark.parametrize("width", [1, 70, 300])
@pytest.mark.parametrize("streams", range(1, 9))
def test_numbers_of_streams_and_widths(mhc_kernels: Recorder, streams: int, width: int) -> None:
    inputs = draw_pre((35,), "bfloat16", streams, width)
    assert_equals_reference(mhc_kernels, PRE, inputs, attributes_of(PRE, streams))


@pytest.mark.parametrize("num_iters", [1, 2, 20])
@pytest.mark.parametrize("op", [PRE, CLAMP])
def test_numbers_of_iterations(mhc_kernels: Recorder, op: str, num_iters: int) -> None:
    inputs = draw_pre((33,), "float16", 4, 10)
    assert_equals_reference(mhc_kernels, op, inputs, attributes_of(op, 4, num_iters, hc_eps=1e-6, norm_eps=1e-6))


def test_long_sums_are_as_exact_as_short_ones(mhc_kernels: Recorder) -> None:
    """All terms alike: rounded always to the same side, the error of a plain sum would grow with its length."""
    inputs = draw_pre((2,), "float32", 4, 20000)
    inputs["x"][:] = 0.1
    inputs["phi"][:] = 0.7
    assert_equals_reference(mhc_kernels, PRE, inputs, attributes_of(PRE, 4))


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.0), (0.5, -0.5), (-100.0, 100.0), (-0.1, 0.1), (-np.inf, 0.2)])
def test_bounds(mhc_kernels: Recorder, low: float, high: float) -> None:
    inputs = draw_pre((6,), "float32")
    assert_equals_reference(mhc_kernels, CLAMP, inputs, attributes_of(CLAMP, 3, clamp_min=low, clamp_max=high))


def test_large_logits(mhc_kernels: Recorder) -> None:
    """Sigmoids and softmaxes at their ends."""
    inputs = draw_pre((5,), "float32")
    inputs["bias"] *= 1000
    assert_equals_reference(mhc_kernels, PRE, inputs, attributes_of(PRE, 3))


def test_not_a_number_stays_within_its_token(mhc_kernels: Recorder) -> None:
    inputs = draw_pre((40,), "float32")
    attributes = attributes_of(CLAMP, 3)
    clean = run(mhc_kernels, CLAMP, inputs, attributes)
    inputs["x"][33, 1, 2] = np.nan
    outputs = run(mhc_kernels, CLAMP, inputs, attributes)
    others = np.arange(40) != 33
    for name, output in outputs.items():
        steps = name in ("sum_out", "norm_out", "h_res_logits")
        by_token = np.moveaxis(output, 1, 0) if steps else output
        np.testing.assert_array_equal(
            by_token[others], (np.moveaxis(clean[name], 1, 0) if steps else clean[name])[others]
        )
        written = (
            by_token[33][1:] if name == "sum_out" else by_token[33][:1] if name == "h_res_logits" else by_token[33]
        )
        if name != "h_in":  # of which only the columns of the streams that are not a number are none
            assert np.all(np.isnan(written)), name


@pytest.mark.parametrize("instructions", ["baseline", "avx2"])
def test_every_instruction_set(mhc_kernels: Recorder, monkeypatch: pytest.MonkeyPatch, instructions: str) -> None:
    monkeypatch.setenv("HYPER_PARALLEL_CPU_INSTRUCTIONS", instructions)
    try:
        assert_equals_reference(mhc_kernels, PRE, draw_pre((35,), "float16", 4, 300), attributes_of(PRE, 4))
    except RuntimeError as error:
        if "this processor should have it" in str(error):
            pytest.skip(f"the processor has no {instructions}")
        raise


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_threads_and_repetition_do_not_change_a_bit(
    mhc_kernels: Recorder, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    inputs = draw_pre((100,), dtype, 4, 90)
    runs = []
    for threads in ("1", "1", "2", "3"):
        monkeypatch.setenv("HYPER_PARALLEL_CPU_THREADS", threads)
        runs.append(run(mhc_kernels, CLAMP, inputs, attributes_of(CLAMP, 4)))
    for name, first in runs[0].items():
        assert all(first.tobytes() == other[name].tobytes() for other in runs[1:]), name


# What the generated code does not check before the kernel is called.
MISTAKES = {
    "hc_mult": ({"hc_mult": 4}, "hc_mult should be N, the 3 streams of x, but is 4"),
    "num_iters": ({"num_iters": 0}, "num_iters should be at least 1, but is 0"),
}


@pytest.mark.parametrize(("attributes", "message"), MISTAKES.values(), ids=MISTAKES.keys())
@pytest.mark.parametrize("op", [PRE, CLAMP])
def test_mistakes_are_named(mhc_kernels: Recorder, op: str, attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=f"For {op}, .*{message}"):
        run(mhc_kernels, op, draw_pre((5,), "float32"), attributes_of(op, 3, **attributes))
