# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""How far a host kernel may be from the reference: the result's rounding, and that of the sums that lead to it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np


def ulp(values: Any, dtype: Any) -> Any:
    """The distance to the next number of that type, at each of the float64 values."""
    info = ml_dtypes.finfo(dtype)
    exponent = np.floor(np.log2(np.maximum(np.abs(values), float(info.smallest_normal))))
    return np.exp2(exponent) * float(info.eps)


def assert_close(got: Any, expected: Any, terms: Any, factor: float, eps: float, name: str = "") -> None:
    """``|got - expected| <= 2 ulp(expected) + factor * eps * terms``, and NaN where NaN is expected.

    Args:
        got: The kernel's output.
        expected: The same in float64, from the inputs in float64.
        terms: Sum of the magnitudes of the terms of which each entry is a sum.
        factor: What the kernel promises.
        eps: Of the type in which it computes.
    """
    expected = np.asarray(expected, dtype=np.float64)
    assert got.shape == expected.shape, name
    exact = got.astype(np.float64)
    with np.errstate(invalid="ignore"):
        excess = np.abs(exact - expected) - (2 * ulp(expected, got.dtype) + factor * eps * np.asarray(terms))
    wrong = ~((excess <= 0) | (exact == expected) | (np.isnan(exact) & np.isnan(expected)))
    if np.any(wrong):
        worst = np.unravel_index(np.argmax(np.where(wrong, np.nan_to_num(excess, nan=np.inf), -np.inf)), wrong.shape)
        raise AssertionError(
            f"{name}: {int(wrong.sum())} of {wrong.size} entries are too far off; at {tuple(map(int, worst))} "
            f"{exact[worst]!r} instead of {expected[worst]!r}, {excess[worst]:.3g} above the tolerance"
        )
