# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Inputs and oracles of the three mhc operators. What they compute is written out once more in tests/reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hyper_parallel.reference import mhc
from tests.reference.mhc_cases import HC_EPS, NORM_EPS, OUTPUTS, draw_post, draw_pre

from .sharded_calls import Call

POST, PRE, CLAMP = "npu_mhc_post", "npu_mhc_pre_sinkhorn", "npu_mhc_pre_clamp_sinkhorn"
MHC = (POST, PRE, CLAMP)
INPUTS = {POST: ("x", "h_res", "h_out", "h_post"), PRE: ("x", "phi", "alpha", "bias")}
INPUTS[CLAMP] = INPUTS[PRE]
OUTPUT_NAMES = {POST: ("out",), PRE: OUTPUTS, CLAMP: (*OUTPUTS, "h_res_logits")}
DIFFERENTIABLE = {POST: ("out",), PRE: ("h_in", "h_post", "h_res"), CLAMP: ("h_in", "h_post", "h_res")}
TOKENS = {"BSN": (4, 4), "TN": (8,)}
STREAMS = 3

# No default among them, and no two that could be exchanged unnoticed.
PRE_ATTRIBUTES = {"hc_mult": STREAMS, "num_iters": 4, "hc_eps": HC_EPS, "norm_eps": NORM_EPS, "out_flag": True}
ATTRIBUTES: dict[str, dict[str, Any]] = {
    POST: {},
    PRE: PRE_ATTRIBUTES,
    # Some of the logits drawn below lie outside on either side.
    CLAMP: {**PRE_ATTRIBUTES, "clamp_min": -0.75, "clamp_max": 0.5},
}
FORWARD = {POST: mhc.post, PRE: mhc.pre_sinkhorn, CLAMP: mhc.pre_clamp_sinkhorn}


def draw(op: str, tokens: tuple[int, ...], dtype: str = "float64") -> dict[str, Any]:
    return draw_post(tokens, dtype) if op == POST else draw_pre(tokens, dtype)


def forward(op: str, tensors: Mapping[str, Any], **attributes: Any) -> dict[str, Any]:
    """The oracle's outputs by name."""
    return dict(zip(OUTPUT_NAMES[op], FORWARD[op](**tensors, **{**ATTRIBUTES[op], **attributes}), strict=True))


def gradients(op: str, tensors: Mapping[str, Any], cotangents: Mapping[str, Any]) -> dict[str, Any]:
    """The oracle's gradients by name, from the cotangents of the differentiable outputs."""
    if op == POST:
        found = mhc.post_backward(grad_out=cotangents["out"], **tensors)
        return dict(zip(INPUTS[op], found, strict=True))
    outputs, attributes = forward(op, tensors), ATTRIBUTES[op]
    streams = tensors["x"].shape[-2]
    saved = {name: outputs[name] for name in OUTPUT_NAMES[op][3:]}
    incoming = {f"grad_{name}": cotangents[name] for name in ("h_in", "h_post")}
    incoming["grad_h_res"] = cotangents["h_res"].reshape(*cotangents["h_res"].shape[:-1], streams, streams)
    if op == PRE:
        found = mhc.pre_sinkhorn_backward(**incoming, **tensors, **saved, hc_eps=attributes["hc_eps"])
    else:
        bounds = {name: attributes[name] for name in ("hc_eps", "clamp_min", "clamp_max")}
        found = mhc.pre_clamp_sinkhorn_backward(**incoming, **tensors, **saved, **bounds)
    return dict(zip(INPUTS[op], found, strict=True))


def draw_cotangents(op: str, outputs: Mapping[str, Any], seed: int = 7) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(outputs[name].shape).astype(outputs[name].dtype) for name in DIFFERENTIABLE[op]}


def call(op: str, form: str) -> Call:
    """A call in float64 with whole tensors that every mesh of the tests can cut."""
    tensors = draw(op, TOKENS[form])
    outputs = forward(op, tensors)
    cotangents = draw_cotangents(op, outputs)
    return Call(op, tensors, lambda rank: ATTRIBUTES[op], outputs, cotangents, gradients(op, tensors, cotangents))
