# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The seven operators on compiled kernels through the public functions, on NumPy: outputs and gradients of the oracle.

What each kernel's error may be, term by term, is tested in tests/cpp; here is that the operator reaches its kernel.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.operators.plain_table import observed, plain_calls
from tests.operators.sharded_calls import NUMPY, PRECISION

CALLS = dict(plain_calls())


def assert_near(given, expected, saved=()):
    """``saved``: what the forward keeps for a backward kernel, which is no more exact than that."""
    least = max((PRECISION[value.dtype.name] for value in saved if value.dtype == np.float32), default=0.0)
    assert given.keys() == expected.keys()
    for name, value in expected.items():
        assert given[name].shape == value.shape, name
        if value.dtype.kind in "iub":
            np.testing.assert_array_equal(given[name], value, err_msg=name)
            continue
        # Kernels give float32 where a reference keeps the float64 of its inputs.
        precision = max(PRECISION[given[name].dtype.name], least)
        wide, oracle = given[name].astype(np.float64), value.astype(np.float64)
        scale = np.max(np.abs(oracle), initial=0.0, where=np.isfinite(oracle))
        np.testing.assert_allclose(wide, oracle, rtol=2 * precision, atol=2 * precision * scale, err_msg=name)


@pytest.mark.parametrize("name", CALLS)
def test_near_the_oracle(name):
    outputs, gradients = observed(CALLS[name], NUMPY)
    assert_near(outputs, CALLS[name].outputs)
    assert_near(gradients, CALLS[name].gradients, saved=outputs.values())


@pytest.mark.parametrize("name", CALLS)
def test_the_same_bits_every_time(name):
    first, again = (observed(CALLS[name], NUMPY) for _ in range(2))
    for before, after in zip(first, again, strict=True):
        assert {key: value.tobytes() for key, value in before.items()} == {
            key: value.tobytes() for key, value in after.items()
        }


def test_every_type_has_a_precision():
    assert {np.dtype(ml_dtypes.bfloat16).name, "float16", "float32", "float64"} == set(PRECISION)
