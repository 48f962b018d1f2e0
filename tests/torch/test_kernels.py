# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What a kernel of the reference gives back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hyper_parallel import library
from hyper_parallel.platform.torch.custom_ops import custom_op_impl


def test_the_gradient_of_an_absent_tensor_may_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "reference", lambda _name: lambda x: (x + 1, None))
    present, absent = custom_op_impl.load_kernel.__wrapped__("npu_any")(torch.ones(2))
    assert absent is None
    assert np.array_equal(custom_op_impl.to_array(present), [2, 2])
