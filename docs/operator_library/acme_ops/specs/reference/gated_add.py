"""The kernels of acme_gated_add in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np


def forward(x: Any, branch: Any, gate: Any) -> tuple[Any]:
    """`x`, `branch` [..., D], `gate` [D] -> `out` [..., D] in the dtype of `x`."""
    out = x.astype(np.float64) + sigmoid(gate) * branch.astype(np.float64)
    return (out.astype(x.dtype),)


def backward(grad_out: Any, branch: Any, gate: Any) -> tuple[Any, Any, Any]:
    """The gradients of `x`, `branch` and `gate`, each in the dtype of its tensor."""
    opening, incoming = sigmoid(gate), grad_out.astype(np.float64)
    tokens = tuple(range(grad_out.ndim - 1))
    d_gate = opening * (1 - opening) * np.sum(incoming * branch.astype(np.float64), axis=tokens)
    return grad_out.copy(), (opening * incoming).astype(branch.dtype), d_gate.astype(gate.dtype)


def sigmoid(logits: Any) -> Any:
    return 1 / (1 + np.exp(-logits.astype(np.float64)))
