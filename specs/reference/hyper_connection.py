# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The mathematics in front of a manifold-constrained hyper-connection, in float64, for any leading dims (``.`` below).

From N streams of width C come the weights that mix them into one input (pre), that spread the output over them (post),
and that mix them among themselves (res, made doubly stochastic).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .sinkhorn import sinkhorn, sinkhorn_backward


class Parameters(NamedTuple):
    """``phi [N*N + 2*N, N*C]``, ``alpha [3]`` (pre, post, res), ``bias [N*N + 2*N]``; their gradients likewise."""

    phi: NDArray[Any]
    alpha: NDArray[Any]
    bias: NDArray[Any]


class Saved(NamedTuple):
    """What the backward needs of the forward: shapes as the operator's outputs of these names."""

    h_pre: NDArray[Any]
    hc_before_norm: NDArray[Any]
    inv_rms: NDArray[Any]
    sum_out: NDArray[Any]
    norm_out: NDArray[Any]


class Mixing(NamedTuple):
    """The forward's result: ``h_in [., C]``, ``h_post [., N]``, ``h_res [., N, N]``, ``logits [., N, N]`` before the
    clamp, and what is saved."""

    h_in: NDArray[Any]
    h_post: NDArray[Any]
    h_res: NDArray[Any]
    logits: NDArray[Any]
    saved: Saved


class Clamp(NamedTuple):
    """Bounds of the residual logits. They hold if ``low < high``."""

    low: float = 0.0
    high: float = 0.0

    def apply(self, logits: NDArray[Any]) -> NDArray[Any]:
        return np.clip(logits, self.low, self.high) if self.low < self.high else logits

    def backward(self, gradient: NDArray[Any], logits: NDArray[Any]) -> NDArray[Any]:
        """The gradient where the logit lies within the bounds, these included."""
        if not self.low < self.high:
            return gradient
        result: NDArray[Any] = gradient * ((self.low <= logits) & (logits <= self.high))
        return result


def mixing(
    x: NDArray[Any], parameters: Parameters, num_iters: int, hc_eps: float, norm_eps: float, clamp: Clamp
) -> Mixing:
    """The forward from ``x [., N, C]``."""
    streams = x.shape[-2]
    flat = _flat(x)
    inv_rms = 1.0 / np.sqrt(np.mean(flat * flat, axis=-1, keepdims=True) + norm_eps)
    hc_before_norm = flat @ parameters.phi.T
    weights = _weights_before_activation(hc_before_norm, inv_rms, parameters, streams)
    pre, post, res = _parts(weights, streams)
    h_pre = _sigmoid(pre) + hc_eps
    logits = res.reshape(*res.shape[:-1], streams, streams)
    sums, norms = sinkhorn(clamp.apply(logits), num_iters, hc_eps)
    h_in = np.einsum("...n,...nc->...c", h_pre, x)
    return Mixing(h_in, 2.0 * _sigmoid(post), norms[-1], logits, Saved(h_pre, hc_before_norm, inv_rms, sums, norms))


def mixing_backward(
    gradients: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    x: NDArray[Any],
    parameters: Parameters,
    saved: Saved,
    hc_eps: float,
    clamp: Clamp,
    logits: NDArray[Any],
) -> tuple[NDArray[Any], Parameters]:
    """Gradients of ``x`` and of the parameters from those of ``h_in``, ``h_post`` and ``h_res [., N, N]``."""
    grad_h_in, grad_h_post, grad_h_res = gradients
    streams = x.shape[-2]
    weights = _weights_before_activation(saved.hc_before_norm, saved.inv_rms, parameters, streams)
    _, post, _ = _parts(weights, streams)
    gate, spread = saved.h_pre - hc_eps, _sigmoid(post)
    d_pre = np.einsum("...nc,...c->...n", x, grad_h_in) * gate * (1.0 - gate)
    d_post = 2.0 * grad_h_post * spread * (1.0 - spread)
    d_res = clamp.backward(sinkhorn_backward(grad_h_res, saved.sum_out, saved.norm_out, hc_eps), logits)
    d_weights = np.concatenate([d_pre, d_post, d_res.reshape(*d_res.shape[:-2], streams * streams)], axis=-1)
    d_flat, d_parameters = _projection_backward(d_weights, _flat(x), parameters, saved, streams)
    d_x = saved.h_pre[..., np.newaxis] * grad_h_in[..., np.newaxis, :] + d_flat.reshape(x.shape)
    return d_x, d_parameters


def _projection_backward(
    d_weights: NDArray[Any], flat: NDArray[Any], parameters: Parameters, saved: Saved, streams: int
) -> tuple[NDArray[Any], Parameters]:
    """Through ``alpha * (flat @ phi^T * inv_rms) + bias``, with ``inv_rms = (mean(flat^2) + eps) ** -0.5``."""
    tokens = tuple(range(flat.ndim - 1))
    by_alpha = d_weights * saved.hc_before_norm * saved.inv_rms
    d_alpha = np.array([part.sum() for part in _parts(by_alpha, streams)])
    d_normed = d_weights * _alpha_per_row(parameters.alpha, streams)
    d_projection = d_normed * saved.inv_rms
    d_inv_rms = (d_normed * saved.hc_before_norm).sum(axis=-1, keepdims=True)
    d_flat = d_projection @ parameters.phi - d_inv_rms * saved.inv_rms**3 * flat / flat.shape[-1]
    d_phi = np.tensordot(d_projection, flat, axes=(tokens, tokens))
    return d_flat, Parameters(d_phi, d_alpha, d_weights.sum(axis=tokens))


def _weights_before_activation(
    hc_before_norm: NDArray[Any], inv_rms: NDArray[Any], parameters: Parameters, streams: int
) -> NDArray[Any]:
    """``[., N*N + 2*N]``: pre, post and res one after the other."""
    weights: NDArray[Any] = _alpha_per_row(parameters.alpha, streams) * (hc_before_norm * inv_rms) + parameters.bias
    return weights


def _alpha_per_row(alpha: NDArray[Any], streams: int) -> NDArray[Any]:
    return np.repeat(alpha, [streams, streams, streams * streams])


def _parts(weights: NDArray[Any], streams: int) -> list[NDArray[Any]]:
    """Pre ``[., N]``, post ``[., N]`` and res ``[., N*N]`` of ``[., N*N + 2*N]``."""
    return np.split(weights, [streams, 2 * streams], axis=-1)


def _flat(x: NDArray[Any]) -> NDArray[Any]:
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


def _sigmoid(x: NDArray[Any]) -> NDArray[Any]:
    # exp(-logaddexp(0, -x)) is 1 / (1 + exp(-x)) without the overflow for very negative x.
    result: NDArray[Any] = np.exp(-np.logaddexp(0.0, -x))
    return result
