# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""torch.ops.hyper_parallel.<op> on compiled kernels: the bits that NumPy has, and torch's own checks."""

from __future__ import annotations

import pytest
import torch
from test_library_operators import EAGER, given, operator

from tests.native_kernels.on_numpy import calls_on_numpy
from tests.operators.plain_table import check_plain, plain_calls

NAMES = [name for name, _ in plain_calls() if "in the middle" not in name]


@pytest.fixture(scope="module")
def on_numpy():
    return calls_on_numpy()


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith("float64")])
def test_the_bits_of_numpy(name, on_numpy):
    """Not in float64, where outputs have the dtypes of the references, whichever kernel computes them."""
    check_plain(on_numpy[name], EAGER)


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith("float16")])
def test_checks_of_torch(name, on_numpy):
    """What the kernel gives has the shapes and dtypes that are promised, with float64 too."""
    tensors, keywords = given(on_numpy[name])
    found = torch.library.opcheck(operator(on_numpy[name].op).default, (), tensors | keywords)
    assert set(found.values()) == {"SUCCESS"}
