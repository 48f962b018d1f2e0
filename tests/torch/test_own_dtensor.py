# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Operators on the DTensors of torch.distributed.tensor: outputs, placements and gradients against one device.

The cases are the tables of tests/operators. Starting ranks takes seconds, so one start runs many of them.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from own_dtensors import check_tensor, function_of, torch_mesh_of, torch_placements
from ranks import run_gloo_ranks

from hyper_parallel import custom_ops
from tests.operators.kl_loss_calls import DENSE, SPARSE
from tests.operators.lse_cases import OP as LSE
from tests.operators.lse_cases import SHARDED_CASES
from tests.operators.mhc_calls import CLAMP, POST, PRE, call
from tests.operators.sharded_calls import local_tensor
from tests.operators.test_kl_loss_sharded import CASES as LOSS_CASES
from tests.operators.test_kl_loss_sharded import case_and_call
from tests.operators.test_mhc_linear import CASES as LINEAR_CASES
from tests.operators.test_mhc_sharded import POST_CASES, PRE_CASES, post, pre


def distributed(case, tensors, mesh, traced=()):
    from torch.distributed.tensor import DTensor

    rank = torch.distributed.get_rank()
    found = {}
    for name, whole in tensors.items():
        local = torch.from_numpy(np.ascontiguousarray(local_tensor(whole, case.inputs[name], case.mesh, rank)))
        found[name] = DTensor.from_local(local, mesh, torch_placements(case.inputs[name], case.mesh))
        if name in traced:
            found[name] = found[name].detach().requires_grad_()
    return found


def check_case(case, whole, by_keyword):
    """Outputs, and the gradients of the sum of all outputs times their cotangents."""
    mesh, keywords = torch_mesh_of(case.mesh), whole.keywords(torch.distributed.get_rank())
    floating = [name for name, array in whole.tensors.items() if array.dtype.kind == "f"]
    tensors = distributed(case, whole.tensors, mesh, floating if whole.gradients else ())
    run = getattr(custom_ops, whole.op) if by_keyword else function_of(whole.op).apply
    names = list(tensors)[: 0 if by_keyword else 2]
    rest = {name: tensor for name, tensor in tensors.items() if name not in names}
    outputs = run(*(tensors[name] for name in names), **rest, **keywords)
    outputs = dict(zip(whole.outputs, outputs if isinstance(outputs, tuple) else (outputs,), strict=True))
    loss = 0.0
    for name, output in outputs.items():
        check_tensor(output, mesh, torch_placements(case.outputs[name], case.mesh), whole.outputs[name])
        if name in whole.cotangents:
            loss = loss + (output.full_tensor() * torch.from_numpy(whole.cotangents[name])).sum()
    loss.backward()
    for name, expected in whole.gradients.items():
        check_tensor(tensors[name].grad, mesh, torch_placements(case.gradients[name], case.mesh), expected)
    others = [tensor for name, tensor in tensors.items() if name not in whole.gradients]
    assert all(tensor.grad is None for tensor in others)


def all_cases():
    """Name -> (number of ranks, case, call)."""
    found = {}
    for name, (form, *row) in POST_CASES.items():
        found[f"{POST}, {name}"] = post(*row), call(POST, form)
    for name, (form, mesh, inputs, out, gradients) in LINEAR_CASES.items():
        found[f"{POST}, pending, {name}"] = post(mesh, inputs, out, gradients), call(POST, form)
    for op in (PRE, CLAMP):
        for name, (form, *row) in PRE_CASES.items():
            found[f"{op}, {name}"] = pre(op, *row), call(op, form)
    for op in (DENSE, SPARSE):
        for name, row in LOSS_CASES.items():
            found[f"{op}, {name}"] = case_and_call(op, row)
    return found


def check_cases(ops):
    """Those of the tables that have as many ranks as there are; every second one by keyword."""
    size = torch.distributed.get_world_size()
    cases = {name: of for name, of in all_cases().items() if of[0].ranks == size and of[1].op in ops}
    for number, (name, (case, whole)) in enumerate(cases.items()):
        try:
            check_case(case, whole, bool(number % 2))
        except BaseException as error:
            raise AssertionError(f"{name} has failed: {error}") from error
    return len(cases)


def check_softmax_lse():
    from torch.distributed.tensor import DTensor

    rank, world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    function = function_of(LSE)
    for name, case in SHARDED_CASES.items():
        if np.prod(case.mesh) != world_size:
            continue
        mesh, arrays = torch_mesh_of(case.mesh), case.tensors()
        tensors = {key: torch.from_numpy(value) for key, value in arrays.items()}
        given = {}
        for key, dims in case.maps.items():
            words = " ".join(
                "." if axes == "None" else axes if isinstance(axes, str) else ",".join(axes) for axes in dims
            )
            # From the parts, since torch cannot distribute into a strided placement.
            local = torch.from_numpy(np.ascontiguousarray(local_tensor(arrays[key], words, case.mesh, rank)))
            given[key] = DTensor.from_local(local.requires_grad_(), mesh, torch_placements(words, case.mesh))
        whole = function.apply(*tensors.values(), **case.whole_lengths())
        for output, expected in zip(function.apply(**given, **case.lengths(rank)), whole, strict=True):
            assert np.array_equal(output.to_local().numpy(), case.expected(expected.numpy(), rank)), name
            assert not output.requires_grad
            assert output.device_mesh == mesh


def check_all(ops):
    check_softmax_lse()
    return check_cases(ops)


def test_two_ranks():
    assert min(run_gloo_ranks(check_all, 2, (POST, DENSE))) >= 9


@pytest.mark.slow
def test_two_ranks_other_operators():
    assert min(run_gloo_ranks(check_cases, 2, (PRE, CLAMP, SPARSE))) >= 9


@pytest.mark.slow
def test_four_ranks():
    assert min(run_gloo_ranks(check_all, 4, (POST, PRE, CLAMP, DENSE, SPARSE), timeout=240)) >= 60
