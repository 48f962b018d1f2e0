# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The seven operators on compiled kernels on MindSpore: outputs and gradients with the bits that NumPy has."""

from __future__ import annotations

import pytest
from on_mindspore import MINDSPORE

from tests.native_kernels.on_numpy import calls_on_numpy
from tests.operators.plain_table import check_plain, plain_calls


@pytest.fixture(scope="module")
def on_numpy():
    return calls_on_numpy()


@pytest.mark.parametrize("name", dict(plain_calls()))
def test_the_bits_of_numpy(name, on_numpy):
    check_plain(on_numpy[name], MINDSPORE)
