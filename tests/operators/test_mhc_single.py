# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The mhc operators on plain arrays, against their references and, for the mathematics, against loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hyper_parallel import custom_ops
from tests.reference.kl_cases import TYPES
from tests.reference.mhc_cases import TOKENS, pre_by_loops

from .mhc_calls import ATTRIBUTES, CLAMP, INPUTS, OUTPUT_NAMES, POST, PRE, PRE_ATTRIBUTES, draw, forward
from .sharded_calls import as_tuple


def outputs_of(op: str, tensors: dict[str, Any], **attributes: Any) -> dict[str, Any]:
    outputs = getattr(custom_ops, op)(*tensors.values(), **{**ATTRIBUTES[op], **attributes})
    return dict(zip(OUTPUT_NAMES[op], as_tuple(outputs), strict=True))


def assert_same(given: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        assert given[name].dtype == value.dtype, name
        np.testing.assert_array_equal(given[name], value, err_msg=name)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("tokens", TOKENS, ids=str)
@pytest.mark.parametrize("op", [POST, PRE, CLAMP])
def test_equal_to_the_reference(op, tokens, dtype):
    tensors = draw(op, tokens, dtype)
    assert_same(outputs_of(op, tensors), forward(op, tensors))


@pytest.mark.parametrize("streams", [1, 2, 4])
@pytest.mark.parametrize("op", [PRE, CLAMP])
def test_numbers_of_streams(op, streams):
    tensors = {
        "x": np.random.default_rng(streams).standard_normal((3, streams, 5)),
        "phi": np.random.default_rng(1).standard_normal((streams * streams + 2 * streams, 5 * streams)),
        "alpha": np.array([0.3, 0.5, -0.2]),
        "bias": np.random.default_rng(2).standard_normal(streams * streams + 2 * streams),
    }
    assert_same(outputs_of(op, tensors, hc_mult=streams), forward(op, tensors, hc_mult=streams))


def test_post_by_hand():
    # One token, two streams of width 2. Stream 0 keeps 1 of itself and takes 3 of stream 1; stream 1 takes 2 of 0.
    out = custom_ops.npu_mhc_post(
        np.array([[[1.0, 10.0], [2.0, 20.0]]]),
        np.array([[[1.0, 2.0], [3.0, 0.0]]]),
        np.array([[100.0, 200.0]]),
        np.array([[1.0, -1.0]]),
    )
    np.testing.assert_array_equal(out, [[[7.0 + 100.0, 70.0 + 200.0], [2.0 - 100.0, 20.0 - 200.0]]])


@pytest.mark.parametrize("op", [PRE, CLAMP])
@pytest.mark.parametrize("tokens", [(2, 3), (5,)], ids=["BSNC", "TNC"])
def test_pre_equals_loops(op, tokens):
    tensors, attributes = draw(op, tokens), ATTRIBUTES[op]
    clamp = (attributes["clamp_min"], attributes["clamp_max"]) if op == CLAMP else None
    steps = (attributes["num_iters"], attributes["hc_eps"], attributes["norm_eps"])
    expected = pre_by_loops(tensors, *steps, clamp=clamp)
    logits = expected.pop("logits")
    outputs = outputs_of(op, tensors)
    for name, value in expected.items():
        np.testing.assert_allclose(outputs[name], value.reshape(outputs[name].shape), rtol=1e-12, err_msg=name)
    if op == CLAMP:
        np.testing.assert_allclose(outputs["h_res_logits"][0], logits, rtol=1e-12)
        assert not np.any(outputs["h_res_logits"][1:])
        assert np.any(logits < clamp[0])
        assert np.any(logits > clamp[1])


def test_without_bounds_nothing_is_clamped():
    tensors = draw(PRE, (2, 3))
    clamped = outputs_of(CLAMP, tensors, clamp_min=0.0, clamp_max=0.0)
    del clamped["h_res_logits"]
    assert_same(clamped, outputs_of(PRE, tensors))


DEFAULTS = {
    POST: {},
    PRE: {"hc_mult": 4, "num_iters": 20, "hc_eps": 1e-6, "norm_eps": 1e-6, "out_flag": True},
    CLAMP: {
        "hc_mult": 4, "num_iters": 20, "hc_eps": 1e-6, "norm_eps": 1e-6, "out_flag": True, "clamp_min": 0.0, "clamp_max": 0.0,
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("op", "keyword"), [(op, keyword) for op, defaults in DEFAULTS.items() for keyword in defaults], ids=str
)
def test_a_keyword_given_with_its_default(op, keyword):
    rng = np.random.default_rng(0)
    tensors = [rng.standard_normal(shape) for shape in ((3, 4, 2), (24, 8), (3,), (24,))]
    run = getattr(custom_ops, op)
    for given, expected in zip(run(*tensors, **{keyword: DEFAULTS[op][keyword]}), run(*tensors), strict=True):
        np.testing.assert_array_equal(given, expected)


@pytest.mark.parametrize(("keyword", "value"), [("num_iters", 5), ("hc_eps", 0.06), ("norm_eps", 0.4)])
@pytest.mark.parametrize("op", [PRE, CLAMP])
def test_every_attribute_arrives(op, keyword, value):
    tensors = draw(op, (5,))
    assert PRE_ATTRIBUTES[keyword] != value
    assert_same(outputs_of(op, tensors, **{keyword: value}), forward(op, tensors, **{keyword: value}))


@pytest.mark.parametrize("bounds", [{"clamp_min": -0.25}, {"clamp_max": 0.25}])
def test_every_bound_arrives(bounds):
    tensors = draw(CLAMP, (5,))
    given = outputs_of(CLAMP, tensors, **bounds)
    assert_same(given, forward(CLAMP, tensors, **bounds))
    assert not np.array_equal(given["h_res"], outputs_of(CLAMP, tensors)["h_res"])


@pytest.mark.parametrize("op", [POST, PRE, CLAMP])
def test_tensors_by_keyword(op):
    tensors = draw(op, (2, 3))
    outputs = getattr(custom_ops, op)(**dict(reversed(tensors.items())), **ATTRIBUTES[op])
    assert_same(dict(zip(OUTPUT_NAMES[op], as_tuple(outputs), strict=True)), outputs_of(op, tensors))


@pytest.mark.parametrize("op", [POST, PRE, CLAMP])
def test_packed_tokens_are_the_same_tokens(op):
    tensors = draw(op, (2, 3))
    packed = {
        name: value.reshape(-1, *value.shape[2:]) if name in ("x", "h_res", "h_out", "h_post") else value
        for name, value in tensors.items()
    }
    for name, value in outputs_of(op, packed).items():
        np.testing.assert_allclose(value.reshape(-1), outputs_of(op, tensors)[name].reshape(-1), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("op", [POST, PRE, CLAMP])
def test_inputs_stay_as_they_are(op):
    tensors = draw(op, (2, 3))
    copies = {name: value.copy() for name, value in tensors.items()}
    outputs_of(op, tensors)
    assert_same(tensors, copies)


@pytest.mark.parametrize("op", [POST, PRE, CLAMP])
def test_dtypes_that_no_kernel_takes(launches, op):
    for name in INPUTS[op]:
        tensors = draw(op, (5,))
        tensors[name] = tensors[name].astype(np.int32)
        with pytest.raises(TypeError, match=f"^For {op}, {name} should have dtype .*, but got int32"):
            outputs_of(op, tensors)
    assert launches == []
