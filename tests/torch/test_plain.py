# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The seven operators on plain torch tensors: outputs and gradients bit for bit those of the references."""

from __future__ import annotations

import pytest
from on_torch import TORCH

from tests.operators.plain_table import check_plain, plain_calls

CALLS = dict(plain_calls())


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_equal_to_the_reference(call):
    check_plain(call, TORCH)
