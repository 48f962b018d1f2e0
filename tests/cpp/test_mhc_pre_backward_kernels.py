# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The backward kernels of npu_mhc_pre_sinkhorn and npu_mhc_pre_clamp_sinkhorn on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mhc_kernels import CLAMP, FACTOR, INPUTS, PRE, eps_of, exact, pre_backward_terms, pre_outputs
from recorder import Recorder
from tolerance import assert_close

from hyper_parallel.reference import mhc
from tests.compiler import needs_compiler
from tests.reference.finite_differences import assert_gradients
from tests.reference.kl_cases import TYPES
from tests.reference.mhc_cases import HC_EPS, NORM_EPS, SAVED, TOKENS, draw_pre

pytestmark = needs_compiler

BOUNDS = {"clamp_min": -0.75, "clamp_max": 0.5}


def forward(op: str, inputs: dict[str, Any], num_iters: int, hc_eps: float, bounds: dict[str, float]) -> dict[str, Any]:
    """The reference's outputs, and those that are saved in the type that the forward writes."""
    streams = inputs["x"].shape[-2]
    attributes = {"hc_mult": streams, "num_iters": num_iters, "hc_eps": hc_eps, "norm_eps": NORM_EPS}
    outputs = pre_outputs(op, inputs, {**attributes, **(bounds if op == CLAMP else {})})
    kind = np.float64 if inputs["x"].dtype == np.float64 else np.float32
    return {name: output.astype(kind) for name, output in outputs.items()}


def draw_cotangents(outputs: dict[str, Any], inputs: dict[str, Any], seed: int = 5) -> dict[str, Any]:
    rng, streams = np.random.default_rng(seed), inputs["x"].shape[-2]
    shape = outputs["h_res"].shape[:-1]
    return {
        "h_in": rng.standard_normal(outputs["h_in"].shape).astype(inputs["x"].dtype),
        "h_post": rng.standard_normal(outputs["h_post"].shape).astype(outputs["h_post"].dtype),
        "h_res": rng.standard_normal((*shape, streams, streams)).astype(outputs["h_res"].dtype),
    }


def saved_of(op: str, outputs: dict[str, Any]) -> dict[str, Any]:
    return {name: outputs[name] for name in (SAVED if op == PRE else (*SAVED, "h_res_logits"))}


def run(
    mhc_kernels: Recorder,
    op: str,
    cotangents: dict[str, Any],
    inputs: dict[str, Any],
    saved: dict[str, Any],
    attributes: list[float],
) -> dict[str, Any]:
    arguments = [*cotangents.values(), *inputs.values(), *saved.values(), *attributes]
    return dict(zip(INPUTS, mhc_kernels.run(arguments, f"{op}_backward"), strict=True))


def reference(
    op: str, cotangents: dict[str, Any], inputs: dict[str, Any], saved: dict[str, Any], attributes: list[float]
) -> dict[str, Any]:
    function = mhc.pre_sinkhorn_backward if op == PRE else mhc.pre_clamp_sinkhorn_backward
    tensors = [*exact(cotangents).values(), *exact(inputs).values(), *exact(saved).values()]
    return dict(zip(INPUTS, function(*tensors, *attributes), strict=True))


def assert_equals_reference(
    mhc_kernels: Recorder, op: str, inputs: dict[str, Any], num_iters: int = 4, bounds: dict[str, float] = BOUNDS
) -> None:
    outputs = forward(op, inputs, num_iters, HC_EPS, bounds)
    cotangents, saved = draw_cotangents(outputs, inputs), saved_of(op, outputs)
    attributes = [HC_EPS, *(bounds.values() if op == CLAMP else ())]
    gradients = run(mhc_kernels, op, cotangents, inputs, saved, attributes)
    expected = reference(op, cotangents, inputs, saved, attributes)
    inside: Any = 1.0
    if op == CLAMP and bounds["clamp_min"] < bounds["clamp_max"]:
        logits = saved["h_res_logits"][0].astype(np.float64)
        inside = (bounds["clamp_min"] <= logits) & (logits <= bounds["clamp_max"])
    terms = pre_backward_terms(cotangents, inputs, saved, HC_EPS, inside)
    for name, gradient in gradients.items():
        assert gradient.dtype == inputs[name].dtype, name
        assert_close(gradient, expected[name], terms[name], FACTOR, eps_of(inputs["x"]), name)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("tokens", TOKENS, ids=str)
@pytest.mark.parametrize("op", [PRE, CLAMP])
def test_equal_to_the_reference(mhc_kernels: Recorder, op: str, tokens: tuple[int, ...], dtype: str) -> None:
    assert_equals_reference(mhc_kernels, op, draw_pre(tokens, dtype))


@pytest.mark.parametrize("width", [1, 70, 300])
@pytest.mark.parametrize("streams", range(1, 9))
def test_numbers_of_streams_and_widths(mhc_kernels: Recorder, streams: int, width: int) -> None:
    assert_equals_reference(mhc_kernels, PRE, draw_pre((67,), "bfloat16", streams, width))


@pytest.mark.parametrize("num_iters", [1, 2, 20])
@pytest.mark.parametrize("op", [PRE, CLAMP])
def test_numbers_of_iterations(mhc_kernels: Recorder, op: str, num_iters: int) -> None:
    assert_equals_reference(mhc_kernels, op, draw_pre((33,), "float16", 4, 10), num_iters)


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.0), (0.5, -0.5), (-100.0, 100.0), (-0.1, 0.1)])
def test_bounds(mhc_kernels: Recorder, low: float, high: float) -> None:
    bounds = {"clamp_min": low, "clamp_max": high}
    assert_equals_reference(mhc_kernels, CLAMP, draw_pre((6,), "float32"), bounds=bounds)


def test_a_logit_on_a_bound_has_a_gradient(mhc_kernels: Recorder) -> None:
    """With alpha 0 the logits are the bias itself, which lies on both bounds and beside them."""
    inputs = draw_pre((2,), "float64", 2, 3)
    inputs["alpha"][:] = 0.0
    inputs["bias"][4:] = [-0.75, 0.5, np.nextafter(-0.75, -1), np.nextafter(0.5, 1)]
    outputs = forward(CLAMP, inputs, 2, HC_EPS, BOUNDS)
    cotangents, saved = draw_cotangents(outputs, inputs), saved_of(CLAMP, outputs)
    gradients = run(mhc_kernels, CLAMP, cotangents, inputs, saved, [HC_EPS, *BOUNDS.values()])
    assert np.all(gradients["bias"][4:6] != 0)
    assert np.all(gradients["bias"][6:] == 0)


@pytest.mark.parametrize("num_iters", [1, 5])
@pytest.mark.parametrize("op", [PRE, CLAMP])
@pytest.mark.parametrize("tokens", [(2, 2), (3,)], ids=["BSNC", "TNC"])
def test_equal_to_finite_differences(mhc_kernels: Recorder, tokens: tuple[int, ...], op: str, num_iters: int) -> None:
    inputs = draw_pre(tokens, "float64", 2, 3)
    outputs = forward(op, inputs, num_iters, HC_EPS, BOUNDS)
    cotangents, saved = draw_cotangents(outputs, inputs), saved_of(op, outputs)
    gradients = run(mhc_kernels, op, cotangents, inputs, saved, [HC_EPS, *(BOUNDS.values() if op == CLAMP else ())])

    def loss(**changed: Any) -> float:
        found = forward(op, changed, num_iters, HC_EPS, BOUNDS)
        return float(sum((found[name] * value.reshape(found[name].shape)).sum() for name, value in cotangents.items()))

    assert_gradients(loss, inputs, gradients)


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_threads_and_repetition_do_not_change_a_bit(
    mhc_kernels: Recorder, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    inputs = draw_pre((100,), dtype, 4, 150)
    outputs = forward(CLAMP, inputs, 4, HC_EPS, BOUNDS)
    cotangents, saved = draw_cotangents(outputs, inputs), saved_of(CLAMP, outputs)
    runs = []
    for threads in ("1", "1", "2", "3"):
        monkeypatch.setenv("HYPER_PARALLEL_CPU_THREADS", threads)
        runs.append(run(mhc_kernels, CLAMP, cotangents, inputs, saved, [HC_EPS, *BOUNDS.values()]))
    for name, first in runs[0].items():
        assert all(first.tobytes() == other[name].tobytes() for other in runs[1:]), name


# What the generated code does not check before the kernel is called.
MISTAKES = {
    "odd steps": (
        "norm_out",
        np.zeros((3, 5, 3, 3), np.float32),
        r"2 \* num_iters steps \(dim 0\), but has shape \[3,",
    ),
    "fewer sums": (
        "sum_out",
        np.zeros((6, 5, 3), np.float32),
        r"I \(dim 0\) of sum_out should be 8, but sum_out has shape \[6,",
    ),
}


@pytest.mark.parametrize(("name", "tensor", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_named(mhc_kernels: Recorder, name: str, tensor: Any, message: str) -> None:
    inputs = draw_pre((5,), "float32")
    outputs = forward(CLAMP, inputs, 4, HC_EPS, BOUNDS)
    cotangents, saved = draw_cotangents(outputs, inputs), saved_of(CLAMP, outputs)
    (cotangents if name in cotangents else saved)[name] = tensor
    with pytest.raises(RuntimeError, match=f"For {CLAMP}_backward, .*{message}"):
        run(mhc_kernels, CLAMP, cotangents, inputs, saved, [HC_EPS, *BOUNDS.values()])
