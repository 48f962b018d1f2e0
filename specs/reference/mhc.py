# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Manifold-constrained hyper-connections: N residual streams that are mixed before and after every layer.

``post``, ``pre_sinkhorn`` and ``pre_clamp_sinkhorn`` are the operators ``npu_mhc_post``, ``npu_mhc_pre_sinkhorn`` and
``npu_mhc_pre_clamp_sinkhorn``; ``*_backward`` are their backward kernels. ``.`` in a shape stands for the tokens:
``B, S`` if x has four dims, ``T`` if it has three. Tensors are bfloat16, float16, float32 or float64. Everything is
computed in float64. Where an output is said to be float32, it is float64 if the first tensor is; a gradient always has
the type of its input. TypeError for a tensor of another type, ValueError for a shape or a value other than described.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .hyper_connection import Clamp, Mixing, Parameters, Saved, mixing, mixing_backward
from .tensor_checks import bind_dims, check_floating, output_type

Array = NDArray[Any]


def post(x: Array, h_res: Array, h_out: Array, h_post: Array) -> tuple[Array]:
    """Mixes the streams and adds the layer's output to each: ``out = h_res^T @ x + h_post (outer) h_out``.

    Args:
        x: ``[., N, D]``, the streams.
        h_res: ``[., N, N]``: stream m goes into stream n with the weight ``h_res[m, n]``.
        h_out: ``[., D]``, the layer's output.
        h_post: ``[., N]``, its weight in each stream.

    Returns:
        ``(out,)``, shaped and typed like x.
    """
    _check(_post_dims(x), x=x, h_res=h_res, h_out=h_out, h_post=h_post)
    streams, weights, output, spread = _float64(x, h_res, h_out, h_post)
    out = np.swapaxes(weights, -1, -2) @ streams + spread[..., np.newaxis] * output[..., np.newaxis, :]
    return (out.astype(x.dtype),)


def post_backward(
    grad_out: Array, x: Array, h_res: Array, h_out: Array, h_post: Array
) -> tuple[Array, Array, Array, Array]:
    """Gradients of ``post``: ``(d_x, d_h_res, d_h_out, d_h_post)`` from ``grad_out [., N, D]`` and the inputs."""
    _check(_post_dims(x), x=x, h_res=h_res, h_out=h_out, h_post=h_post, grad_out=grad_out)
    gradient, streams, weights, output, spread = _float64(grad_out, x, h_res, h_out, h_post)
    d_x = weights @ gradient
    d_h_res = streams @ np.swapaxes(gradient, -1, -2)
    d_h_out = np.einsum("...n,...nd->...d", spread, gradient)
    d_h_post = np.einsum("...nd,...d->...n", gradient, output)
    return d_x.astype(x.dtype), d_h_res.astype(h_res.dtype), d_h_out.astype(h_out.dtype), d_h_post.astype(h_post.dtype)


def pre_sinkhorn(
    x: Array,
    phi: Array,
    alpha: Array,
    bias: Array,
    hc_mult: int = 4,
    num_iters: int = 20,
    hc_eps: float = 1e-6,
    norm_eps: float = 1e-6,
    out_flag: bool = True,  # noqa: ARG001 (the kernel's argument; every output is returned in either case)
) -> tuple[Array, Array, Array, Array, Array, Array, Array, Array]:
    """The layer's input and the weights for ``post``, from the streams.

    ``xf = flatten(x)``, ``inv_rms = 1 / sqrt(mean(xf^2) + norm_eps)``, ``hc_before_norm = xf @ phi^T`` and
    ``h = alpha * (hc_before_norm * inv_rms) + bias``, whose rows are those of pre (N, alpha[0]), of post (N, alpha[1])
    and of res (N*N, alpha[2]); ``h_pre = sigmoid(pre) + hc_eps``, ``h_post = 2 * sigmoid(post)``,
    ``h_in = sum_n h_pre[n] * x[n, :]``. Sinkhorn iterations make res doubly stochastic: ``norm_out[0] = softmax of the
    rows + hc_eps``, then columns (odd steps) and rows (even ones) are divided by ``sum_out``, their sums + hc_eps.

    Args:
        x: ``[., N, C]``, the streams.
        phi: ``[N*N + 2*N, N*C]``.
        alpha: ``[3]``.
        bias: ``[N*N + 2*N]``.
        hc_mult: N.
        num_iters: Sinkhorn iterations, at least 1. The first one is the softmax and the columns.
        hc_eps: Added to the softmax, to the sums, and to h_pre.
        norm_eps: Added to the mean square.
        out_flag: Whether the caller wants what is there for the backward. It is there in either case.

    Returns:
        ``h_in [., C]`` typed like x, and float32 ``h_post [., N]``, ``h_res [., N*N]`` (the last matrix), and for the
        backward ``h_pre [., N]``, ``hc_before_norm [., N*N + 2*N]``, ``inv_rms [., 1]``, ``sum_out [2 * num_iters, .,
        N]`` (its step 0 is zeros) and ``norm_out [2 * num_iters, ., N, N]``.
    """
    mixed = _mixing(x, phi, alpha, bias, hc_mult, num_iters, hc_eps, norm_eps, Clamp())
    return _pre_outputs(x, mixed)


def pre_sinkhorn_backward(
    grad_h_in: Array,
    grad_h_post: Array,
    grad_h_res: Array,
    x: Array,
    phi: Array,
    alpha: Array,
    bias: Array,
    h_pre: Array,
    hc_before_norm: Array,
    inv_rms: Array,
    sum_out: Array,
    norm_out: Array,
    hc_eps: float,
) -> tuple[Array, Array, Array, Array]:
    """Gradients of ``pre_sinkhorn``: ``(d_x, d_phi, d_alpha, d_bias)``, the last three sums over the tokens.

    Args:
        grad_h_in: ``[., C]``.
        grad_h_post: ``[., N]``.
        grad_h_res: ``[., N, N]``: two dims where the output has one.
        x, phi, alpha, bias: The inputs.
        h_pre, hc_before_norm, inv_rms, sum_out, norm_out: The outputs. Nothing that they hold is computed again.
        hc_eps: That of the forward.
    """
    saved = (h_pre, hc_before_norm, inv_rms, sum_out, norm_out)
    return _backward((grad_h_in, grad_h_post, grad_h_res), (x, phi, alpha, bias), saved, hc_eps, Clamp(), None)


def pre_clamp_sinkhorn(
    x: Array,
    phi: Array,
    alpha: Array,
    bias: Array,
    hc_mult: int = 4,
    num_iters: int = 20,
    hc_eps: float = 1e-6,
    norm_eps: float = 1e-6,
    out_flag: bool = True,  # noqa: ARG001 (the kernel's argument; every output is returned in either case)
    clamp_min: float = 0.0,
    clamp_max: float = 0.0,
) -> tuple[Array, Array, Array, Array, Array, Array, Array, Array, Array]:
    """``pre_sinkhorn`` with bounded residual logits.

    How the kernel clamps is not published; the definition here is ours: before the Sinkhorn iterations the residual
    logits are clamped to ``[clamp_min, clamp_max]`` if ``clamp_min < clamp_max``, and not clamped otherwise, as by
    default.

    Args:
        x, phi, alpha, bias, hc_mult, num_iters, hc_eps, norm_eps, out_flag: As for ``pre_sinkhorn``.
        clamp_min: Lower bound.
        clamp_max: Upper bound.

    Returns:
        The outputs of ``pre_sinkhorn``, and ``h_res_logits [2 * num_iters, ., N, N]``, float32: the logits before the
        clamp in step 0 and zeros in the others, which have none.
    """
    mixed = _mixing(x, phi, alpha, bias, hc_mult, num_iters, hc_eps, norm_eps, Clamp(clamp_min, clamp_max))
    h_res_logits = np.zeros(mixed.saved.norm_out.shape, dtype=output_type(x, np.float32))
    h_res_logits[0] = mixed.logits
    return (*_pre_outputs(x, mixed), h_res_logits)


def pre_clamp_sinkhorn_backward(
    grad_h_in: Array,
    grad_h_post: Array,
    grad_h_res: Array,
    x: Array,
    phi: Array,
    alpha: Array,
    bias: Array,
    h_pre: Array,
    hc_before_norm: Array,
    inv_rms: Array,
    sum_out: Array,
    norm_out: Array,
    h_res_logits: Array,
    hc_eps: float,
    clamp_min: float,
    clamp_max: float,
) -> tuple[Array, Array, Array, Array]:
    """Gradients of ``pre_clamp_sinkhorn``: those of ``pre_sinkhorn_backward``, but where a clamp holds, a residual
    logit has a gradient only if ``clamp_min <= logit <= clamp_max``; ``h_res_logits`` is the forward's ninth output.
    """
    saved = (h_pre, hc_before_norm, inv_rms, sum_out, norm_out)
    gradients, inputs = (grad_h_in, grad_h_post, grad_h_res), (x, phi, alpha, bias)
    return _backward(gradients, inputs, saved, hc_eps, Clamp(clamp_min, clamp_max), h_res_logits)


def _mixing(
    x: Array,
    phi: Array,
    alpha: Array,
    bias: Array,
    hc_mult: int,
    num_iters: int,
    hc_eps: float,
    norm_eps: float,
    clamp: Clamp,
) -> Mixing:
    _check(_pre_dims(x), x=x, phi=phi, alpha=alpha, bias=bias)
    if x.shape[-2] != hc_mult:
        raise ValueError(f"hc_mult should be N, the {x.shape[-2]} streams of x, but got {hc_mult}.")
    if num_iters < 1:
        raise ValueError(f"num_iters should be at least 1, but got {num_iters}.")
    streams, *parameters = _float64(x, phi, alpha, bias)
    return mixing(streams, Parameters(*parameters), num_iters, hc_eps, norm_eps, clamp)


def _pre_outputs(x: Array, mixed: Mixing) -> tuple[Array, Array, Array, Array, Array, Array, Array, Array]:
    """The outputs that both operators have, in their types."""
    kind = output_type(x, np.float32)
    h_res = mixed.h_res.reshape(*x.shape[:-2], x.shape[-2] ** 2)
    h_pre, hc_before_norm, inv_rms, sum_out, norm_out = (tensor.astype(kind) for tensor in mixed.saved)
    h_in = mixed.h_in.astype(x.dtype)
    return h_in, mixed.h_post.astype(kind), h_res.astype(kind), h_pre, hc_before_norm, inv_rms, sum_out, norm_out


def _backward(
    gradients: tuple[Array, Array, Array],
    inputs: tuple[Array, Array, Array, Array],
    saved: tuple[Array, Array, Array, Array, Array],
    hc_eps: float,
    clamp: Clamp,
    h_res_logits: Array | None,
) -> tuple[Array, Array, Array, Array]:
    named = dict(zip(("x", "phi", "alpha", "bias"), inputs, strict=True))
    named |= dict(zip(("grad_h_in", "grad_h_post", "grad_h_res"), gradients, strict=True))
    named |= dict(zip(Saved._fields, saved, strict=True))
    logits = saved[-1] if h_res_logits is None else h_res_logits
    steps = _check(_pre_dims(inputs[0]), **named, h_res_logits=logits)["I"]
    if steps < 2 or steps % 2:
        raise ValueError(f"I (dim 0) of sum_out and norm_out should be 2 * num_iters, but is {steps}.")
    x, *parameters = _float64(*inputs)
    grad_h_in, grad_h_post, grad_h_res = _float64(*gradients)
    d_x, d_parameters = mixing_backward(
        (grad_h_in, grad_h_post, grad_h_res),
        x,
        Parameters(*parameters),
        Saved(*_float64(*saved)),
        hc_eps,
        clamp,
        logits[0].astype(np.float64),
    )
    d_phi, d_alpha, d_bias = (
        gradient.astype(tensor.dtype) for gradient, tensor in zip(d_parameters, inputs[1:], strict=True)
    )
    return d_x.astype(inputs[0].dtype), d_phi, d_alpha, d_bias


def _tokens(x: Array) -> str:
    """The dims of the tokens: the format is the rank of x."""
    if x.ndim not in (3, 4):
        raise ValueError(f"x should have 4 dims (B S N and the width) or 3 (T N and the width), but has {x.shape}.")
    return "B S" if x.ndim == 4 else "T"


def _post_dims(x: Array) -> dict[str, str]:
    tokens = _tokens(x)
    streams = f"{tokens} N D"
    return {"x": streams, "h_res": f"{tokens} N N", "h_out": f"{tokens} D", "h_post": f"{tokens} N"} | {
        "grad_out": streams
    }


def _pre_dims(x: Array) -> dict[str, str]:
    tokens = _tokens(x)
    streams, width = x.shape[-2:]
    weights = streams * streams + 2 * streams
    return {
        "x": f"{tokens} N C",
        "phi": f"{weights} {streams * width}",
        "alpha": "3",
        "bias": f"{weights}",
        "grad_h_in": f"{tokens} C",
        "grad_h_post": f"{tokens} N",
        "grad_h_res": f"{tokens} N N",
        "h_pre": f"{tokens} N",
        "hc_before_norm": f"{tokens} {weights}",
        "inv_rms": f"{tokens} 1",
        "sum_out": f"I {tokens} N",
        "norm_out": f"I {tokens} N N",
        "h_res_logits": f"I {tokens} N N",
    }


def _check(dims: dict[str, str], **tensors: Array) -> dict[str, int]:
    """The extents of the dim names, once the tensors are known to fit each other."""
    check_floating(**tensors)
    return bind_dims(dims, **tensors)


def _float64(*tensors: Array) -> list[Array]:
    return [tensor.astype(np.float64) for tensor in tensors]
