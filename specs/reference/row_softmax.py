# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The softmax over the keys of a row, in the two halves that kernels hand to each other: statistics and rebuilding."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def row_statistics(scores: NDArray[Any], mask: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Maximum and sum of ``exp(score - maximum)`` over the keys of ``scores [.., q, k]`` where ``mask [q, k]`` is True.

    A row without such a key has the maximum -inf and the sum 0.
    """
    masked = np.where(mask, scores, -np.inf)
    row_max = np.max(masked, axis=-1, initial=-np.inf)
    # -inf minus -inf is NaN: rows without a visible key are shifted by nothing, and exp(-inf) is the 0 they need.
    shift = np.where(np.isneginf(row_max), 0.0, row_max)
    return row_max, np.sum(np.exp(masked - shift[..., np.newaxis]), axis=-1)


def probabilities(
    scores: NDArray[Any], row_max: NDArray[Any], row_sum: NDArray[Any], mask: NDArray[np.bool_]
) -> NDArray[Any]:
    """The softmax ``[.., q, k]`` rebuilt from its statistics ``[.., q]``: 0 where ``mask`` is False."""
    # A sum that is NaN gives NaN; one of 0, of a row without keys, gives 0.
    # The mask comes before the exponential: a key that does not count may lie far above the maximum and overflow.
    shifted = np.where(mask, scores - row_max[..., np.newaxis], -np.inf)
    row_sum = row_sum[..., np.newaxis]
    result: NDArray[Any] = np.divide(np.exp(shifted), row_sum, out=np.zeros_like(shifted), where=row_sum != 0)
    return result
