# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The operator of an installed library on torch ranks, against the formula on whole tensors: DTensors of hyper_parallel and of torch."""

from __future__ import annotations

import torch


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
