# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Calls with the DTensors of torch.distributed.tensor: what is refused, graphs around them, optimizers, sub-meshes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from own_dtensors import check_tensor, function_of, torch_mesh_of
from ranks import ROOT, run_gloo_ranks

from hyper_parallel import get_platform
from tests.operators.mhc_calls import POST, call
from tests.operators.sharded_calls import AXIS_NAMES


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
            r"the mesh axis dp should shard one dim, but got both D \(dim 3\) of x and B \(dim 0\) of h_res",
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


def check_operators_written_by_hand():
    from torch.distributed.tensor import Shard, distribute_tensor

    from hyper_parallel.core.shard.dfunction import DFunction
    from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp

    class Double(DFunction):
        @staticmethod
        def forward(ctx, *tensors):
            return tuple(2 * tensor for tensor in tensors)

    class DoubleOp(DistributedOp):
        def preprocess(self, args, kwargs):
            return [value.to_local() for value in args], {}, [value.layout for value in args]

        def infer_layout(self, cache_values):
            return tuple(cache_values), None

    size = torch.distributed.get_world_size()
    mesh, whole = torch_mesh_of((size,)), torch.arange(4.0 * size).reshape(4, size)
    given = [distribute_tensor(whole, mesh, [Shard(dim)]) for dim in (0, 1, -1)]
    with pytest.raises(ValueError, match="Double got a DTensor but has no _op_name"):
        Double.apply(*given)
    Double._op_name = "double_on_torch"
    with pytest.raises(RuntimeError, match="No distributed operator is registered under the name 'double_on_torch'"):
        Double.apply(*given)
    DoubleOp("double_on_torch")
    for output, value in zip(Double.apply(*given), given, strict=True):
        check_tensor(output, mesh, value.placements, 2 * whole)
    with pytest.raises(NotImplementedError, match="has neither a rule nor its own grad_layouts"):
        Double.apply(given[0].requires_grad_())


def check_ours_are_made_of_plain_tensors():
    import torch.distributed.tensor as torch_tensor

    import hyper_parallel

    size = torch.distributed.get_world_size()
    given = torch_tensor.distribute_tensor(torch.ones(4), torch_mesh_of((size,)), [torch_tensor.Shard(0)])
    mesh = hyper_parallel.init_device_mesh("cpu", (size,))
    for make in (hyper_parallel.DTensor.from_local, hyper_parallel.distribute_tensor):
        with pytest.raises(TypeError, match="takes a tensor of torch, but got DTensor"):
            make(given, mesh, (hyper_parallel.Replicate(),))
        make(torch.nn.Parameter(torch.ones(4)), mesh, (hyper_parallel.Replicate(),))


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


def check_all():
    checks = (
        check_mixtures,
        check_operators_written_by_hand,
        check_ours_are_made_of_plain_tensors,
        check_graphs,
        check_optimizers,
        check_sub_meshes,
    )
    for check in checks:
        check()


@pytest.mark.parametrize("world_size", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_ranks(world_size):
    run_gloo_ranks(check_all, world_size)


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
