# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What the torch tests of npu_dense_lightning_indexer_softmax_lse share: tensors, DTensors, and a torch operator."""

from __future__ import annotations

import torch

from hyper_parallel import DTensor, init_device_mesh
from hyper_parallel.platform.torch.custom_ops import custom_op_impl
from hyper_parallel.reference.dense_lightning_indexer import softmax_lse
from tests.operators.lse_cases import OP, draw

Lse = custom_op_impl.NpuDenseLightningIndexerSoftmaxLseDFunction
PACKED = {"layout": "TND", "actual_seq_qlen": [2, 2, 6], "actual_seq_klen": [3, 3, 9]}
FORMS = {"BSND": ({"B": 2, "S1": 3, "S2": 5}, {}), "TND": ({"T1": 6, "T2": 9}, PACKED)}


def torch_tensors(arrays):
    return {name: custom_op_impl.to_tensor(array, torch.device("cpu")) for name, array in arrays.items()}


def check_equal(outputs, expected):
    assert isinstance(outputs, tuple)
    for output, tensor in zip(outputs, expected, strict=True):
        assert type(output) is torch.Tensor
        assert output.dtype == tensor.dtype
        assert torch.equal(output, tensor)


def mesh_of_four():
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"), init_backend=False)


def layouts_only(form, *placements):
    """DTensors on this process's view of a mesh of four, which describes layouts only."""
    mesh = mesh_of_four()
    extents, _ = FORMS[form]
    return {
        name: DTensor.from_local(tensor, mesh, placements)
        for name, tensor in torch_tensors(draw(form, **extents)).items()
    }


def compute(*tensors, **keywords):
    """What torch_npu would compute: the reference, on float32 so that every number of it is a number of NumPy."""
    outputs = softmax_lse(*(tensor.float().numpy() for tensor in tensors), **keywords)
    return tuple(torch.from_numpy(output) for output in outputs)


def registered_operator():
    """An operator of the name that torch_npu has, in a namespace of the tests."""
    if not hasattr(torch.ops.npu_test, OP):
        library = torch.library.Library("npu_test", "DEF")
        library.define(
            f"{OP}(Tensor query_index, Tensor key_index, Tensor weights, *, int[]? actual_seq_qlen=None, "
            "int[]? actual_seq_klen=None, str layout='BSND', int sparse_mode=3, int pre_tokens=9223372036854775807, "
            "int next_tokens=9223372036854775807) -> (Tensor, Tensor)"
        )
        library.impl(OP, compute, "CPU")
        registered_operator.library = library  # a library ends with its object
    return getattr(torch.ops.npu_test, OP)
