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


@pytest.mark.parametrize(
    ("tensor", "kind"),
    [
        (torch.ones(2, device="meta"), "meta"),
        (torch.ones(2, 2).to_sparse(), "sparse_coo"),
        (torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged), "nested|jagged"),
    ],
    ids=["meta", "sparse", "nested"],
)
def test_tensors_without_dense_memory_are_refused(tensor: torch.Tensor, kind: str) -> None:
    with pytest.raises(TypeError, match=f"kernels take dense tensors in memory, but got a ({kind}) tensor"):
        custom_op_impl.to_array(tensor)


def test_a_negated_view_has_its_values() -> None:
    view = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
    assert view.is_neg()
    assert np.array_equal(custom_op_impl.to_array(view), [-2.0, 4.0])
