# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The host kernels of the three mhc operators in one binary, and how exact their results have to be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from recorder import Recorder, compile_recorder

from hyper_parallel.reference import mhc
from hyper_parallel.reference.sinkhorn import sinkhorn_backward
from tests.reference.mhc_cases import OUTPUTS, sigmoid

ROOT = Path(__file__).resolve().parents[2]
POST, PRE, CLAMP = "npu_mhc_post", "npu_mhc_pre_sinkhorn", "npu_mhc_pre_clamp_sinkhorn"
INPUTS = ("x", "phi", "alpha", "bias")

# In units of the sum of the magnitudes of an entry's terms. What is guaranteed is 32; see csrc/cpu/matrix_product.h.
FACTOR = 8.0
FLOAT_EPS = float(np.finfo(np.float32).eps)
# The reference is computed in float64 too, and rounds as much.
DOUBLE_EPS = 4 * float(np.finfo(np.float64).eps)


def compile_kernels(folder: Path) -> Recorder:
    """All three in one translation unit, as they are built for a framework."""
    source = folder / "mhc.cc"
    source.write_text("".join(f'#include "generated/{op}/{op}.cc"\n' for op in (POST, PRE, CLAMP)))
    return compile_recorder(source, [ROOT], "cpu", folder)


def eps_of(x: Any) -> float:
    return DOUBLE_EPS if x.dtype == np.float64 else FLOAT_EPS


def exact(tensors: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tensor.astype(np.float64) for name, tensor in tensors.items()}


def magnitudes(tensors: Mapping[str, Any]) -> dict[str, Any]:
    return {name: np.abs(tensor) for name, tensor in exact(tensors).items()}


def flattened(x: Any) -> Any:
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


def of_logits(values: Any, streams: int) -> Any:
    """alpha, one value for each of pre, post and res, for every logit."""
    return np.repeat(values, [streams, streams, streams * streams])


def pre_terms(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> dict[str, Any]:
    """For each output of the pre-mapping: the terms of the projection, carried on to it.

    A logit is off by alpha * inv_rms times what the projection is off; a sigmoid by a quarter of that at most. The
    softmax is off by twice the worst logit, relatively, and what follows divides such numbers by sums of them.
    """
    tensors, streams = magnitudes(inputs), inputs["x"].shape[-2]
    x = tensors["x"]
    before = flattened(x) @ tensors["phi"].T
    logits = of_logits(tensors["alpha"], streams) * before * outputs["inv_rms"]
    worst = logits[..., 2 * streams :].max(axis=-1, initial=0.0)
    terms = {
        "hc_before_norm": before,
        "inv_rms": outputs["inv_rms"],
        "h_pre": logits[..., :streams] / 4,
        "h_post": logits[..., streams : 2 * streams] / 2,
        "h_res": 4 * outputs["h_res"] * worst[..., np.newaxis],
        "sum_out": 4 * outputs["sum_out"] * worst[..., np.newaxis],
        "norm_out": 4 * outputs["norm_out"] * worst[..., np.newaxis, np.newaxis],
        "h_res_logits": np.zeros((1, 1)),
    }
    terms["h_in"] = np.einsum("...n,...nc->...c", outputs["h_pre"] + terms["h_pre"], x)
    if "h_res_logits" in outputs:
        terms["h_res_logits"] = np.zeros_like(outputs["h_res_logits"])
        terms["h_res_logits"][0] = logits[..., 2 * streams :].reshape(*worst.shape, streams, streams)
    return terms


def pre_backward_terms(
    cotangents: Mapping[str, Any],
    inputs: Mapping[str, Any],
    saved: Mapping[str, Any],
    hc_eps: float,
    inside: Any = 1.0,
) -> dict[str, Any]:
    """For each gradient of the pre-mapping the sum of its terms' magnitudes; ``inside`` is where logits have one."""
    tensors, values, streams = magnitudes(inputs), exact(saved), inputs["x"].shape[-2]
    x, gradient = tensors["x"], np.abs(cotangents["h_in"].astype(np.float64))
    flat = flattened(x)
    normed = values["hc_before_norm"] * values["inv_rms"]
    logits = of_logits(inputs["alpha"].astype(np.float64), streams) * normed + inputs["bias"].astype(np.float64)
    gate = values["h_pre"] - hc_eps
    spread = np.vectorize(sigmoid, otypes=[float])(logits[..., streams : 2 * streams])
    d_res = inside * sinkhorn_backward(
        cotangents["h_res"].astype(np.float64), values["sum_out"], values["norm_out"], hc_eps
    )
    d_logits = np.concatenate(
        [
            np.einsum("...nc,...c->...n", x, gradient) * np.abs(gate * (1 - gate)),
            np.abs(2 * cotangents["h_post"].astype(np.float64) * spread * (1 - spread)),
            np.abs(d_res).reshape(*d_res.shape[:-2], streams * streams),
        ],
        axis=-1,
    )
    tokens = tuple(range(d_logits.ndim - 1))
    by_alpha = d_logits * np.abs(normed)
    d_normed = d_logits * of_logits(tensors["alpha"], streams)
    d_projection = d_normed * values["inv_rms"]
    d_norm = (d_normed * np.abs(values["hc_before_norm"])).sum(axis=-1, keepdims=True)
    through_norm = d_norm * values["inv_rms"] ** 3 * flat / flat.shape[-1]
    through_mixing = np.abs(values["h_pre"])[..., np.newaxis] * gradient[..., np.newaxis, :]
    return {
        "x": through_mixing + (d_projection @ tensors["phi"] + through_norm).reshape(x.shape),
        "phi": np.tensordot(d_projection, flat, axes=(tokens, tokens)),
        "alpha": np.array([part.sum() for part in np.split(by_alpha, [streams, 2 * streams], axis=-1)]),
        "bias": d_logits.sum(axis=tokens),
    }


def pre_outputs(op: str, inputs: Mapping[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The reference's outputs by name, in float64."""
    function = mhc.pre_sinkhorn if op == PRE else mhc.pre_clamp_sinkhorn
    return dict(zip(output_names(op), function(**exact(inputs), **attributes), strict=True))


def output_names(op: str) -> tuple[str, ...]:
    return OUTPUTS if op == PRE else (*OUTPUTS, "h_res_logits")
