# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What makes a call a distributed one, and what a DFunction must not do."""

from __future__ import annotations

from typing import Any

import autograd
import numpy as np
import pytest

from hyper_parallel import DTensor, Replicate, Shard, init_device_mesh
from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.shard.dfunction import DFunction
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp


class Joined(DFunction):
    """A tuple of tensors, end to end."""

    _op_name = "joined_for_dfunction"

    @staticmethod
    def forward(_ctx: Any, parts: Any, scale: Any = 1.0) -> Any:
        return np.concatenate(parts) * scale

    @staticmethod
    def backward(_ctx: Any, grad: Any) -> Any:
        return grad, None


class JoinedDistributedOp(DistributedOp):
    """Replicated parts in, one replicated tensor out."""

    def preprocess(self, args: Any, kwargs: Any) -> Any:
        parts = tuple(part.to_local() for part in args[0])
        return (parts, *args[1:]), dict(kwargs), [part.layout for part in args[0]]

    def infer_layout(self, cache_values: Any) -> Any:
        first: Layout = cache_values[0]
        return (first,), None


@pytest.fixture
def mesh() -> Any:
    return init_device_mesh("cpu", (1,), mesh_dim_names=("dp",))


def replicated(mesh: Any, length: int = 2) -> DTensor:
    return DTensor.from_local(np.ones(length), mesh, (Replicate(),))


def test_dtensors_in_a_tuple_count(mesh: Any) -> None:
    JoinedDistributedOp("joined_for_dfunction")
    out = Joined.apply((replicated(mesh), replicated(mesh, 3)), scale=2.0)
    assert isinstance(out, DTensor)
    assert np.array_equal(out.to_local(), np.full(5, 2.0))
    assert isinstance(Joined.apply((np.ones(2), np.ones(3))), np.ndarray)


class Nameless(DFunction):
    @staticmethod
    def forward(_ctx: Any, x: Any, y: Any = None) -> Any:
        return x

    @staticmethod
    def backward(_ctx: Any, grad: Any) -> Any:
        return grad, None


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (lambda d: (d,), {}),
        (lambda d: (np.ones(2), d), {}),
        (lambda d: (np.ones(2), [d]), {}),
        (lambda d: (np.ones(2), (1, (2, d))), {}),
        (lambda d: (np.ones(2),), {"y": lambda d: d}),
        (lambda d: (np.ones(2),), {"y": lambda d: [(d,)]}),
    ],
)
def test_a_dtensor_anywhere_needs_a_name(mesh: Any, args: Any, kwargs: Any) -> None:
    dtensor = DTensor.from_local(np.ones(2), mesh, (Shard(0),))
    named = {name: make(dtensor) for name, make in kwargs.items()}
    with pytest.raises(ValueError, match="Nameless got a DTensor but has no _op_name"):
        Nameless.apply(*args(dtensor), **named)
    Nameless._op_name = "nobody_knows_this"
    try:
        with pytest.raises(RuntimeError, match="No distributed operator is registered under the name 'nobody_knows"):
            Nameless.apply(*args(dtensor), **named)
    finally:
        Nameless._op_name = None


class CallsItselfForward(DFunction):
    @staticmethod
    def forward(_ctx: Any, x: Any) -> Any:
        return CallsItselfForward.apply(x)

    @staticmethod
    def backward(_ctx: Any, grad: Any) -> Any:
        return (grad,)


class CallsItselfBackward(DFunction):
    @staticmethod
    def forward(_ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(_ctx: Any, grad: Any) -> Any:
        return (CallsItselfBackward.apply(grad),)


class CallsAnother(DFunction):
    @staticmethod
    def forward(_ctx: Any, x: Any) -> Any:
        return Nameless.apply(x) * 3

    @staticmethod
    def backward(_ctx: Any, grad: Any) -> Any:
        return (Nameless.apply(grad) * 3,)


def test_a_function_that_calls_itself_for_ever_is_told_so() -> None:
    for _ in range(2):  # and the thread is as before afterwards
        with pytest.raises(RuntimeError, match=r"CallsItselfForward\.apply was called from inside of its own"):
            CallsItselfForward.apply(np.ones(2))


def test_a_backward_may_use_the_forward() -> None:
    assert np.array_equal(autograd.grad(lambda x: CallsItselfBackward.apply(x).sum())(np.ones(2)), [2, 2])


def test_a_function_may_call_another_one() -> None:
    assert np.array_equal(autograd.grad(lambda x: CallsAnother.apply(x).sum())(np.ones(2)), [3, 3])
