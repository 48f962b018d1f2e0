# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors that are parts of others: what reaches a kernel is the part, contiguous."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from on_mindspore import MINDSPORE

from tests.operators.plain_table import assert_same, observed, plain_calls

CALLS = {name: call for name, call in plain_calls() if name.endswith("float16") and "empty" not in name}


def behind_others(value):
    """Contiguous, at an offset."""
    return MINDSPORE.tensor(np.stack([np.full_like(value, 3), value]))[1]


def between_others(value):
    """Every second element, at an offset."""
    return MINDSPORE.tensor(np.stack([np.full_like(value, 3), value], axis=-1))[..., 1]


def turned(value):
    """The last two dims the other way round."""
    if value.ndim < 2:
        return between_others(value)
    return MINDSPORE.tensor(np.ascontiguousarray(value.swapaxes(-1, -2))).swapaxes(-1, -2)


@pytest.mark.parametrize("view", [behind_others, between_others, turned])
@pytest.mark.parametrize("name", CALLS)
def test_the_bits_of_whole_tensors(name, view):
    call = CALLS[name]
    outputs, gradients = observed(call, MINDSPORE)
    given_outputs, given_gradients = observed(call, MINDSPORE._replace(tensor=view))
    assert_same(given_outputs, outputs)
    assert_same(given_gradients, gradients)


def test_they_are_views():
    """Otherwise the tests above would show nothing."""
    value = np.arange(6, dtype=ml_dtypes.bfloat16).reshape(2, 3)
    assert behind_others(value).is_contiguous()
    assert behind_others(value).storage_offset() == value.size
    assert between_others(value).storage_offset() == 1
    assert not between_others(value).is_contiguous()
    assert not turned(value).is_contiguous()
