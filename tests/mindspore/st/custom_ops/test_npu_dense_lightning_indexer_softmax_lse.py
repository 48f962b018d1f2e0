# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""npu_dense_lightning_indexer_softmax_lse on one device: against the oracle, and bit for bit against other frameworks.

On the CPU the other framework is NumPy, with the same kernel compiled for it. Where there is an NPU, it is torch_npu,
whose kernel is the one that MindSpore launches.
"""

from __future__ import annotations

import importlib.util

import mindspore as ms
import ml_dtypes
import numpy as np
import pytest
from on_mindspore import MINDSPORE

from hyper_parallel import custom_ops
from hyper_parallel.native.flavours import HostFlavour
from hyper_parallel.native.kernels import native_kernel
from hyper_parallel.reference.dense_lightning_indexer import INT64_MAX, softmax_lse
from tests.operators import lse_cases

OP = lse_cases.OP
DTYPES = ("float16", "bfloat16", "float32")
HAS_NPU = ms.get_context("device_target") == "Ascend" and importlib.util.find_spec("torch_npu") is not None

DOCUMENTS = {
    "one": ([5], [7]),
    "ragged": ([2, 5, 6], [3, 9, 12]),
    "empty": ([0, 3, 3, 6], [1, 4, 6, 9]),
    "more queries than keys": ([4, 6], [2, 6]),
}


def fixed(dtype):
    return lse_cases.draw("BSND", dtype, B=2, S1=3, S2=5), {}


def packed(name, dtype):
    queries, keys = DOCUMENTS[name]
    tensors = lse_cases.draw("TND", dtype, T1=queries[-1], T2=keys[-1])
    return tensors, {"layout": "TND", "actual_seq_qlen": queries, "actual_seq_klen": keys}


def cases():
    for dtype in DTYPES:
        yield pytest.param(*fixed(dtype), id=f"BSND {dtype}")
        for name in DOCUMENTS:
            yield pytest.param(*packed(name, dtype), id=f"TND {name} {dtype}")


def on_mindspore(tensors, keywords):
    found = getattr(custom_ops, OP)(*map(MINDSPORE.tensor, tensors.values()), **keywords)
    return [MINDSPORE.array(output) for output in found]


def by_position(tensors, keywords):
    lengths = [keywords.get(name) for name in ("actual_seq_qlen", "actual_seq_klen")]
    return (*tensors.values(), *lengths, keywords.get("layout", "BSND"), 3, INT64_MAX, INT64_MAX)


@pytest.mark.parametrize(("tensors", "keywords"), list(cases()))
def test_near_the_oracle(tensors, keywords):
    for given, expected in zip(
        on_mindspore(tensors, keywords), softmax_lse(*tensors.values(), **keywords), strict=True
    ):
        assert given.dtype == expected.dtype == np.float32
        np.testing.assert_allclose(given, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("tensors", "keywords"), list(cases()))
def test_the_bits_of_numpy(tensors, keywords):
    expected = native_kernel(OP, HostFlavour())(*by_position(tensors, keywords))
    for given, value in zip(on_mindspore(tensors, keywords), expected, strict=True):
        assert given.tobytes() == value.tobytes()


@pytest.mark.skipif(not HAS_NPU, reason="compares with torch_npu on an NPU, which this machine does not have")
@pytest.mark.parametrize(("tensors", "keywords"), list(cases()))
def test_the_bits_of_torch_npu(tensors, keywords):
    import torch
    import torch_npu

    def to_npu(array):
        wide = torch.from_numpy(array.astype(np.float32))
        return wide.to(getattr(torch, np.dtype(array.dtype).name)).npu()

    found = getattr(torch_npu, OP)(*map(to_npu, tensors.values()), **keywords)
    for given, value in zip(on_mindspore(tensors, keywords), found, strict=True):
        assert given.tobytes() == value.cpu().numpy().tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_views_that_are_not_contiguous(dtype):
    tensors, keywords = fixed(dtype)
    expected = on_mindspore(tensors, keywords)
    views = [MINDSPORE.tensor(np.swapaxes(value, 0, 1)).swapaxes(0, 1) for value in tensors.values()]
    assert not any(view.is_contiguous() for view in views)
    for given, value in zip(getattr(custom_ops, OP)(*views, **keywords), expected, strict=True):
        assert MINDSPORE.array(given).tobytes() == value.tobytes()


@pytest.mark.parametrize("empty", [{"B": 0, "S1": 3, "S2": 5}, {"B": 2, "S1": 0, "S2": 5}, {"B": 2, "S1": 0, "S2": 0}])
def test_empty_tensors(empty):
    tensors = lse_cases.draw("BSND", "bfloat16", **empty)
    for given in on_mindspore(tensors, {}):
        assert given.shape == (empty["B"], 1, empty["S1"])


def test_no_gradient():
    tensors, keywords = fixed("float32")
    query, key, weights = map(MINDSPORE.tensor, tensors.values())

    def loss(query):
        softmax_max, softmax_sum = getattr(custom_ops, OP)(query, key, weights, **keywords)
        return (softmax_max + softmax_sum).sum() + (query * 2).sum()

    np.testing.assert_array_equal(ms.grad(loss)(query).asnumpy(), np.full(query.shape, 2, np.float32))


def test_native_operators_read_what_the_kernel_wrote():
    """The kernel runs before the operator behind it, and behind the one before it."""
    tensors, keywords = fixed("float32")
    expected = on_mindspore({**tensors, "query_index": tensors["query_index"] * 2}, keywords)[0] + 1
    query, key, weights = map(MINDSPORE.tensor, tensors.values())
    wrong = 0
    for _ in range(5000):
        softmax_max, _ = getattr(custom_ops, OP)(ms.mint.mul(query, 2), key, weights, **keywords)
        wrong += not np.array_equal(ms.mint.add(softmax_max, 1).asnumpy(), expected)
    assert wrong == 0


def test_errors_are_raised_at_the_call():
    tensors, keywords = fixed("float32")
    with pytest.raises(ValueError, match="layout should be one of"):
        on_mindspore(tensors, {"layout": "BNSD"})
    kernel = native_kernel_on_mindspore()
    arguments = list(by_position(dict(zip(tensors, map(MINDSPORE.tensor, tensors.values()), strict=True)), keywords))
    arguments[5] = "BNSD"
    with pytest.raises(ValueError, match=f"For {OP}, layout should be one of 'BSND', 'TND', but got 'BNSD'"):
        kernel(*arguments)
    arguments[5] = "BSND"
    assert kernel(*arguments)[0].shape == (2, 1, 3)  # nothing is left of it


def native_kernel_on_mindspore():
    from hyper_parallel import get_platform

    return get_platform().load_kernel(OP)


def test_every_dtype_of_the_kernel_is_here():
    assert {np.dtype(ml_dtypes.bfloat16).name, "float16", "float32"} == set(DTYPES)


def test_a_kernel_by_itself_has_no_silent_gradient():
    """MindSpore would take the derivative of a custom operator as zero."""
    tensors, _ = fixed("float32")
    query, key, weights = map(MINDSPORE.tensor, tensors.values())
    kernel = native_kernel_on_mindspore()
    rest = (None, None, "BSND", 3, INT64_MAX, INT64_MAX)
    with pytest.raises(RuntimeError, match=f"the kernel {OP} has no derivative by itself"):
        ms.grad(lambda query: kernel(query, key, weights, *rest)[0].sum())(query)
