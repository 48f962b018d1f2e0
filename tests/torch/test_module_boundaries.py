# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Modules sharded by a plan, against the same modules on one device: outputs, and gradients of inputs and parameters."""

from __future__ import annotations

import copy

import torch
from ranks import run_gloo_ranks
from sharded_modules import HIDDEN, Attention, Block, Moe

from hyper_parallel import DTensor, distribute_tensor, init_device_mesh
from hyper_parallel.distributed import apply_sharding
from hyper_parallel.distributed._builder.boundary import boundary_of
from tests.boundary_plans import PLANS, plan_of

MODULES = {"Attention": Attention, "Moe": Moe, "Block": Block}


def as_tuple(outputs):
    return outputs if isinstance(outputs, tuple) else (outputs,)


def loss_of(outputs, weights):
    """Not symmetric in anything, so that swapped or repeated parts show."""
    return sum((output * weight).sum() for output, weight in zip(outputs, weights, strict=True))


def check_plan(name, mesh, batch, mode):
    torch.manual_seed(7)
    kind, plan = plan_of(name, mesh.axis_names[-1], batch)
    reference = MODULES[kind]().double()
    sharded = apply_sharding(copy.deepcopy(reference), mesh, plan, mode=mode)
    assert list(sharded.state_dict()) == list(reference.state_dict())

    hidden = torch.randn(4, 8, HIDDEN, dtype=torch.float64, requires_grad=True)
    expected = as_tuple(reference(hidden))
    weights = [torch.randn_like(output) for output in expected]
    loss_of(expected, weights).backward()

    boundary = boundary_of(sharded)
    source = boundary.inputs["hidden"][0].source
    mine = distribute_tensor(hidden.detach(), mesh, source).to_local().clone().requires_grad_()
    outputs = as_tuple(sharded(DTensor.from_local(mine, mesh, source) if mode == "validate" else mine))
    assert all(isinstance(output, DTensor) == (mode == "validate") for output in outputs)
    targets = [declared[0].target for declared in boundary.outputs.values()]
    if mode == "validate":
        assert [output.placements for output in outputs] == targets
        outputs = [output.to_local() for output in outputs]
    for output, whole, placements in zip(outputs, expected, targets, strict=True):
        torch.testing.assert_close(output, distribute_tensor(whole.detach(), mesh, placements).to_local())

    parts = [distribute_tensor(item, mesh, place).to_local() for item, place in zip(weights, targets, strict=True)]
    loss_of(outputs, parts).backward()
    torch.testing.assert_close(mine.grad, distribute_tensor(hidden.grad, mesh, source).to_local())
    placements = {}
    for path, below in sharded.named_modules():
        for item in boundary_of(below).parameters if boundary_of(below) else ():
            placements[f"{path}.{item.path}".lstrip(".")] = item.layout.placements
    assert set(placements) == set(dict(reference.named_parameters()))
    for path, parameter in sharded.named_parameters():
        whole = reference.get_parameter(path).grad
        part = distribute_tensor(whole, mesh, placements[path]).to_local()
        torch.testing.assert_close(parameter.grad, part, msg=lambda text, path=path: f"{name}: {path}: {text}")
    assert (
        any(not item.is_replicate() for of_parameter in placements.values() for item in of_parameter)
        or "ulysses" in name
    )


def check_plans(shape, names, batch):
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
    for plan in PLANS:
        for mode in ("production", "validate"):
            try:
                check_plan(plan, mesh, batch, mode)
            except Exception as error:
                raise AssertionError(f"{plan} in {mode} mode: {error}") from error


def test_two_ranks():
    run_gloo_ranks(check_plans, 2, (2,), ("tp",), ())


def test_two_by_two_ranks():
    run_gloo_ranks(check_plans, 4, (2, 2), ("dp", "tp"), ("dp",))
