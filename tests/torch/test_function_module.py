# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""An autograd function as a module."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from sharded_modules import Core, CoreModule, Softmax

from hyper_parallel.core.shard.dfunction import DFunction
from hyper_parallel.distributed import FunctionModule


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor=2.0):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        return grad * 10 * ctx.factor, None  # not the derivative: the function's own is what counts


class Distributed(DFunction):
    _op_name = "function_module_scale"

    @staticmethod
    def forward(ctx, x, factor=2.0):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None


@pytest.mark.parametrize("fn", [Scale, Distributed])
def test_it_passes_arguments_and_keywords_to_apply(fn):
    x = torch.ones(3)
    assert torch.equal(FunctionModule(fn)(x), 2 * x)
    assert torch.equal(FunctionModule(fn)(x, 3.0), 3 * x)
    assert torch.equal(FunctionModule(fn)(x, factor=4.0), 4 * x)
    assert torch.equal(FunctionModule(fn)(factor=4.0, x=x), 4 * x)


def test_the_backward_is_the_functions_own():
    x = torch.ones(3, requires_grad=True)
    FunctionModule(Scale)(x).sum().backward()
    assert torch.equal(x.grad, torch.full((3,), 20.0))


def test_it_is_an_ordinary_module_without_state():
    module = FunctionModule(Softmax)
    assert isinstance(module, torch.nn.Module)
    assert (list(module.parameters()), list(module.buffers()), dict(module.state_dict())) == ([], [], {})
    assert module.fn is Softmax
    assert module.extra_repr() == "fn=Softmax"
    assert repr(torch.nn.Sequential(module)) == "Sequential(\n  (0): FunctionModule(fn=Softmax)\n)"
    x = torch.randn(2, 3)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(other(x), module(x))


def test_a_subclass_gives_the_inputs_names():
    query, key, value = (torch.randn(1, 2, 3, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    assert torch.autograd.gradcheck(CoreModule(Core), (query, key, value))
    assert torch.equal(CoreModule(Core)(query, value=value, key=key), Core.apply(query, key, value))


@pytest.mark.parametrize("fn", [torch.nn.functional.relu, Softmax.apply, torch.nn.ReLU, None])
def test_anything_without_apply_is_refused(fn):
    with pytest.raises(TypeError, match="takes the class of an autograd function, with apply, but got"):
        FunctionModule(fn)
