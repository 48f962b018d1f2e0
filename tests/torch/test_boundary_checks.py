# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What validate mode finds, regions on DTensors, and modules that are copied or computed again. On two ranks."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest
import torch
from ranks import run_gloo_ranks
from sharded_modules import HIDDEN, Attention, Block, Moe, Softmax
from torch import nn
from torch.utils.checkpoint import checkpoint

from hyper_parallel import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    custom_ops,
    distribute_tensor,
    get_platform,
    init_device_mesh,
)
from hyper_parallel.distributed import FunctionModule, ModuleShardingSpec, PlacementMismatchError, apply_sharding
from tests.boundary_plans import attention_spec, block_plan, moe_specs
from tests.operators.mhc_calls import POST, draw


def mesh_of_two():
    return init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))


def spec(**fields):
    return ModuleShardingSpec(region_dispatch=False, **fields)


def mismatch(call):
    with pytest.raises(PlacementMismatchError) as caught:
        call()
    error = caught.value
    return error.module, error.stage, error.name, error.expected, error.actual


DIFFER = "values that differ between the ranks along 'tp'"


class A(torch.autograd.Function):
    """x^3, not a function of torch's."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x**2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a_fn = FunctionModule(A)

    def forward(self, x):
        return self.a_fn(x)


def check_usage():
    """A function takes columns where rows arrive, and rows leave."""
    mesh = mesh_of_two()
    rows, columns = {"tp": Shard(0)}, {"tp": Shard(1)}
    plan_overrides = {
        "a_fn": ModuleShardingSpec(
            params={},
            region_dispatch=False,
            in_src={"x": rows},
            in_dst={"x": columns},
            out_src={"y": columns},
            out_dst={"y": rows},
        )
    }
    whole = torch.randn(4, 6, generator=torch.Generator().manual_seed(1))
    for mode in ("production", "validate"):
        net = apply_sharding(Net(), mesh, plan_overrides, mode=mode)
        x = distribute_tensor(whole, mesh, (Shard(0),)).to_local().clone().requires_grad_()
        y = net(x) if mode == "production" else net(x).to_local()
        torch.testing.assert_close(y, x**3)
        (y * x.detach()).sum().backward()
        torch.testing.assert_close(x.grad, 3 * x.detach() ** 3)


def check_wrong_declarations():
    mesh, rank = mesh_of_two(), get_platform().rank
    torch.manual_seed(0)
    hidden = torch.randn(2, 4, HIDDEN)

    def attention(params=None, out_src=None):
        right = attention_spec("tp", ())
        module, wrong = (
            Attention(),
            spec(
                params=right.params if params is None else params, in_src=right.in_src, out_src=out_src or right.out_src
            ),
        )
        return apply_sharding(nn.ModuleDict({"attn": module}), mesh, {"attn": wrong}, mode="validate")["attn"]

    # What is Partial is declared to be whole.
    found = mismatch(lambda: attention(out_src={"out": {}})(hidden))
    assert found == ("attn", "out_src", "out", (Replicate(),), DIFFER)
    # An input that every rank has otherwise.
    found = mismatch(lambda: attention()(hidden + rank))
    assert found == ("attn", "in_src", "hidden", (Replicate(),), DIFFER)
    # A DTensor that lies otherwise.
    rows = DTensor.from_local(hidden, mesh, (Shard(0),))
    assert mismatch(lambda: attention()(rows)) == ("attn", "in_src", "hidden", (Replicate(),), (Shard(0),))
    # Parts of unequal extents.
    found = mismatch(lambda: attention()(hidden[: 1 + rank]))
    assert found[:3] == ("attn", "in_src", "hidden")
    assert found[4] == "parts of different shapes: (1, 4, 16) on rank 0, (2, 4, 16) on rank 1"
    # Parameters that were not made alike; nothing is changed.
    torch.manual_seed(rank)
    module = Attention()
    found = mismatch(lambda: apply_sharding(module, mesh, {"": attention_spec("tp", ())}, mode="validate"))
    assert found == ("", "params", "temperature", (Replicate(),), DIFFER) or found[1:3] == ("params", "q_proj.weight")
    assert module.q_proj.weight.shape == (HIDDEN, HIDDEN)
    assert type(module(hidden)) is torch.Tensor


def check_wrong_inner_declaration():
    """The mistake stands at a function inside of a module that is declared rightly."""
    moe, gate = moe_specs("tp", ())
    torch.manual_seed(0)
    tree = nn.ModuleDict({"moe": Moe()})
    wrong = spec(in_src=gate.in_src, out_src={"y": {"tp": Shard(-1)}}, out_dst={"y": {}})
    module = apply_sharding(tree, mesh_of_two(), {"moe": moe, "moe.gate": wrong}, mode="validate")["moe"]
    # 4 experts twice over are 8, of which this rank has two.
    with (
        pytest.warns(RuntimeWarning, match=r"For module 'moe\.gate', out_src declares Shard.*hold the same values"),
        pytest.raises(RuntimeError, match="einsum"),
    ):
        module(torch.randn(2, 3, HIDDEN))


def check_right_declarations_do_not_warn():
    torch.manual_seed(0)
    module = apply_sharding(Block(), mesh_of_two(), block_plan("tp", ()), mode="validate")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module(torch.randn(2, 4, HIDDEN))


class Post(nn.Module):
    def __init__(self, h_out):
        super().__init__()
        self.h_out = nn.Parameter(h_out)

    def forward(self, x, h_res, h_post):
        return custom_ops.npu_mhc_post(x, h_res, self.h_out, h_post)


def check_dispatched_region():
    """The forward runs on DTensors: the parameter that is replicated is cut by the operator, its gradient summed."""
    mesh = mesh_of_two()
    tensors = {name: torch.from_numpy(np.asarray(array)) for name, array in draw(POST, (8,)).items()}
    rows = {"tp": Shard(0)}
    inputs = dict.fromkeys(("x", "h_res", "h_post"), rows)

    def sharded(mode, **fields):
        plan = {"": ModuleShardingSpec(in_src=inputs, **fields)}
        return apply_sharding(Post(tensors["h_out"].clone()), mesh, plan, mode=mode)

    x, h_res, h_post = (distribute_tensor(tensors[name], mesh, (Shard(0),)) for name in ("x", "h_res", "h_post"))
    single = Post(tensors["h_out"].clone())
    expected = single(*(tensors[name] for name in ("x", "h_res", "h_post")))
    expected.square().sum().backward()
    module = sharded("validate", out_src={"out": rows})
    local = x.to_local().clone().requires_grad_()
    output = module(DTensor.from_local(local, mesh, (Shard(0),)), h_res, h_post=h_post)
    assert (output.placements, type(module.h_out)) == ((Shard(0),), nn.Parameter)
    torch.testing.assert_close(output.full_tensor(), expected)
    output.to_local().square().sum().backward()
    torch.testing.assert_close(module.h_out.grad, single.h_out.grad)
    assert local.grad is not None

    found = mismatch(lambda: sharded("validate", out_src={"out": {}})(x, h_res, h_post))
    assert found == ("", "out_src", "out", (Replicate(),), (Shard(0),))
    found = mismatch(lambda: sharded("validate", out_src={"out": {"tp": Partial()}})(x, h_res, h_post))
    assert found == ("", "out_src", "out", (Partial("sum"),), (Shard(0),))
    assert sharded("validate")(x, h_res, h_post).placements == (Shard(0),)  # no contract: as it was yielded


def check_a_local_forward_needs_to_be_declared():
    class Local(nn.Module):
        def forward(self, x):
            return x.to_local() * 2

    plan = {"": ModuleShardingSpec(in_src={"x": {}}, out_src={"y": {}})}
    module = apply_sharding(Local(), mesh_of_two(), plan, mode="validate")
    with pytest.raises(PlacementMismatchError, match=r"a plain tensor.*needs region_dispatch=False"):
        module(torch.ones(2))


def check_copies_and_checkpoints_have_whole_gradients():
    mesh = mesh_of_two()
    torch.manual_seed(3)
    reference = Block().double()
    hidden = torch.randn(2, 4, HIDDEN, dtype=torch.float64)
    module = apply_sharding(copy.deepcopy(reference), mesh, block_plan("tp", ()))
    (reference(hidden)[0] ** 2).sum().backward()
    copied, loaded = copy.deepcopy(module), pickle.loads(pickle.dumps(module))
    runs = {
        "itself": lambda: module(hidden),
        "a copy": lambda: copied(hidden),
        "a loaded one": lambda: loaded(hidden),
        "a copy of a used one": lambda: again(hidden),
        "under a checkpoint": lambda: checkpoint(module, hidden, use_reentrant=False),
        "under a reentrant checkpoint": lambda: checkpoint(module, hidden.clone().requires_grad_(), use_reentrant=True),
        "compiled": lambda: torch.compile(module, backend="eager")(hidden),
    }
    models = {"a copy": copied, "a loaded one": loaded}
    for name, run in runs.items():
        if name == "a copy of a used one":
            again = copy.deepcopy(module)
            models[name] = again
        used = models.get(name, module)
        used.zero_grad()
        (run()[0] ** 2).sum().backward()
        for path in ("norm.weight", "attn.temperature", "moe.router.weight"):
            torch.testing.assert_close(
                used.get_parameter(path).grad, reference.get_parameter(path).grad, msg=f"{name}: {path}"
            )
    module.zero_grad()
    for _ in range(2):  # gradients add up over calls
        (module(hidden)[0] ** 2).sum().backward()
    torch.testing.assert_close(module.norm.weight.grad, 2 * reference.norm.weight.grad)
    (found,) = torch.autograd.grad((module(hidden)[0] ** 2).sum(), [module.attn.temperature])
    torch.testing.assert_close(found, reference.attn.temperature.grad)


def check_declared_gradients():
    """A forward that gathers its parameter by itself: every rank computes all, and nothing is to be summed."""

    class Gathered(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.arange(8.0).reshape(4, 2))
            self.bias = nn.Parameter(torch.ones(4))

        def forward(self, x):
            part = DTensor.from_local(self.weight, mesh, (Shard(0),))
            whole = part.full_tensor() if self.weight.shape[0] == 2 else self.weight
            return x @ whole.T + self.bias

    mesh = mesh_of_two()
    x = torch.randn(3, 2, generator=torch.Generator().manual_seed(0))
    single, single_x = Gathered(), x.clone().requires_grad_()
    single(single_x).square().sum().backward()
    gathered = {
        "params": {"weight": {"tp": Shard(0)}},
        "in_src": {"x": {}},
        "out_src": {"y": {}},
        "in_grad": {"x": {}},
        "params_grad": {"bias": {"tp": Replicate()}},
    }
    module, sharded_x = apply_sharding(Gathered(), mesh, {"": spec(**gathered)}), x.clone().requires_grad_()
    module(sharded_x).square().sum().backward()
    torch.testing.assert_close(sharded_x.grad, single_x.grad)
    torch.testing.assert_close(module.bias.grad, single.bias.grad)
    torch.testing.assert_close(module.weight.grad, distribute_tensor(single.weight.grad, mesh, (Shard(0),)).to_local())


def check_communication_inside():
    """A forward that adds up by itself, and passes the whole gradient on as redistribution does."""

    class Row(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.arange(8.0).reshape(2, 4))

        def forward(self, x):
            product = x @ self.weight.T
            if self.weight.shape[1] == 4:
                return product
            return DTensor.from_local(product, mesh, (Partial(),)).full_tensor()

    mesh = mesh_of_two()
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    single, single_x = Row(), x.clone().requires_grad_()
    single(single_x).square().sum().backward()
    columns = {"tp": Shard(1)}
    contract = spec(params={"weight": columns}, in_src={"x": {}}, in_dst={"x": columns}, out_src={"y": {}})
    for mode in ("production", "validate"):
        module, sharded_x = apply_sharding(Row(), mesh, {"": contract}, mode=mode), x.clone().requires_grad_()
        output = module(sharded_x)
        (output if mode == "production" else output.to_local()).square().sum().backward()
        torch.testing.assert_close(sharded_x.grad, single_x.grad)
        whole = distribute_tensor(single.weight.grad, mesh, (Shard(1),)).to_local()
        torch.testing.assert_close(module.weight.grad, whole)


def check_second_derivatives_are_refused():
    """Of an input, and of a parameter."""
    torch.manual_seed(0)
    module = apply_sharding(Attention(), mesh_of_two(), {"": attention_spec("tp", ())})
    hidden = torch.randn(2, 4, HIDDEN, requires_grad=True)
    for wanted in (hidden, module.temperature):
        (gradient,) = torch.autograd.grad(module(hidden).square().sum(), wanted, create_graph=True)
        with pytest.raises(RuntimeError, match="differentiate a sharded module once"):
            gradient.sum().backward()


def check_other_dtypes():
    """What has no gradient is moved too; 16-bit floats are compared."""
    mesh = mesh_of_two()
    rows = {"tp": Shard(0)}
    contract = spec(in_src={"x": rows}, in_dst={"x": {}}, out_src={"y": {}}, out_dst={"y": rows})
    for dtype in (torch.int64, torch.bool, torch.bfloat16, torch.float16):
        for mode in ("production", "validate"):
            module = apply_sharding(nn.Identity(), mesh, {"": contract}, mode=mode)
            x = torch.arange(4).to(dtype)
            output = module(x)
            assert torch.equal(output if mode == "production" else output.to_local(), x)


def check_uneven_cut():
    contract = spec(in_src={"x": {}}, in_dst={"x": {"tp": Shard(0)}})
    module = apply_sharding(FunctionModule(Softmax), mesh_of_two(), {"": contract})
    message = r"module '', input 'x': dim 0 of shape \(3, 2\) has extent 3, which should be divisible by the 2 shards"
    with pytest.raises(ValueError, match=message):
        module(torch.ones(3, 2))


def check_another_mesh():
    contract = spec(in_src={"x": {}})
    module = apply_sharding(FunctionModule(Softmax), mesh_of_two(), {"": contract}, mode="validate")
    x = distribute_tensor(torch.ones(2), init_device_mesh("cpu", (2,), mesh_dim_names=("dp",)), (Replicate(),))
    with pytest.raises(PlacementMismatchError, match="on another mesh"):
        module(x)


def check_torch_dtensors_are_refused():
    from torch.distributed.device_mesh import init_device_mesh as torch_mesh
    from torch.distributed.tensor import distribute_tensor as torch_distribute

    x = torch_distribute(torch.ones(2), torch_mesh("cpu", (2,)))
    module = apply_sharding(FunctionModule(Softmax), mesh_of_two(), {"": spec(in_src={"x": {}})})
    with pytest.raises(TypeError, match=r"input 'x' is declared, so it should be a tensor, but got torch\.distributed"):
        module(x)


CHECKS = [value for name, value in sorted(globals().items()) if name.startswith("check_")]


def run_checks():
    for check in CHECKS:
        try:
            check()
        except BaseException as error:
            raise AssertionError(f"{check.__name__} has failed: {error}") from error


def test_on_two_ranks():
    assert len(CHECKS) == 14
    run_gloo_ranks(run_checks, 2)
