# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences that torch ranks share, against the unsharded call: rows that NumPy runs too."""

from __future__ import annotations

import pytest
import torch
from on_torch import TORCH
from own_dtensors import check_tensor, equal, function_of, torch_mesh_of, torch_placements
from ranks import run_gloo_ranks

from hyper_parallel.context_parallel import sequence_order
from tests.operators.kl_loss_calls import COTANGENT, DENSE
from tests.operators.sequence_calls import on_mesh, seen_on_rank
from tests.operators.sequence_table import check_rows, rows
from tests.operators.sharded_calls import local_tensor, near
from tests.operators.sharded_table import LARGE_MESHES, SMALL_MESHES


def run_rows(meshes):
    for case in rows(meshes):
        if case.op == DENSE:
            check_own_dtensors(case)
    return [seen_on_rank(case, TORCH) for case in rows(meshes)]


def check_own_dtensors(case):
    """The same with the DTensors of torch: outputs and gradients have the derived placements, and the whole values."""
    from torch.distributed.tensor import DTensor

    call, layout = on_mesh(case)
    rank, mesh = torch.distributed.get_rank(), torch_mesh_of(case.mesh)
    comparison = equal if case.dtype == "float64" else near
    tensors = {}
    for name, whole in call.tensors.items():
        local = TORCH.tensor(local_tensor(whole, layout.inputs[name], case.mesh, rank).copy())
        leaf = DTensor.from_local(local, mesh, torch_placements(layout.inputs[name], case.mesh), run_check=False)
        tensors[name] = leaf.detach().requires_grad_() if name in call.gradients else leaf
    with sequence_order(case.order):
        found = function_of(case.op).apply(**tensors, **call.keywords(rank))
    outputs = dict(zip(call.outputs, found, strict=True))
    for name, expected in call.outputs.items():
        check_tensor(outputs[name], mesh, torch_placements(layout.outputs[name], case.mesh), expected, comparison)
    (outputs["loss"].full_tensor() * torch.tensor(COTANGENT)).sum().backward()
    for name, expected in call.gradients.items():
        placements = torch_placements(layout.gradients[name], case.mesh)
        check_tensor(tensors[name].grad, mesh, placements, expected, comparison)


def test_two_ranks():
    check_rows(SMALL_MESHES, run_gloo_ranks(run_rows, 2, SMALL_MESHES))


@pytest.mark.slow
def test_four_ranks():
    check_rows(LARGE_MESHES, run_gloo_ranks(run_rows, 4, LARGE_MESHES))
