# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Cells sharded by a plan, against the same cells on one device: outputs, and gradients of inputs and parameters."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn, ops
from ranks import run_mccl_ranks
from sharded_cells import HIDDEN, Attention, Block, Moe

from hyper_parallel import DTensor, Replicate, Shard, custom_ops, distribute_tensor, get_platform, init_device_mesh
from hyper_parallel.distributed import ModuleShardingSpec, PlacementMismatchError, apply_sharding
from hyper_parallel.distributed._builder.boundary import boundary_of
from tests.boundary_plans import PLANS, attention_spec, block_plan, plan_of
from tests.operators.mhc_calls import POST, draw

MODULES = {"Attention": Attention, "Moe": Moe, "Block": Block}


def as_tuple(outputs):
    return outputs if isinstance(outputs, tuple) else (outputs,)


def drawn(*shape, seed=11):
    return ms.Tensor(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def part(tensor, mesh, placements):
    return distribute_tensor(tensor, mesh, placements).to_local()


def check_close(found, expected, what):
    np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=2e-4, atol=2e-5, err_msg=what)


def run(call, cell, hidden, weights_of):
    """Outputs, the input's gradient and the parameters', of a loss that is not symmetric in anything."""
    parameters = list(cell.trainable_params())

    def loss(given):
        outputs = as_tuple(call(given))
        return sum(
            (output * weight).sum() for output, weight in zip(outputs, weights_of(outputs), strict=True)
        ), outputs

    (_, outputs), (input_grad, grads) = ms.value_and_grad(loss, 0, parameters, has_aux=True)(hidden)
    return outputs, input_grad, {parameter.name: grad for parameter, grad in zip(parameters, grads, strict=True)}


def check_plan(name, mesh, batch, mode):
    kind, plan = plan_of(name, mesh.axis_names[-1], batch)
    reference = MODULES[kind]()
    names = [item.name for item in reference.trainable_params()]
    sharded = apply_sharding(copy.deepcopy(reference), mesh, plan, mode=mode)
    assert [item.name for item in sharded.trainable_params()] == names
    assert list(sharded.parameters_dict()) == list(reference.parameters_dict())

    hidden = drawn(4, 8, HIDDEN)
    cotangents = [drawn(*output.shape, seed=place) for place, output in enumerate(as_tuple(reference(hidden)))]
    expected, input_grad, grads = run(reference, reference, hidden, lambda _: cotangents)

    boundary = boundary_of(sharded)
    source = boundary.inputs["hidden"][0].source
    targets = [declared[0].target for declared in boundary.outputs.values()]
    mine = ms.Tensor(part(hidden, mesh, source).asnumpy())

    def call(given):
        if mode == "production":
            return sharded(given)
        outputs = as_tuple(sharded(DTensor.from_local(given, mesh, source)))
        assert [output.placements for output in outputs] == targets
        return tuple(output.to_local() for output in outputs)

    parts = [part(item, mesh, target) for item, target in zip(cotangents, targets, strict=True)]
    outputs, found, sharded_grads = run(call, sharded, mine, lambda _: parts)
    for output, whole, placements in zip(outputs, expected, targets, strict=True):
        assert not isinstance(output, DTensor)
        check_close(output, part(whole, mesh, placements), "output")
    check_close(found, part(input_grad, mesh, source), "gradient of the input")
    layouts = {
        f"{path}.{item.path}".lstrip("."): item.layout.placements
        for path, below in get_platform().modules.named_modules(sharded).items()
        for item in (boundary_of(below).parameters if boundary_of(below) else ())
    }
    assert set(layouts) == set(names)
    for path, grad in sharded_grads.items():
        check_close(grad, part(grads[path], mesh, layouts[path]), path)


def check_wrong_declarations(mesh):
    rank = get_platform().rank
    hidden = drawn(2, 4, HIDDEN)

    def mismatch(call):
        with pytest.raises(PlacementMismatchError) as caught:
            call()
        error = caught.value
        return error.module, error.stage, error.name, error.expected, error.actual

    differ = "values that differ between the ranks along 'tp'"
    right = attention_spec("tp", ())
    wrong = ModuleShardingSpec(params=right.params, region_dispatch=False, in_src=right.in_src, out_src={"out": {}})

    def attention(spec):
        return apply_sharding(Block(), mesh, {"attn": spec}, mode="validate").attn

    assert mismatch(lambda: attention(wrong)(hidden)) == ("attn", "out_src", "out", (Replicate(),), differ)
    assert mismatch(lambda: attention(right)(hidden + rank)) == ("attn", "in_src", "hidden", (Replicate(),), differ)
    rows = DTensor.from_local(hidden, mesh, (Shard(0),))
    assert mismatch(lambda: attention(right)(rows)) == ("attn", "in_src", "hidden", (Replicate(),), (Shard(0),))
    found = mismatch(lambda: attention(right)(hidden[: 1 + rank]))
    assert found[4] == "parts of different shapes: (1, 4, 16) on rank 0, (2, 4, 16) on rank 1"
    cell = Block()
    cell.attn.temperature.set_data(ms.Tensor(float(rank), ms.float32))
    found = mismatch(lambda: apply_sharding(cell, mesh, {"attn": right}, mode="validate"))
    assert found == ("attn", "params", "temperature", (Replicate(),), differ)
    assert cell.attn.q_proj.weight.shape == (HIDDEN, HIDDEN)
    forgotten = {name: cut for name, cut in right.params.items() if name != "q_proj.bias"}
    message = (
        r"(?s)'attn', the forward has failed, where .* cut: q_proj.weight \(8, 16\), .*; not cut: .*q_proj.bias \(16,\)"
    )
    with pytest.raises(ValueError, match=message):
        attention(replace(right, params=forgotten))(hidden)
    with pytest.raises(RuntimeError, match=r"'attn', region_dispatch=True .*\. Give region_dispatch=False"):
        attention(replace(right, region_dispatch=True))(hidden)
    with pytest.warns(RuntimeWarning, match="'attn', parameters are cut .* no in_src and no out_src"):
        attention(ModuleShardingSpec(params=right.params, region_dispatch=False))
    module = apply_sharding(Block(), mesh, block_plan("tp", ()), mode="validate")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        module(hidden)


class Post(nn.Cell):
    def __init__(self, h_out):
        super().__init__()
        self.h_out = ms.Parameter(h_out, name="h_out")

    def construct(self, x, h_res, h_post):
        return custom_ops.npu_mhc_post(x, h_res, self.h_out, h_post)


def check_dispatched_region(mesh):
    """The forward runs on DTensors: the parameter that is replicated is cut by the operator, its gradient summed."""
    tensors = {name: ms.Tensor(np.asarray(array)) for name, array in draw(POST, (8,), "float32").items()}
    names = ("x", "h_res", "h_post")
    rows = {"tp": Shard(0)}

    def sharded(out):
        spec = ModuleShardingSpec(in_src=dict.fromkeys(names, rows), out_src={"out": out})
        return apply_sharding(Post(tensors["h_out"].copy()), mesh, {"": spec}, mode="validate")

    def loss(cell, x, h_res, h_post):
        output = cell(x, h_res, h_post)
        return ((output.to_local() if isinstance(output, DTensor) else output) ** 2).sum()

    single, cell = Post(tensors["h_out"].copy()), sharded(rows)
    parameter = cell.h_out
    whole = [tensors[name] for name in names]
    local = [ms.Tensor(part(item, mesh, (Shard(0),)).asnumpy()) for item in whole]
    (expected,) = ms.grad(lambda *given: loss(single, *given), None, [single.h_out])(*whole)
    (found,) = ms.grad(lambda *given: loss(cell, *given), None, [cell.h_out])(*local)
    check_close(found, expected, "h_out")
    assert cell.h_out is parameter
    check_close(cell(*local).full_tensor(), single(*whole), "output")
    with pytest.raises(PlacementMismatchError) as caught:
        sharded({})(*local)
    assert (caught.value.stage, caught.value.expected, caught.value.actual) == ("out_src", (Replicate(),), (Shard(0),))


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.inner = nn.Dense(6, 6, weight_init=drawn(6, 6), bias_init=drawn(6))  # the same on every rank
        self.scale = ms.Parameter(drawn(6), name="scale")
        self.listed = [self.scale]
        self.late = None

    def construct(self, x):
        y = ops.tanh(self.inner(x)) * self.scale + self.listed[0]
        return y if self.late is None else y + self.late


class Around(nn.Cell):
    """Uses a parameter of a cell below, which has a boundary of its own, by itself too."""

    def __init__(self):
        super().__init__()
        self.net = Net()

    def construct(self, x):
        return ops.matmul(self.net(x), self.net.inner.weight) * self.net.scale


def add_late(cell):
    cell.late = ms.Parameter(drawn(6, seed=3), name="late")


def replace_inner(cell):
    cell.inner = nn.Dense(6, 6, weight_init="ones", bias_init="ones")


def clip(cell):
    cell.scale.register_hook(lambda grad: ops.clamp(grad, -0.05, 0.05))


def compute_inner_again(cell):
    cell.inner.recompute()


def check_parameters_outside_of_their_region():
    """A penalty and a tied product count once; parameters that come after the plan are summed. Two steps of SGD."""
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    rows = {"tp": Shard(0)}
    by_rows = ModuleShardingSpec(
        region_dispatch=False, in_src={"x": {}}, in_dst={"x": rows}, out_src={"y": rows}, out_dst={"y": {}}
    )
    inner = ModuleShardingSpec(region_dispatch=False, in_src={"x": rows}, out_src={"y": rows})
    plain, around = (Net, {"": by_rows}), (Around, {"": by_rows, "net": inner})
    changes = (None, add_late, replace_inner, clip, compute_inner_again)
    for (build, plan), change, mode in [
        *((plain, change, "production") for change in changes),
        (plain, None, "validate"),
        (around, None, "production"),
        (around, None, "validate"),
    ]:
        reference = build()
        cell = apply_sharding(copy.deepcopy(reference), mesh, plan, mode=mode)
        for one in (reference, cell) if change else ():
            change(one)

        def loss(of, x):
            y = of(x)
            y = y.to_local() if isinstance(y, DTensor) else y
            weight = (of.net if isinstance(of, Around) else of).inner.weight
            return (ops.matmul(y, weight) ** 2).mean() + sum((item**2).sum() for item in of.trainable_params())

        for step in range(2):
            x, steps = drawn(4, 6, seed=step), []
            for one in (reference, cell):
                parameters = list(one.trainable_params())
                grads = ms.grad(lambda given, one=one: loss(one, given), None, parameters)(x)
                steps.append(list(zip(parameters, grads, strict=True)))
            assert len(steps[0]) == len(steps[1]) >= 3
            for (item, expected), (other, found) in zip(*steps, strict=True):
                check_close(found, expected, f"{change}, {mode}, step {step}: {item.name}")
                item.set_data(item - 0.05 * expected)
                other.set_data(other - 0.05 * found)


def check_plans(shape, names, batch, plans):
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
    for plan in plans:
        for mode in ("production", "validate"):
            try:
                check_plan(plan, mesh, batch, mode)
            except Exception as error:
                raise AssertionError(f"{plan} in {mode} mode: {error}") from error
    if len(shape) == 1:
        check_wrong_declarations(mesh)
        check_dispatched_region(mesh)


def test_two_ranks():
    run_mccl_ranks(check_plans, 2, (2,), ("tp",), (), ("attention", "moe"))


def test_parameters_outside_of_their_region():
    run_mccl_ranks(check_parameters_outside_of_their_region, 2)


@pytest.mark.slow
def test_two_ranks_with_every_plan():
    run_mccl_ranks(check_plans, 2, (2,), ("tp",), (), PLANS)


@pytest.mark.slow
def test_two_by_two_ranks():
    run_mccl_ranks(check_plans, 4, (2, 2), ("dp", "tp"), ("dp",), ("attention, ulysses", "moe"))
