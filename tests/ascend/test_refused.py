# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A kernel that refuses a call, or fails on the device: an error in Python that says what CANN says, and nothing lost."""

from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
from on_mindspore import MINDSPORE

from hyper_parallel import custom_ops
from hyper_parallel.native.flavours import MindSporeFlavour
from hyper_parallel.native.kernels import native_kernel
from tests.ascend.drawn_calls import bound
from tests.operators import kl_loss_calls, lse_cases, mhc_calls

INDEX_OF_SPARSE_MODE = 6


def lse_arguments():
    """Past the checks of the public function, which would be first."""
    tensors = lse_cases.draw("BSND", "float16", B=1, S1=2, S2=3)
    return [
        MINDSPORE.tensor(value) if isinstance(value, np.ndarray) else value for value in bound(lse_cases.OP, tensors)
    ]


def first_output(call, *arguments, **keywords):
    """Waited for: the host goes on before a kernel has been launched."""
    return MINDSPORE.array(call(*arguments, **keywords)[0])


def test_a_call_that_the_kernel_refuses(device):
    kernel = native_kernel(lse_cases.OP, MindSporeFlavour("Ascend"))
    arguments = lse_arguments()
    with pytest.raises(RuntimeError) as caught:
        first_output(kernel, *arguments[:INDEX_OF_SPARSE_MODE], 2, *arguments[INDEX_OF_SPARSE_MODE + 1 :])
    problem = "aclnnDenseLightningIndexerSoftmaxLse: sparseMode should be 3, but is 2"
    assert str(caught.value).startswith(f"For {lse_cases.OP}, CANN says: {problem}\n")
    assert "aclnnDenseLightningIndexerSoftmaxLseGetWorkspaceSize call failed" in str(caught.value)
    assert device.take_faults() == [problem]
    # The next call is not disturbed.
    assert np.isfinite(first_output(kernel, *arguments)).all()


def test_a_kernel_that_fails_on_the_device(device):
    """Positions of keys that are not there: only the kernel sees them, when the host has long gone on."""
    tensors, packed = kl_loss_calls.draw(kl_loss_calls.SPARSE, (1, 2), (1, 3), dtype="float16")
    tensors["sparse_indices"] = np.full_like(tensors["sparse_indices"], 1000)
    given = {name: MINDSPORE.tensor(value) for name, value in tensors.items()}
    with pytest.raises(RuntimeError):
        first_output(custom_ops.npu_sparse_lightning_indexer_grad_kl_loss, **given, **packed, scale_value=1.0)
    (fault,) = device.take_faults()
    assert "1000" in fault


def test_a_tensor_on_the_host(device):
    """The framework moves it to the device, as it does for its own operators."""
    tensors = mhc_calls.draw(mhc_calls.POST, (2,), "float16")
    on_host = [MINDSPORE.tensor(value).move_to("CPU") for value in tensors.values()]
    on_device = [MINDSPORE.tensor(value) for value in tensors.values()]
    outputs = [MINDSPORE.array(custom_ops.npu_mhc_post(*given)) for given in (on_host, on_device)]
    np.testing.assert_array_equal(*outputs)
    assert ms.get_context("device_target") == "Ascend"
