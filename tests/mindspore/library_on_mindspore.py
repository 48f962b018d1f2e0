# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The operator of an installed library on MindSpore ranks, against the formula on whole tensors: forward and gradient."""

from __future__ import annotations

import mindspore as ms
import numpy as np


def check_ranks():
    from hyper_parallel import (
        DTensor,
        Partial,
        Replicate,
        Shard,
        custom_ops,
        distribute_tensor,
        get_platform,
        init_device_mesh,
        reduce_gradient,
    )
    from hyper_parallel.core.shard.ops.parallel_ops_register import get_distributed_op

    rng = np.random.default_rng(0)
    x, branch, weight = (rng.normal(size=(4, 3)).astype(np.float32) for _ in range(3))
    gate = rng.normal(size=3).astype(np.float32)
    sigmoid = 1 / (1 + np.exp(-gate))
    expected = x + sigmoid * branch
    wanted = (weight * branch).sum(axis=0) * sigmoid * (1 - sigmoid)
    np.testing.assert_allclose(custom_ops.acme_gated_add(*map(ms.Tensor, (x, branch, gate))).asnumpy(), expected, 1e-5)

    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    rows = [distribute_tensor(ms.Tensor(array), mesh, (Shard(0),)) for array in (x, branch)]
    part = ms.Tensor(weight[2 * get_platform().rank :][:2])

    def call(gate):
        return *rows, DTensor.from_local(gate, mesh, (Replicate(),))

    out = custom_ops.acme_gated_add(*call(ms.Tensor(gate)))
    assert out.placements == (Shard(0),)
    np.testing.assert_allclose(out.full_tensor().asnumpy(), expected, 1e-5)
    local = ms.grad(lambda gate: (custom_ops.acme_gated_add(*call(gate)).to_local() * part).sum())(ms.Tensor(gate))
    layout = get_distributed_op("acme_gated_add").grad_layouts(*call(ms.Tensor(gate)))["gate"]
    assert layout.placements == (Partial("sum"),)
    np.testing.assert_allclose(reduce_gradient(local, layout).asnumpy(), wanted, 1e-4)
    return True
