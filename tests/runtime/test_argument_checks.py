# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What generated checks compute with."""

from __future__ import annotations

import math

import pytest

from hyper_parallel.core.shard.argument_checks import factorial


@pytest.mark.parametrize("n", range(21))
def test_factorial_in_64_bits(n: int) -> None:
    assert factorial(n) == math.prod(range(1, n + 1)) < 2**63


@pytest.mark.parametrize("n", [-1, 21, 10**9])
def test_a_factorial_outside_of_64_bits_is_refused_at_once(n: int) -> None:
    """An extent of a million would otherwise be computed with for minutes."""
    with pytest.raises(ValueError, match=rf"fact\({n}\) is outside of fact\(0\) to fact\(20\)"):
        factorial(n)
