# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The seven operators and their backward passes on MindSpore's Ascend backend.

The fake kernels compute with the kernels of `csrc/cpu`, so that outputs and gradients have the bits that NumPy has, if
every argument has reached its place; and the oracle's numbers within what half precision allows.
"""

from __future__ import annotations

import pytest
from on_mindspore import MINDSPORE

from tests.native_kernels.on_numpy import calls_on_numpy
from tests.native_kernels.test_plain import assert_near
from tests.operators.plain_table import assert_same, observed, plain_calls

ON_DEVICE = ("float16", "bfloat16")
CALLS = {name: call for name, call in plain_calls() if name.endswith(ON_DEVICE)}


@pytest.fixture(scope="module")
def on_numpy():
    return calls_on_numpy()


@pytest.mark.parametrize("name", CALLS)
def test_outputs_and_gradients(name, on_numpy):
    call = CALLS[name]
    outputs, gradients = observed(call, MINDSPORE)
    assert_same(outputs, on_numpy[name].outputs)
    assert_same(gradients, on_numpy[name].gradients)
    assert_near(outputs, call.outputs)
    assert_near(gradients, call.gradients, saved=call.outputs.values())


@pytest.mark.parametrize("name", [name for name, _ in plain_calls() if name.endswith("float64")][:1])
def test_a_dtype_that_npu_kernels_do_not_take(name):
    with pytest.raises(TypeError, match=r"x should have dtype .*bfloat16, float16.* got float64"):
        observed(dict(plain_calls())[name], MINDSPORE)
