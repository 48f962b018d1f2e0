# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Operators run in PyNative mode only: ms.jit and graph mode say so, instead of recording something else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import mindspore as ms
import numpy as np
import pytest
from mindspore.graph import jit_trace
from on_mindspore import MINDSPORE

from hyper_parallel import Shard, custom_ops, distribute_tensor, init_device_mesh
from hyper_parallel.core.shard.dfunction import DFunction
from tests.operators import mhc_calls
from tests.operators.plain_table import plain_calls

POST = "npu_mhc_post"
OUTSIDE = r"call it outside of the jit function \(PyNative mode\)"
REFUSED = rf"MindSpore's graph mode \(ms.jit\) cannot run {POST}; {OUTSIDE}"
NO_DTENSOR = rf"MindSpore's graph mode \(ms.jit\) cannot take a DTensor, nor what works on one; {OUTSIDE}"
ONE_OF_EACH = {call.op: call for _, call in plain_calls()}


class StraightThrough(DFunction):
    """Rounds; its gradient is that of the identity, which no recording of the forward would give."""

    _op_name = "straight_through"

    @staticmethod
    def forward(ctx, x):
        return ms.mint.round(x)

    @staticmethod
    def backward(ctx, grad):
        return grad


class Named(StraightThrough):
    _op_name = None


def compiled(function, mode):
    """The function under ms.jit. Tracing fails where a frame has no source, as that of ``python -m pytest``."""
    call = ms.jit(function, capture_mode=mode)
    if mode != "trace":
        return call

    def call_apart(*args):
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(call, *args).result()

    return call_apart


def post(*tensors):
    return custom_ops.npu_mhc_post(*tensors)


def by_keyword(x, h_res, h_out, h_post):
    return custom_ops.npu_mhc_post(x=x, h_res=h_res, h_out=h_out, h_post=h_post)


def below_others(x, h_res, h_out, h_post):
    if x.sum() > -1e9:
        return by_keyword(x, h_res, h_out, h_post) + 1
    return x


def rounded(x, *_):
    return StraightThrough.apply(x) + 1


def rounded_list(x, *_):
    return StraightThrough.apply([x, x])


def rounded_by_heir(x, *_):
    return Named.apply(x)


class Net(ms.nn.Cell):
    def construct(self, x, h_res, h_out, h_post):
        return custom_ops.npu_mhc_post(x, h_res, h_out, h_post)


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MindSpore leaves there what it could not compile


@pytest.fixture
def tensors():
    return [MINDSPORE.tensor(array) for array in mhc_calls.draw(POST, (4,), "float32").values()]


@pytest.fixture
def sharded(tensors):
    mesh = init_device_mesh("cpu", (1,))
    return [distribute_tensor(tensor, mesh, (Shard(0),)) for tensor in tensors]


@pytest.fixture
def graph_mode():
    before = ms.get_context("mode")
    ms.set_context(mode=ms.GRAPH_MODE)
    yield
    ms.set_context(mode=before)


@pytest.mark.parametrize("mode", ["ast", "trace"])
@pytest.mark.parametrize(
    ("function", "name"),
    [
        (post, POST),
        (by_keyword, POST),
        (below_others, POST),
        (rounded, "straight_through"),
        (rounded_list, "straight_through"),
        (rounded_by_heir, "Named"),
    ],
)
def test_a_function_is_named_and_refused(function, name, mode, tensors):
    run = compiled(function, mode)
    for _ in range(2):  # the second call is not taken for one that has been compiled
        with pytest.raises(RuntimeError, match=REFUSED.replace(POST, name)):
            run(*tensors)
    np.testing.assert_array_equal(StraightThrough.apply(tensors[0]).asnumpy(), np.round(tensors[0].asnumpy()))


@pytest.mark.parametrize("op", ONE_OF_EACH)
def test_every_operator_is_refused(op):
    call = ONE_OF_EACH[op]
    given = {**call.tensors, **call.keywords(0)}
    given = {name: MINDSPORE.tensor(value) if isinstance(value, np.ndarray) else value for name, value in given.items()}
    run = getattr(custom_ops, op)

    @ms.jit
    def step():
        return run(**given)

    with pytest.raises(RuntimeError, match=REFUSED.replace(POST, op)):
        step()


@pytest.mark.parametrize("differentiate", [ms.grad, ms.value_and_grad])
def test_a_gradient_inside_is_refused(differentiate, tensors):
    @ms.jit
    def step(*given):
        return differentiate(by_keyword)(*given)

    with pytest.raises(RuntimeError, match=REFUSED):
        step(*tensors)


@pytest.mark.parametrize("mode", ["ast", "trace"])
@pytest.mark.parametrize("function", [post, by_keyword, rounded])
def test_dtensors_are_refused(function, mode, sharded):
    with pytest.raises(RuntimeError, match=f"{NO_DTENSOR}|{REFUSED}|{REFUSED.replace(POST, 'straight_through')}"):
        compiled(function, mode)(*sharded)


def twice(dtensor):
    return dtensor + dtensor


def whole(dtensor):
    return dtensor.full_tensor()


def local(dtensor):
    return dtensor.to_local()


@pytest.mark.parametrize("mode", ["ast", "trace"])
@pytest.mark.parametrize("function", [twice, whole, local])
def test_what_works_on_a_dtensor_is_refused(function, mode, sharded):
    with pytest.raises(RuntimeError, match=NO_DTENSOR):
        compiled(function, mode)(sharded[0])


@pytest.mark.parametrize("mode", ["ast", "trace"])
def test_dtensors_from_outside_are_refused(mode, tensors, sharded):
    def step(x):
        return x + custom_ops.npu_mhc_post(*sharded)

    with pytest.raises(RuntimeError, match=REFUSED):
        compiled(step, mode)(tensors[0])


def test_bytecode_runs_the_function_as_it_is(tensors):
    run = ms.jit(post, capture_mode="bytecode")
    for factor in (1, 2):
        given = [tensor * factor for tensor in tensors]
        np.testing.assert_array_equal(run(*given).asnumpy(), post(*given).asnumpy())
        loss, gradient = ms.value_and_grad(lambda *call: (run(*call) ** 2).sum())(*given)
        expected_loss, expected = ms.value_and_grad(lambda *call: (post(*call) ** 2).sum())(*given)
        np.testing.assert_array_equal(loss.asnumpy(), expected_loss.asnumpy())
        np.testing.assert_array_equal(gradient.asnumpy(), expected.asnumpy())


def test_tracing_goes_on_after_a_refusal(tensors):
    with pytest.raises(RuntimeError, match=REFUSED):
        compiled(post, "trace")(*tensors)
    run = compiled(lambda x: x * 2 + 1, "trace")
    for tensor in tensors[:2]:
        np.testing.assert_array_equal(run(tensor).asnumpy(), tensor.asnumpy() * 2 + 1)


def test_a_traced_function_that_has_failed_is_over(tensors):
    def fail(_):
        raise ArithmeticError("not ours")

    expected = post(*tensors).asnumpy()
    with pytest.raises(ArithmeticError):
        compiled(fail, "trace")(tensors[0])
    try:  # MindSpore goes on as if it were still tracing
        np.testing.assert_array_equal(post(*tensors).asnumpy(), expected)
    finally:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(jit_trace._jit_trace_end, tensors[0]).result()


@pytest.mark.usefixtures("graph_mode")
def test_graph_mode_runs_what_is_called_outside_of_a_cell(tensors, sharded):
    expected = mhc_calls.forward(POST, mhc_calls.draw(POST, (4,), "float32"))["out"]
    np.testing.assert_array_equal(post(*tensors).asnumpy(), expected)
    np.testing.assert_array_equal(post(*sharded).to_local().asnumpy(), expected)


@pytest.mark.usefixtures("graph_mode")
def test_graph_mode_refuses_what_is_called_inside_of_a_cell(tensors, sharded):
    with pytest.raises(RuntimeError, match=REFUSED):
        Net()(*tensors)
    with pytest.raises(RuntimeError, match=NO_DTENSOR):
        Net()(*sharded)


def test_a_cell_in_pynative_mode_runs(tensors):
    np.testing.assert_array_equal(Net()(*tensors).asnumpy(), post(*tensors).asnumpy())
