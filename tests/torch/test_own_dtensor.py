# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Operators on the DTensors of torch.distributed.tensor: outputs, placements and gradients against one device.

The cases are the tables of tests/operators. Starting ranks takes seconds, so one start runs many of them.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from ranks import ROOT, run_gloo_ranks

from hyper_parallel import get_platform, library
from tests.operators.kl_loss_calls import DENSE, SPARSE
from tests.operators.lse_cases import OP as LSE
from tests.operators.lse_cases import SHARDED_CASES
from tests.operators.mhc_calls import CLAMP, POST, PRE, call
from tests.operators.sharded_calls import AXIS_NAMES, local_tensor, read
from tests.operators.test_kl_loss_sharded import CASES as LOSS_CASES
from tests.operators.test_kl_loss_sharded import case_and_call
from tests.operators.test_mhc_linear import CASES as LINEAR_CASES
from tests.operators.test_mhc_sharded import POST_CASES, PRE_CASES, post, pre


def function_of(op):
    return library.dfunction("".join(word.capitalize() for word in op.split("_")) + "DFunction")


def torch_mesh_of(shape):
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", shape, mesh_dim_names=AXIS_NAMES[: len(shape)])


def torch_placements(text, shape):
    """The placements of a layout in words; on two axes only the left one can lie inside of the right one's cuts."""
    from torch.distributed.tensor import Partial, Replicate, Shard
    from torch.distributed.tensor.placement_types import _StridedShard

    dims, partial = read(text)
    placements = [Replicate() for _ in shape]
    for dim, axes in enumerate(dims):
        for axis in axes:
            placements[AXIS_NAMES.index(axis)] = Shard(dim)
        if axes == ("tp", "dp"):
            placements[0] = _StridedShard(dim, split_factor=shape[1])
    for axis in partial:
        placements[AXIS_NAMES.index(axis)] = Partial("sum")
    return tuple(placements)


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
    tensors = distributed(case, whole.tensors, mesh, whole.gradients)
    function = function_of(whole.op)
    names = list(tensors)[: 0 if by_keyword else 2]
    rest = {name: tensor for name, tensor in tensors.items() if name not in names}
    outputs = function.apply(*(tensors[name] for name in names), **rest, **keywords)
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


def check_tensor(given, mesh, placements, expected):
    from torch.distributed.tensor import DTensor

    assert type(given) is DTensor
    assert given.device_mesh is mesh or given.device_mesh == mesh
    assert given.placements == placements
    full = given.detach().full_tensor()
    assert type(full) is torch.Tensor
    np.testing.assert_allclose(full.numpy(), expected, rtol=1e-12, atol=1e-12)


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


def check_mixtures():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    import hyper_parallel

    size = torch.distributed.get_world_size()
    tensors = {name: torch.from_numpy(array) for name, array in call(POST, "BSN").tensors.items()}
    mesh = torch_mesh_of((size,))
    given = {name: distribute_tensor(tensor, mesh, [Shard(0)]) for name, tensor in tensors.items()}
    apply = function_of(POST).apply
    ours = hyper_parallel.distribute_tensor(
        tensors["h_out"], hyper_parallel.init_device_mesh("cpu", (size,)), (hyper_parallel.Shard(0),)
    )
    for kwargs, error, message in (
        ({"h_out": ours}, TypeError, "h_out is a hyper_parallel DTensor but another argument is a DTensor of torch"),
        (
            {"x": tensors["x"]},
            TypeError,
            "x should be a DTensor because another argument is one, but got a plain tensor",
        ),
        ({"h_out": None}, TypeError, "h_out should be a tensor, but got NoneType"),
        (
            {"x": given["x"].redistribute(mesh, [Shard(3)])},
            ValueError,
            r"D \(dim 3\) of x should be replicated, but got tensor_map=\(-1, -1, -1, 0\)",
        ),
        (
            {"h_out": distribute_tensor(torch.ones(4, 4, size + 1), mesh, [Shard(2)])},
            ValueError,
            rf"For {POST}, h_out: dim 2 of shape \(4, 4, {size + 1}\) has extent {size + 1}, which should be divisible",
        ),
    ):
        with pytest.raises(error, match=message):
            apply(**{**given, **kwargs})
        with pytest.raises(error, match=message):
            apply(*{**given, **kwargs}.values())
    product = DTensor.from_local(tensors["x"], mesh, [Partial("product")])
    with pytest.raises(ValueError, match=r"x should be Shard, Replicate or Partial of sum, avg, max or min, but got"):
        apply(**{**given, "x": product})
    reversed_order = DTensor.from_local(tensors["x"], init_device_mesh("cpu", (1, size)), [Shard(0), Shard(0)])
    (entry,) = reversed_order._spec.shard_order
    reversed_order._spec.shard_order = (entry._replace(mesh_dims=(1, 0)),)
    with pytest.raises(ValueError, match=r"x shards dim 0 over the mesh axes \(1, 0\) in that order"):
        apply(**{**given, "x": reversed_order})
    other = distribute_tensor(tensors["x"], init_device_mesh("cpu", (1, size)), [Replicate(), Shard(0)])
    with pytest.raises(ValueError, match="h_res should lie on the mesh of x"):
        apply(**{**given, "x": other})


def watched_kernels():
    """The types of the tensors that kernels get from now on: a real kernel cannot wait for a pending one."""
    platform, seen = get_platform(), set()
    load_kernel = platform.load_kernel

    def watched(op_name):
        kernel = load_kernel(op_name)

        def run(*args):
            seen.update(type(value) for value in args if isinstance(value, torch.Tensor))
            return kernel(*args)

        return run

    platform.load_kernel = watched
    return seen


def check_graphs():
    """Parameters, pending collectives, several uses of one tensor, torch's operators before and behind."""
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

    size, kernels_see = torch.distributed.get_world_size(), watched_kernels()
    whole = {name: torch.from_numpy(array) for name, array in call(POST, "BSN").tensors.items()}
    mesh, apply = torch_mesh_of((size,)), function_of(POST).apply

    def loss(x, h_res, h_out, h_post):
        hidden = apply(x * 2.0, h_res=h_res, h_out=h_out, h_post=h_post)
        return (apply(hidden, h_res, h_out, h_post) ** 2).sum()

    plain = {name: tensor.clone().requires_grad_() for name, tensor in whole.items()}
    loss(**plain).backward()
    for placements in ([Replicate()] * 4, [Shard(0)] * 4, [Shard(1), Replicate(), Shard(1), Replicate()]):
        given = {
            name: torch.nn.Parameter(distribute_tensor(tensor, mesh, [placement]))
            for (name, tensor), placement in zip(whole.items(), placements, strict=True)
        }
        moved = {name: tensor.redistribute(mesh, [Replicate()], async_op=True) for name, tensor in given.items()}
        for tensors in (given, {**given, "x": moved["x"]}, {**given, "h_res": moved["h_res"]}):
            for tensor in given.values():
                tensor.grad = None
            result = loss(**tensors)
            assert isinstance(result, DTensor)
            result.full_tensor().backward()
            for name, tensor in given.items():
                np.testing.assert_allclose(tensor.grad.full_tensor(), plain[name].grad, rtol=1e-12, atol=1e-12)
    with torch.no_grad():
        assert not apply(**given).requires_grad
        given["x"] = given["x"].redistribute(mesh, [Replicate()], async_op=True)
        apply(**given)
    assert kernels_see == {torch.Tensor}


def check_optimizers():
    """torch's optimizers add up gradients that are pending."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    whole = {name: torch.from_numpy(array) for name, array in call(POST, "BSN").tensors.items()}
    mesh, apply = torch_mesh_of((torch.distributed.get_world_size(),)), function_of(POST).apply
    given = {name: distribute_tensor(tensor, mesh, [Shard(0)]) for name, tensor in whole.items()}
    for optimizer in (torch.optim.SGD, torch.optim.AdamW):
        trained = []
        for tensors, start in (
            (whole, whole["h_out"]),
            (given, distribute_tensor(whole["h_out"], mesh, [Replicate()])),
        ):
            parameter = torch.nn.Parameter(start.clone())
            steps = optimizer([parameter], 0.1)
            for _ in range(3):
                steps.zero_grad()
                loss = (apply(**{**tensors, "h_out": parameter}) ** 2).sum()
                (loss if tensors is whole else loss.full_tensor()).backward()
                steps.step()
            trained.append(parameter.detach())
        np.testing.assert_allclose(trained[1].full_tensor(), trained[0], rtol=1e-12, atol=1e-12)


def check_sub_meshes():
    """A tensor on one axis of a larger mesh: each of the others has an operator of its own."""
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = torch_mesh_of((2, torch.distributed.get_world_size() // 2))
    whole = {name: torch.from_numpy(array) for name, array in call(POST, "BSN").tensors.items()}
    expected = function_of(POST).apply(**whole)
    for axis in AXIS_NAMES:
        given = {name: distribute_tensor(tensor, mesh[axis], [Shard(0)]) for name, tensor in whole.items()}
        out = function_of(POST).apply(**given)
        assert out.device_mesh == mesh[axis]
        np.testing.assert_allclose(out.full_tensor(), expected, rtol=1e-12, atol=1e-12)


def check_all(ops):
    for check in (check_softmax_lse, check_mixtures, check_graphs, check_optimizers, check_sub_meshes):
        check()
    return check_cases(ops)


def test_two_ranks():
    assert min(run_gloo_ranks(check_all, 2, (POST, DENSE))) >= 9


@pytest.mark.slow
def test_two_ranks_other_operators():
    assert min(run_gloo_ranks(check_cases, 2, (PRE, CLAMP, SPARSE))) >= 9


@pytest.mark.slow
def test_four_ranks():
    assert min(run_gloo_ranks(check_all, 4, (POST, PRE, CLAMP, DENSE, SPARSE), timeout=240)) >= 60


def test_a_process_without_them_does_not_load_them():
    code = (
        "import sys, torch\n"
        "import hyper_parallel as hp\n"
        "from hyper_parallel.platform.torch.custom_ops import custom_op_impl\n"
        "x = torch.ones(4, 2, 8)\n"
        "hp.custom_ops.npu_mhc_post(x, torch.ones(4, 2, 2), torch.ones(4, 8), torch.ones(4, 2))\n"
        "loaded = [name for name in sys.modules if name.startswith('torch.distributed.tensor') or 'torch_dtensor' in name]\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=ROOT)
