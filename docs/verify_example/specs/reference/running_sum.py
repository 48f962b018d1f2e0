# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A sum over a window, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def running_sum(x: NDArray[Any], weight: NDArray[Any], window: int = 2) -> NDArray[Any]:
    """Weighted sum of each token and those before it.

    Args:
        x: ``[B, S, D]``.
        weight: ``[D]``.
        window: How many tokens each token sees.

    Returns:
        ``[B, S]``, of the type of x.
    """
    weighted = x @ weight
    out: NDArray[Any] = np.zeros_like(weighted)
    for back in range(window):
        out[:, back:] += weighted[:, : weighted.shape[1] - back]
    return out
