# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Forms of arguments on MindSpore, and the messages for wrong ones: those of the other platforms."""

from __future__ import annotations

import re

import mindspore as ms
import numpy as np
import pytest

from hyper_parallel import DTensor, Replicate, Shard, custom_ops, init_device_mesh
from hyper_parallel.platform.mindspore.custom_ops import custom_op_impl
from hyper_parallel.platform.mindspore.custom_ops.custom_ops import MindSporeCustomOps
from hyper_parallel.platform.mindspore.host_arrays import to_array, to_tensor
from tests.operators.kl_loss_calls import TOP_K, starts, top_k_outputs, top_k_tensors
from tests.operators.lse_cases import INT64_MAX, OP, draw

Lse = custom_op_impl.NpuDenseLightningIndexerSoftmaxLseDFunction
PACKED = {"layout": "TND", "actual_seq_qlen": [2, 2, 6], "actual_seq_klen": [3, 3, 9]}
run = getattr(custom_ops, OP)


def tensors_of(arrays):
    return {name: to_tensor(array) for name, array in arrays.items()}


def check_equal(outputs, expected):
    assert isinstance(outputs, tuple)
    for output, tensor in zip(outputs, expected, strict=True):
        assert type(output) is ms.Tensor
        np.testing.assert_array_equal(to_array(output), to_array(tensor))


LENGTHS = {
    "list": list,
    "tuple": tuple,
    "int64 tensor": lambda ends: to_tensor(np.array(ends, np.int64)),
    "int32 tensor": lambda ends: to_tensor(np.array(ends, np.int32)),
    "uint8 tensor": lambda ends: to_tensor(np.array(ends, np.uint8)),
}


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_lengths_on_the_host(lengths):
    tensors = tensors_of(draw("TND", T1=6, T2=9))
    given = {name: lengths(value) if name.startswith("actual") else value for name, value in PACKED.items()}
    check_equal(run(*tensors.values(), **given), run(*tensors.values(), **PACKED))


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_lengths_on_the_device(lengths):
    ends = [2, 2, 5], [3, 3, 7]
    tensors = top_k_tensors((5,), (7,), "float32")
    expected = top_k_outputs(
        tensors, sparse_count=3, layout="TND", cu_seq_lens_q=starts(ends[0]), cu_seq_lens_k=starts(ends[1])
    )
    given = {"cu_seq_lens_q": lengths([0, *ends[0]]), "cu_seq_lens_k": lengths([0, *ends[1]])}
    outputs = getattr(custom_ops, TOP_K)(*tensors_of(tensors).values(), 3, layout="TND", **given)
    for output, value in zip(outputs, expected.values(), strict=True):
        np.testing.assert_array_equal(to_array(output), value)


def test_lengths_as_a_dtensor():
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",), init_backend=False)
    tensors = {
        name: DTensor.from_local(tensor, mesh, (Shard(0),))
        for name, tensor in tensors_of(draw("TND", T1=6, T2=9)).items()
    }
    given = {
        name: DTensor.from_local(to_tensor(np.array(value)), mesh, (Shard(0),)) if name.startswith("actual") else value
        for name, value in PACKED.items()
    }
    outputs = run(*tensors.values(), **given)
    expected = run(*(tensor.to_local() for tensor in tensors.values()), **PACKED)
    check_equal(tuple(output.to_local() for output in outputs), expected)


def test_arguments_by_position_and_by_keyword():
    tensors = tensors_of(draw("TND", T1=6, T2=9))
    expected = run(**dict(reversed(tensors.items())), **PACKED)
    by_position = (PACKED["actual_seq_qlen"], PACKED["actual_seq_klen"], "TND", 3, INT64_MAX, INT64_MAX)
    check_equal(Lse.apply(*tensors.values(), *by_position), expected)
    check_equal(getattr(MindSporeCustomOps, OP)(*tensors.values(), *by_position), expected)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_strided_tensors(dtype):
    tensors = tensors_of(draw("BSND", dtype, B=2, S1=3, S2=5))
    strided = {name: tensor.swapaxes(0, 1).contiguous().swapaxes(0, 1) for name, tensor in tensors.items()}
    assert not strided["query_index"].is_contiguous()
    check_equal(run(*strided.values()), run(*tensors.values()))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"key_index": np.zeros((2, 5, 1, 64), np.float32)},
            ValueError,
            "D (dim 3) of key_index should be 128, but got 64.",
        ),
        (
            {"weights": np.zeros((2, 3), np.float32)},
            ValueError,
            "weights should have the 3 dims (B, S1, N1), but got shape (2, 3).",
        ),
        (
            {"query_index": np.zeros((2, 3, 8, 128), np.int32)},
            TypeError,
            "query_index should have dtype bfloat16, float16, float32, float64, but got int32.",
        ),
        ({"sparse_mode": 0}, ValueError, "sparse_mode should be 3, but got 0."),
        ({"sparse_mode": True}, TypeError, "sparse_mode should be of type int, but got True of type bool."),
        ({"layout": "BNSD"}, ValueError, "layout should be one of 'BSND', 'TND', but got 'BNSD'."),
    ],
)
def test_wrong_arguments(changes, error, message):
    changed = {name: to_tensor(value) if isinstance(value, np.ndarray) else value for name, value in changes.items()}
    tensors = tensors_of(draw("BSND", B=2, S1=3, S2=5))
    with pytest.raises(error, match=f"^{re.escape(f'For {OP}, {message}')}$"):
        run(**{**tensors, **changed})


def test_wrong_layouts():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"), init_backend=False)
    tensors = {
        name: DTensor.from_local(tensor, mesh, (Replicate(), Shard(2 if name == "query_index" else 0)))
        for name, tensor in tensors_of(draw("BSND", B=2, S1=3, S2=5)).items()
    }
    message = f"For {OP}, N1 (dim 2) of query_index should be replicated, but got tensor_map=(-1, -1, 0, -1)."
    with pytest.raises(ValueError, match=re.escape(message)):
        run(*tensors.values())


def test_what_the_library_does_not_have():
    with pytest.raises(LookupError, match="has no 'npu_nothing'"):
        custom_op_impl.load_kernel("npu_nothing")
    with pytest.raises(AttributeError, match="no autograd function 'NothingDFunction'"):
        _ = custom_op_impl.NothingDFunction


def test_tensors_of_other_frameworks():
    shapes = (4, 2, 8), (4, 2, 2), (4, 8), (4, 2)
    expected = "For npu_mhc_post, x should be a tensor of mindspore, but got a numpy.ndarray: mindspore.from_numpy(...)"
    with pytest.raises(TypeError, match=re.escape(expected)):
        custom_ops.npu_mhc_post(*(np.ones(shape) for shape in shapes))
    torch = pytest.importorskip("torch", reason="gives the tensors of another framework")
    expected = (
        "For npu_mhc_post, x is a torch.Tensor, but this process is on mindspore; set HYPER_PARALLEL_PLATFORM=torch "
        "before the first import of hyper_parallel."
    )
    with pytest.raises(TypeError, match=re.escape(expected)):
        custom_ops.npu_mhc_post(*(torch.ones(shape) for shape in shapes))
