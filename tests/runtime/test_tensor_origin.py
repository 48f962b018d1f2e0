# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors of another framework than the platform's, and ranks that another one's launcher has started."""

from __future__ import annotations

import re

import numpy as np
import pytest

from hyper_parallel import DTensor, Shard, custom_ops, distribute_tensor, init_device_mesh
from hyper_parallel.platform.environment import how_to_start
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks

SHAPES = (4, 2, 8), (4, 2, 2), (4, 8), (4, 2)  # x, h_res, h_out, h_post
OF_TORCH = "is a torch.Tensor, but this process is on numpy; set HYPER_PARALLEL_PLATFORM=torch before the first import"
LSE = custom_ops.npu_dense_lightning_indexer_softmax_lse


def test_tensors_of_torch_on_numpy():
    torch = pytest.importorskip("torch", reason="gives the tensors of another framework")
    with pytest.raises(TypeError, match=re.escape(f"For npu_mhc_post, x {OF_TORCH}")):
        custom_ops.npu_mhc_post(*(torch.ones(shape) for shape in SHAPES))
    x, *others = (np.ones(shape) for shape in SHAPES)
    with pytest.raises(TypeError, match=re.escape(f"For npu_mhc_post, h_res {OF_TORCH}")):
        custom_ops.npu_mhc_post(x, torch.nn.Parameter(torch.ones(4, 2, 2)), *others[1:])
    mesh = init_device_mesh("cpu", (1,), init_backend=False)
    for make in (distribute_tensor, DTensor.from_local):
        with pytest.raises(TypeError, match=re.escape(f": the tensor {OF_TORCH}")):
            make(torch.ones(4), mesh, (Shard(0),))


def test_document_ends_of_torch_on_numpy():
    torch = pytest.importorskip("torch", reason="gives the tensors of another framework")
    tensors = np.ones((2, 8, 128)), np.ones((3, 1, 128)), np.ones((2, 8))
    with pytest.raises(TypeError, match=re.escape(f"actual_seq_qlen {OF_TORCH}")):
        LSE(*tensors, actual_seq_qlen=torch.tensor([2]), actual_seq_klen=[3], layout="TND")


@pytest.mark.parametrize(
    ("variable", "word", "message"),
    [
        (
            "WORLD_SIZE",
            "2",
            "torchrun has started 2 ranks, which numpy does not see: set HYPER_PARALLEL_PLATFORM=torch",
        ),
        (
            "MS_WORKER_NUM",
            "4",
            "msrun has started 4 ranks, which numpy does not see: set HYPER_PARALLEL_PLATFORM=mindspore",
        ),
        ("WORLD_SIZE", "1", "start as many ranks as the mesh has (run_ranks(function, 2))"),
        ("WORLD_SIZE", "many", "start as many ranks as the mesh has (run_ranks(function, 2))"),
    ],
)
def test_ranks_that_another_launcher_has_started(monkeypatch, variable, word, message):
    for name in ("WORLD_SIZE", "MS_WORKER_NUM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, word)
    expected = f"a mesh of shape (2,) has 2 ranks, but the world has 1; {message}"
    with pytest.raises(ValueError, match=re.escape(expected)):
        init_device_mesh("cpu", (2,))
    assert run_ranks(lambda: init_device_mesh("cpu", (2,)).size(), 2) == [2, 2]  # no word of it where the world fits


def test_how_ranks_are_started():
    assert how_to_start("torch", 2) == "torchrun --nproc-per-node 2 script.py"
    assert how_to_start("mindspore", 2) == "msrun --worker_num=2 --local_worker_num=2 --join=True script.py"


def test_only_operators_are_listed():
    assert dir(custom_ops) == custom_ops.__all__
    assert "npu_mhc_post" in dir(custom_ops)
    assert all(callable(getattr(custom_ops, name)) for name in dir(custom_ops))
