# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Sinkhorn iterations: a positive matrix made doubly stochastic by dividing rows and columns by their sums in turn.

Step 0 is the softmax of the rows; odd steps divide by the sums of the columns, even ones by the sums of the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

ROW, COLUMN = -1, -2  # the axis over which the sum of a row, or of a column, runs


def sinkhorn(logits: NDArray[Any], num_iters: int, hc_eps: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Every step from ``logits [.., N, N]``: the sums ``[2 * num_iters, .., N]``, the matrices ``[.., .., N, N]``.

    ``hc_eps`` is added to the softmax and to every sum. The sums of step 0 are zeros, the softmax having none.
    """
    norms = np.empty((2 * num_iters, *logits.shape))
    sums = np.zeros((2 * num_iters, *logits.shape[:-1]))
    exponentials = np.exp(logits - logits.max(axis=ROW, keepdims=True))
    norms[0] = exponentials / exponentials.sum(axis=ROW, keepdims=True) + hc_eps
    for step in range(1, 2 * num_iters):
        axis = _axis(step)
        sums[step] = norms[step - 1].sum(axis=axis) + hc_eps
        norms[step] = norms[step - 1] / np.expand_dims(sums[step], axis)
    return sums, norms


def sinkhorn_backward(gradient: NDArray[Any], sums: NDArray[Any], norms: NDArray[Any], hc_eps: float) -> NDArray[Any]:
    """Gradient of the logits from that of the last matrix, walking back over the steps that ``sinkhorn`` returned.

    With ``y = a / (sum(a) + eps)``, ``da = (dy - sum(dy * y)) / (sum(a) + eps)``.
    """
    for step in range(len(norms) - 1, 0, -1):
        axis = _axis(step)
        inner = (gradient * norms[step]).sum(axis=axis, keepdims=True)
        gradient = (gradient - inner) / np.expand_dims(sums[step], axis)
    softmax = norms[0] - hc_eps
    inner = (gradient * softmax).sum(axis=ROW, keepdims=True)
    result: NDArray[Any] = softmax * (gradient - inner)
    return result


def _axis(step: int) -> int:
    return COLUMN if step % 2 else ROW
