# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""An autograd function as a cell, and a cell with a boundary. On one process."""

from __future__ import annotations

import copy

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn
from mindspore.common._grad_function import _Function
from sharded_cells import HIDDEN, Block, Core, CoreModule, Softmax

from hyper_parallel import DTensor, Replicate, Shard, get_platform, init_device_mesh
from hyper_parallel.core.shard.dfunction import DFunction
from hyper_parallel.distributed import FunctionModule, ModuleShardingSpec, apply_sharding
from hyper_parallel.distributed._builder.boundary import boundary_of
from tests.boundary_plans import block_plan


class Scale(_Function):
    @staticmethod
    def forward(ctx, x, factor=2.0):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        return grad * 10 * ctx.factor, None  # not the derivative: the function's own is what counts


class KeywordOnly(_Function):
    @staticmethod
    def forward(ctx, x, *, factor):
        return x * factor


class Distributed(DFunction):
    _op_name = "function_module_scale"

    @staticmethod
    def forward(ctx, x, factor=2.0):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None


def drawn(*shape):
    return ms.Tensor(np.random.default_rng(5).normal(size=shape).astype(np.float32))


def one_rank():
    return init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))


def check_equal(found, expected):
    np.testing.assert_array_equal(found.asnumpy(), expected.asnumpy())


@pytest.mark.parametrize("fn", [Scale, Distributed])
def test_it_passes_arguments_and_keywords_to_apply(fn):
    x = drawn(3)
    check_equal(FunctionModule(fn)(x), 2 * x)
    check_equal(FunctionModule(fn)(x, 3.0), 3 * x)
    check_equal(FunctionModule(fn)(x, factor=4.0), 4 * x)
    check_equal(FunctionModule(fn)(factor=4.0, x=x), 4 * x)


def test_keywords_that_no_position_has():
    with pytest.raises(TypeError, match=r"KeywordOnly\.forward should take factor by position, not by keyword only"):
        FunctionModule(KeywordOnly)(drawn(3), factor=2.0)


def test_the_backward_is_the_functions_own():
    gradient = ms.grad(lambda x: FunctionModule(Scale)(x).sum())(drawn(3))
    check_equal(gradient, ms.Tensor(np.full(3, 20.0, np.float32)))


def test_it_is_an_ordinary_cell_without_state():
    cell = FunctionModule(Softmax)
    assert isinstance(cell, nn.Cell)
    assert (list(cell.get_parameters()), cell.fn, cell.extra_repr()) == ([], Softmax, "fn=Softmax")
    assert repr(nn.SequentialCell(cell)) == "SequentialCell(\n  (0): FunctionModule(fn=Softmax)\n)"
    x = drawn(2, 3)
    check_equal(copy.deepcopy(cell)(x), cell(x))


def test_a_subclass_gives_the_inputs_names():
    query, key, value = (drawn(1, 2, 3, 4) * factor for factor in (1.0, 2.0, 3.0))
    check_equal(CoreModule(Core)(query, value=value, key=key), Core.apply(query, key, value))


@pytest.mark.parametrize("fn", [ms.mint.tanh, Softmax.apply, nn.ReLU, None])
def test_anything_without_apply_is_refused(fn):
    with pytest.raises(TypeError, match="takes the class of an autograd function, with apply, but got"):
        FunctionModule(fn)


class Named(nn.Cell):
    def construct(self, x, y=None, *, z=None):
        return x, y, z


def test_inputs_are_found_by_name():
    rows = {"dp": Shard(0)}
    spec = ModuleShardingSpec(
        region_dispatch=False,
        in_src={"x": rows, "y": {}, "z": rows},
        out_src={"first": rows, "second": {}, "third": rows},
    )
    cell = apply_sharding(Named(), one_rank(), {"": spec}, mode="validate")
    x, y = drawn(2), drawn(3)
    for outputs in (cell(x, y, z=x), cell(z=x, y=y, x=x)):
        assert [type(output) for output in outputs] == [DTensor] * 3
        assert [output.placements[0] for output in outputs] == [Shard(0), Replicate(), Shard(0)]
    assert cell(x)[1:] == (None, None)
    with pytest.raises(TypeError, match="input 'y' is declared, so it should be a tensor"):
        cell(x, 4)
    with pytest.raises(ValueError, match="in_src declares 'w', which is no parameter of its forward"):
        apply_sharding(Named(), one_rank(), {"": ModuleShardingSpec(in_src={"w": {}, "x": {}})})


def test_production_refuses_dtensors():
    spec = ModuleShardingSpec(region_dispatch=False, in_src={"x": {}})
    cell = apply_sharding(FunctionModule(Softmax), one_rank(), {"": spec})
    with pytest.raises(TypeError, match="should be this rank's local tensor in production mode, but got a DTensor"):
        cell(DTensor.from_local(drawn(2), one_rank(), (Replicate(), Replicate())))


def test_names_of_cells_and_copies():
    reference = Block()
    cell = apply_sharding(copy.deepcopy(reference), one_rank(), block_plan("tp", ("dp",)))
    named = get_platform().modules.named_modules(cell)
    assert list(named) == [name for name, _ in reference.cells_and_names()]
    assert [name for name, below in named.items() if boundary_of(below)] == [
        "", "attn", "attn.core", "moe", "moe.router", "moe.gate",
    ]  # fmt: skip
    copied = copy.deepcopy(cell)
    assert boundary_of(copied.attn).module is copied.attn
    hidden = drawn(2, 3, HIDDEN)
    for found, expected in zip(copied(hidden), reference(hidden), strict=True):
        check_equal(found, expected)
    assert list(cell.parameters_dict()) == list(reference.parameters_dict())


def test_parameters_are_cut_in_place():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"), init_backend=False)
    cell = Block()
    before = dict(cell.parameters_and_names())
    whole = cell.moe.experts.down.asnumpy().copy()
    spec = ModuleShardingSpec(params={"experts.down": {"dp": Shard(0), "tp": Shard(2)}}, region_dispatch=False)
    apply_sharding(cell, mesh, {"moe": spec})
    assert all(item is before[name] for name, item in cell.parameters_and_names())
    np.testing.assert_array_equal(cell.moe.experts.down.asnumpy(), whole[:2, :, :8])
    assert cell.moe.experts.up.shape == (4, HIDDEN, 8)
