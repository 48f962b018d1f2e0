# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""An operator of an installed library on torch ranks: DTensors of hyper_parallel and of torch."""

from __future__ import annotations

import os

import pytest
import torch
from ranks import run_gloo_ranks

from tests.operator_library import install, run_with


def check_ranks():
    from torch.distributed.tensor import DTensor as TorchDTensor
    from torch.distributed.tensor import Replicate as TorchReplicate
    from torch.distributed.tensor import Shard as TorchShard
    from torch.distributed.tensor import distribute_tensor as distribute_torch_tensor

    from hyper_parallel import (
        DTensor,
        Partial,
        Replicate,
        Shard,
        custom_ops,
        distribute_tensor,
        init_device_mesh,
        reduce_gradient,
    )
    from hyper_parallel.core.shard.ops.parallel_ops_register import get_distributed_op

    generator = torch.Generator().manual_seed(0)
    x, branch, weight = (torch.randn(4, 3, dtype=torch.float64, generator=generator) for _ in range(3))
    gate = torch.randn(3, dtype=torch.float64, generator=generator, requires_grad=True)
    expected = x + torch.sigmoid(gate) * branch
    (wanted,) = torch.autograd.grad((expected * weight).sum(), gate)

    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    rows = [distribute_tensor(tensor, mesh, (Shard(0),)) for tensor in (x, branch, weight)]
    local = gate.detach().clone().requires_grad_()
    call = *rows[:2], DTensor.from_local(local, mesh, (Replicate(),))
    out = custom_ops.acme_gated_add(*call)
    assert out.placements == (Shard(0),)
    torch.testing.assert_close(out.full_tensor().detach(), expected.detach())
    (out.to_local() * rows[2].to_local()).sum().backward()
    layout = get_distributed_op("acme_gated_add").grad_layouts(*call)["gate"]
    assert layout.placements == (Partial("sum"),)
    torch.testing.assert_close(reduce_gradient(local.grad, layout), wanted)

    own = torch.distributed.device_mesh.init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    sharded = [distribute_torch_tensor(tensor, own, [TorchShard(0)]) for tensor in (x, branch, weight)]
    whole = torch.nn.Parameter(distribute_torch_tensor(gate.detach(), own, [TorchReplicate()]))
    out = custom_ops.acme_gated_add(*sharded[:2], whole)
    assert type(out) is TorchDTensor
    torch.testing.assert_close(out.full_tensor().detach(), expected.detach())
    (out * sharded[2]).sum().full_tensor().backward()
    torch.testing.assert_close(whole.grad.full_tensor(), wanted)
    return True


def test_two_ranks(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path)
    monkeypatch.setenv("HYPER_PARALLEL_KERNELS", "reference")  # it has no kernel for the host in C++
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    assert run_gloo_ranks(check_ranks, 2) == [True, True]


DEFINED = """
import torch
import hyper_parallel.torch_library

x, branch, gate = torch.randn(2, 3), torch.randn(2, 3), torch.randn(3)
out = torch.ops.hyper_parallel.acme_gated_add(x, branch, gate)
torch.testing.assert_close(out, x + torch.sigmoid(gate) * branch)
print(torch.ops.hyper_parallel.npu_mhc_post.default._schema.name)
"""


def test_an_operator_of_torch_library(tmp_path) -> None:
    install(tmp_path)
    assert run_with(tmp_path, script=DEFINED, platform="torch") == "hyper_parallel::npu_mhc_post\n"


def test_a_library_without_torch_library_files(tmp_path) -> None:
    """It was generated earlier: the others are defined, and a warning says what to do."""
    install(tmp_path)
    for path in tmp_path.rglob("acme_gated_add/torch_library.py"):
        path.unlink()
    script = """
import warnings
import torch
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import hyper_parallel.torch_library
assert torch.ops.hyper_parallel.npu_mhc_post
print(*(item.message for item in caught if "acme" in str(item.message)))
"""
    said = run_with(tmp_path, script=script, platform="torch")
    assert said.startswith("There is no torch.ops.hyper_parallel.acme_gated_add: ")
    assert "run 'hpgen ops' again" in said
