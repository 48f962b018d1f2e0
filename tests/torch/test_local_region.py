# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""`local_region` on torch: the tables of all platforms."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.utils.checkpoint
from on_torch import TORCH
from ranks import run_gloo_ranks

from hyper_parallel import DTensor, Replicate, Shard, init_device_mesh, local_region
from tests.regions import region_calls, region_placements
from tests.regions.one_of_four import PENDING, ROWS, VALUES, assert_rows, mesh_of_four, region, rows
from tests.regions.region_mistakes import (
    MISTAKES,
    check_a_failure_inside_is_the_functions_own,
    check_mistake,
    check_nothing_runs_before_all_inputs_are_checked,
)
from tests.regions.region_ranks import check_all_ran, run_all

CASES = region_calls.CASES | region_placements.CASES


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_calls(case):
    case(TORCH)


@pytest.mark.parametrize("row", MISTAKES.values(), ids=MISTAKES)
def test_mistakes(row):
    check_mistake(TORCH, row)


def test_nothing_runs_before_all_inputs_are_checked():
    check_nothing_runs_before_all_inputs_are_checked(TORCH)


def test_a_failure_inside_is_the_functions_own():
    check_a_failure_inside_is_the_functions_own(TORCH)


def run():
    check_torchs_own_dtensors()
    return run_all(TORCH)


def check_torchs_own_dtensors():
    """Listed they are refused, unlisted and returned they stay as they are."""
    from torch.distributed.device_mesh import init_device_mesh as init_torch_mesh
    from torch.distributed.tensor import DTensor as TorchDTensor
    from torch.distributed.tensor import Shard as TorchShard

    size = torch.distributed.get_world_size()
    torch_mesh, mesh = init_torch_mesh("cpu", (size,)), init_device_mesh("cpu", (size,))
    foreign = TorchDTensor.from_local(torch.ones(2, 3), torch_mesh, [TorchShard(0)])
    ours = DTensor.from_local(torch.ones(2, 3), mesh, (Shard(0),))
    listed = {"x": (Shard(0),)}
    run = local_region(lambda x, y=None: y, device_mesh=mesh, in_placements=listed, out_placements=(Shard(0),))
    assert run(ours, foreign) is foreign
    with pytest.raises(TypeError, match=r"x should be a DTensor of hyper_parallel.*local_map.*grad_placements"):
        run(foreign)
    with pytest.raises(TypeError, match="expected a DeviceMesh"):
        local_region(lambda x: x, device_mesh=torch_mesh)


def test_two_ranks():
    check_all_ran(run_gloo_ranks(run, 2), 2)


def test_four_ranks():
    check_all_ran(run_gloo_ranks(run, 4), 4)


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3, bias=False)

    def forward(self, hidden_states, scale=1):
        assert type(hidden_states) is torch.Tensor
        return self.linear(hidden_states) * scale


@pytest.mark.parametrize("by_keyword", [False, True])
def test_a_module_has_the_parameters_of_its_forward(by_keyword):
    module = Scaled()
    seen = []
    module.register_forward_hook(lambda *_: seen.append(1))
    run = region(module, {"hidden_states": ROWS})
    x = torch.from_numpy(VALUES).clone().requires_grad_()
    d = DTensor.from_local(x, mesh_of_four(), ROWS)
    output = run(hidden_states=d, scale=2) if by_keyword else run(d, 2)
    assert output.placements == ROWS
    output.to_local().sum().backward()
    weight = module.linear.weight
    assert torch.equal(weight.grad, 2 * x.detach().sum(0).expand(3, 3))
    assert torch.allclose(x.grad, 2 * weight.detach().sum(0).expand(2, 3))
    assert seen == [1]
    assert not hasattr(run, "_parameters")
    with pytest.raises(
        ValueError, match=r"For Scaled, .*\(hidden_states, scale\).*'hidden'. Did you mean 'hidden_states'"
    ):
        region(module, ("hidden",))(d)


def test_the_forward_of_a_module_as_a_region():
    class Block(torch.nn.Module):
        @region(listed={"x": ROWS}, out=PENDING)
        def forward(self, x):
            return x * 2

    assert_rows(TORCH, Block()(rows(TORCH)), VALUES * 2, PENDING)
    assert_rows(TORCH, copy.deepcopy(Block())(x=rows(TORCH)), VALUES * 2, PENDING)


def test_a_builtin_has_no_signature_but_keywords():
    assert_rows(TORCH, region(torch.add, ("input",))(other=torch.ones(2, 3), input=rows(TORCH)), VALUES + 1)


def test_torchs_named_tuples_stay_named():
    result = region(lambda x: torch.max(x, 1), out=(PENDING, PENDING))(rows(TORCH))
    assert type(result) is torch.return_types.max
    assert_rows(TORCH, result.values, VALUES.max(1), PENDING)
    assert_rows(TORCH, result.indices, VALUES.argmax(1), PENDING)


def test_gradients_land_on_leaves_and_not_without_recording():
    run = region(lambda x: x**3)
    x = torch.from_numpy(VALUES).clone().requires_grad_()
    run(DTensor.from_local(x, mesh_of_four(), ROWS)).to_local().sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * VALUES**2)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert not run(DTensor.from_local(x, mesh_of_four(), ROWS)).to_local().requires_grad


def test_under_a_checkpoint():
    calls = []

    def cube(x):
        calls.append(1)
        return x**3

    run = region(cube)
    x = torch.from_numpy(VALUES).clone().requires_grad_()
    d = DTensor.from_local(x, mesh_of_four(), ROWS)
    torch.utils.checkpoint.checkpoint(run, d, use_reentrant=False).to_local().sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * VALUES**2)
    assert len(calls) == 2


def test_compiled_with_the_function_in_a_graph_of_its_own():
    graphs = []

    def backend(module, _):
        graphs.append([node.name for node in module.graph.nodes if node.op.startswith("call_")])
        return module

    run = region(lambda x: x.sin() * 2)

    def step(x):
        return run(DTensor.from_local(x * 3, mesh_of_four(), ROWS)).to_local().sum()

    x, y = (torch.from_numpy(VALUES).clone().requires_grad_() for _ in range(2))
    loss, expected = torch.compile(step, backend=backend)(x), step(y)
    assert torch.equal(loss, expected)
    loss.backward()
    expected.backward()
    assert torch.equal(x.grad, y.grad)
    assert ["sin", "mul"] in graphs


def test_compiled_as_the_outermost_function():
    run = region(lambda x, y: x.sin() * y)
    d = rows(TORCH)
    assert_rows(TORCH, torch.compile(run, backend="eager")(d, y=2), run(d, 2).to_local().numpy())


def test_a_replicated_module_of_one_rank_is_the_module():
    module = Scaled()
    mesh = init_device_mesh("cpu", (1,))
    run = local_region(
        module, device_mesh=mesh, in_placements={"hidden_states": (Replicate(),)}, out_placements=(Replicate(),)
    )
    x = torch.from_numpy(VALUES)
    whole = run(DTensor.from_local(x, mesh, (Replicate(),))).full_tensor()
    assert torch.equal(whole, module(x))
