# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""npu_dense_lightning_indexer_softmax_lse on plain torch tensors, and the entry points that name torch_npu."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from lse_on_torch import FORMS, PACKED, Lse, check_equal, layouts_only, torch_tensors

from hyper_parallel import Replicate, Shard, custom_ops
from hyper_parallel.platform.torch.custom_ops.custom_ops import TorchCustomOps
from tests.operators.lse_cases import OP, draw, oracle

# The kernel computes in float64, as the oracle does, and rounds its outputs to float32 once.
RTOL = 2.0**-23


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("dtype", "weights_dtype"),
    [
        ("bfloat16", "bfloat16"),
        ("float16", "float16"),
        ("float32", "float32"),
        ("bfloat16", "float32"),
        ("float16", "float32"),
    ],
)
def test_plain_tensors(form, dtype, weights_dtype):
    extents, keywords = FORMS[form]
    arrays = draw(form, dtype, weights_dtype, **extents)
    tensors = torch_tensors(arrays)
    assert str(tensors["query_index"].dtype) == f"torch.{dtype}"
    outputs = Lse.apply(*tensors.values(), **keywords)
    for output, expected in zip(outputs, oracle(arrays, **keywords), strict=True):
        assert output.dtype == torch.float32
        np.testing.assert_allclose(output.numpy(), expected, rtol=RTOL, atol=0.0)


def test_float64_stays_float64():
    arrays = draw("BSND", "float64", B=2, S1=3, S2=5)
    for output, expected in zip(Lse.apply(*torch_tensors(arrays).values()), oracle(arrays), strict=True):
        assert output.dtype == torch.float64
        np.testing.assert_array_equal(output.numpy(), expected)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_strided_tensors(dtype):
    tensors = torch_tensors(draw("BSND", dtype, B=2, S1=3, S2=5))
    expected = Lse.apply(*tensors.values())
    strided = {name: tensor.transpose(0, 1).contiguous().transpose(0, 1) for name, tensor in tensors.items()}
    assert not strided["query_index"].is_contiguous()
    check_equal(Lse.apply(*strided.values()), expected)


@pytest.mark.parametrize(
    "lengths",
    [list, tuple, torch.tensor, lambda ends: torch.tensor(ends, dtype=torch.int32)],
    ids=["list", "tuple", "int64 tensor", "int32 tensor"],
)
def test_forms_of_lengths(lengths):
    tensors = torch_tensors(draw("TND", T1=6, T2=9))
    given = {name: lengths(value) if name.startswith("actual") else value for name, value in PACKED.items()}
    check_equal(Lse.apply(*tensors.values(), **given), Lse.apply(*tensors.values(), **PACKED))


def test_arguments_by_position_and_by_keyword():
    tensors = torch_tensors(draw("TND", T1=6, T2=9))
    expected = Lse.apply(**dict(reversed(tensors.items())), **PACKED)
    by_position = (PACKED["actual_seq_qlen"], PACKED["actual_seq_klen"], "TND", 3, 2**63 - 1, 2**63 - 1)
    check_equal(Lse.apply(*tensors.values(), *by_position), expected)


@pytest.mark.parametrize("form", FORMS)
def test_no_gradient(form):
    extents, keywords = FORMS[form]
    tensors = torch_tensors(draw(form, **extents))
    for tensor in tensors.values():
        tensor.requires_grad_()
    outputs = Lse.apply(*tensors.values(), **keywords)
    assert not any(output.requires_grad for output in outputs)
    (outputs[0].sum() + outputs[1].sum() + 2.0 * tensors["weights"].sum()).backward()
    assert tensors["query_index"].grad is None
    assert tensors["key_index"].grad is None
    assert torch.equal(tensors["weights"].grad, torch.full_like(tensors["weights"], 2.0))
    assert Lse.backward(None, *outputs) == (None,) * 9


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"key_index": torch.zeros(2, 5, 1, 64)}, ValueError, "D (dim 3) of key_index should be 128, but got 64."),
        (
            {"weights": torch.zeros(2, 3)},
            ValueError,
            "weights should have the 3 dims (B, S1, N1), but got shape (2, 3).",
        ),
        (
            {"query_index": torch.zeros(2, 3, 8, 128, dtype=torch.int32)},
            TypeError,
            "query_index should have dtype bfloat16, float16, float32, float64, but got int32.",
        ),
        ({"sparse_mode": 0}, ValueError, "sparse_mode should be 3, but got 0."),
        ({"sparse_mode": True}, TypeError, "sparse_mode should be of type int, but got True of type bool."),
        (
            {"weights": np.zeros((2, 3, 8))},
            TypeError,
            "weights should be a tensor of torch, but got a numpy.ndarray: torch.from_numpy(...) makes one.",
        ),
    ],
)
def test_wrong_arguments(changes, error, message):
    tensors = torch_tensors(draw("BSND", B=2, S1=3, S2=5))
    with pytest.raises(error, match=f"^{re.escape(f'For {OP}, {message}')}$"):
        Lse.apply(**{**tensors, **changes})


@pytest.mark.parametrize("distributed", [False, True], ids=["plain tensors", "DTensors"])
@pytest.mark.parametrize("call", [getattr(custom_ops, OP), getattr(TorchCustomOps, OP)], ids=["custom_ops", "class"])
def test_the_entry_point_names_torch_npu(call, distributed):
    tensors = (
        layouts_only("BSND", Shard(0), Replicate()) if distributed else torch_tensors(draw("BSND", **FORMS["BSND"][0]))
    )
    with pytest.raises(RuntimeError, match=rf"torch_npu\.{OP}\(\.\.\.\), which takes DTensors too"):
        call(*tensors.values())
