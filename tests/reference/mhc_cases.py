# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors for the hyper-connections, and their mathematics once more, one token at a time by loops over floats."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .kl_cases import TYPES

TOKENS = [(2, 3), (5,), (1, 1), (0, 2), (0,)]  # leading dims of the formats B S and T
OUTPUTS = ("h_in", "h_post", "h_res", "h_pre", "hc_before_norm", "inv_rms", "sum_out", "norm_out")
SAVED = OUTPUTS[3:]
# Far larger than in use, so that one in a wrong place shows.
HC_EPS, NORM_EPS = 0.05, 0.3


def draw_post(tokens: tuple[int, ...], dtype: str = "float64", streams: int = 3, width: int = 4) -> dict[str, Any]:
    rng = np.random.default_rng([*tokens, streams])
    others = "float64" if dtype == "float64" else "float32"
    return {
        "x": rng.standard_normal((*tokens, streams, width)).astype(TYPES[dtype]),
        "h_res": rng.standard_normal((*tokens, streams, streams)).astype(TYPES[others]),
        "h_out": rng.standard_normal((*tokens, width)).astype(TYPES[dtype]),
        "h_post": rng.standard_normal((*tokens, streams)).astype(TYPES[others]),
    }


def draw_pre(tokens: tuple[int, ...], dtype: str = "float64", streams: int = 3, width: int = 4) -> dict[str, Any]:
    rng = np.random.default_rng([*tokens, streams])
    others = "float64" if dtype == "float64" else "float32"
    rows = streams * streams + 2 * streams
    return {
        "x": rng.standard_normal((*tokens, streams, width)).astype(TYPES[dtype]),
        "phi": rng.standard_normal((rows, streams * width)).astype(TYPES[others]),
        "alpha": np.array([0.4, -0.7, 0.5], dtype=TYPES[others]),
        "bias": rng.standard_normal(rows).astype(TYPES[others]),
    }


def pre_by_loops(
    inputs: dict[str, Any], num_iters: int, hc_eps: float, norm_eps: float, clamp: tuple[float, float] | None = None
) -> dict[str, Any]:
    """The outputs of every token, and the residual logits ``[., N, N]`` before the clamp as ``logits``."""
    x = inputs["x"].astype(np.float64)
    tokens, streams = x.shape[:-2], x.shape[-2]
    phi, alpha, bias = (inputs[name].astype(np.float64).tolist() for name in ("phi", "alpha", "bias"))
    shapes = {
        "h_in": x.shape[-1:],
        "h_post": (streams,),
        "h_res": (streams * streams,),
        "h_pre": (streams,),
        "hc_before_norm": (streams * streams + 2 * streams,),
        "inv_rms": (1,),
        "sum_out": (2 * num_iters, streams),
        "norm_out": (2 * num_iters, streams, streams),
        "logits": (streams, streams),
    }
    outputs = {name: np.zeros((*tokens, *shape)) for name, shape in shapes.items()}
    for place in np.ndindex(tokens):
        token = pre_of_token(x[place].tolist(), phi, alpha, bias, num_iters, hc_eps, norm_eps, clamp)
        for name, value in token.items():
            outputs[name][place] = np.array(value).reshape(shapes[name])
    for name in ("sum_out", "norm_out"):
        outputs[name] = np.moveaxis(outputs[name], len(tokens), 0)
    return outputs


def sigmoid(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-value))


def pre_of_token(
    x: list[list[float]],
    phi: list[list[float]],
    alpha: list[float],
    bias: list[float],
    num_iters: int,
    hc_eps: float,
    norm_eps: float,
    clamp: tuple[float, float] | None,
) -> dict[str, Any]:
    streams = len(x)
    flat = [value for row in x for value in row]
    inv_rms = 1.0 / math.sqrt(sum(value * value for value in flat) / len(flat) + norm_eps)
    before = [sum(a * b for a, b in zip(row, flat, strict=True)) for row in phi]
    h = []
    for row, value in enumerate(before):
        part = 0 if row < streams else 1 if row < 2 * streams else 2
        h.append(alpha[part] * (value * inv_rms) + bias[row])
    h_pre = [sigmoid(value) + hc_eps for value in h[:streams]]
    logits = [h[2 * streams + n * streams : 2 * streams + (n + 1) * streams] for n in range(streams)]
    matrix = []
    for row in logits:
        clamped = row if clamp is None else [min(max(value, clamp[0]), clamp[1]) for value in row]
        total = sum(math.exp(value) for value in clamped)
        matrix.append([math.exp(value) / total + hc_eps for value in clamped])
    sums, norms = [[0.0] * streams], [matrix]
    for step in range(1, 2 * num_iters):
        if step % 2:
            totals = [sum(matrix[m][n] for m in range(streams)) + hc_eps for n in range(streams)]
            matrix = [[matrix[m][n] / totals[n] for n in range(streams)] for m in range(streams)]
        else:
            totals = [sum(matrix[m]) + hc_eps for m in range(streams)]
            matrix = [[matrix[m][n] / totals[m] for n in range(streams)] for m in range(streams)]
        sums.append(totals)
        norms.append(matrix)
    return {
        "h_in": [sum(h_pre[n] * x[n][c] for n in range(streams)) for c in range(len(x[0]))],
        "h_post": [2.0 * sigmoid(value) for value in h[streams : 2 * streams]],
        "h_res": matrix,
        "h_pre": h_pre,
        "hc_before_norm": before,
        "inv_rms": [inv_rms],
        "sum_out": sums,
        "norm_out": norms,
        "logits": logits,
    }
