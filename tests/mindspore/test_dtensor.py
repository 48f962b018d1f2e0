# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""DTensors on MindSpore, on one rank: what holds the local tensor, and that nothing takes it for the whole."""

from __future__ import annotations

import copy
import pickle
import re

import mindspore as ms
import numpy as np
import pytest
from mindspore import mint, ops

from hyper_parallel import DTensor, Partial, Replicate, Shard, custom_ops, distribute_tensor, init_device_mesh
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp
from hyper_parallel.core.shard.ops.parallel_ops_register import REGISTRY
from hyper_parallel.platform.mindspore.host_arrays import to_array, to_tensor
from tests.operators import mhc_calls
from tests.operators.mhc_calls import POST

VALUES = np.arange(6.0, dtype=np.float32).reshape(2, 3)


def mesh_of_four():
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"), init_backend=False)


def half():
    """A DTensor of which this process, rank 0 of four, holds the upper half."""
    return DTensor.from_local(to_tensor(VALUES), mesh_of_four(), (Shard(0), Replicate()))


def test_what_it_says_of_itself():
    d = half()
    assert type(d) is DTensor
    assert isinstance(d, ms.Tensor)
    assert (d.shape, d.local_shape, d.ndim, d.dtype) == ((4, 3), (2, 3), 2, ms.float32)
    assert d.placements == (Shard(0), Replicate())
    assert d.device_mesh is mesh_of_four()
    text = "DTensor(shape=(4, 3), dtype=float32, Layout([dp, None] on DeviceMesh(cpu, dp=2, tp=2)))"
    assert [repr(d), str(d), f"{d}"] == [text] * 3
    assert {d: 1}[d] == 1


def test_the_local_tensor_lies_in_the_same_memory():
    local = to_tensor(VALUES)
    d = DTensor.from_local(local, mesh_of_four(), (Shard(0), Replicate()))
    assert type(d.to_local()) is ms.Tensor
    np.testing.assert_array_equal(to_array(d.to_local()), VALUES)
    assert d.to_local().data_ptr() == local.data_ptr()


def test_gradients_flow_through_it_and_with_respect_to_it():
    mesh, weights = mesh_of_four(), to_tensor(VALUES + 1)

    def loss(local):
        return (DTensor.from_local(local * 2, mesh, (Shard(0), Replicate())).to_local() * weights).sum()

    np.testing.assert_array_equal(to_array(ms.grad(loss)(to_tensor(VALUES))), 2 * (VALUES + 1))
    made_before = ms.grad(lambda d: (d.to_local() * weights).sum())(half())
    np.testing.assert_array_equal(to_array(made_before), VALUES + 1)


@pytest.mark.parametrize("where", ["in the loss", "before the loss"])
def test_a_parameter_stays_the_parameter(where):
    weight, mesh = ms.Parameter(to_tensor(VALUES), name="weight"), mesh_of_four()
    before = DTensor.from_local(weight, mesh, (Shard(0), Replicate()))
    assert before.to_local() is weight

    def loss():
        d = before if where == "before the loss" else DTensor.from_local(weight, mesh, (Shard(0), Replicate()))
        return (d.to_local() ** 2).sum()

    step = ms.value_and_grad(loss, None, [weight])
    _, gradients = step()
    np.testing.assert_array_equal(to_array(gradients[0]), 2 * VALUES)
    ms.nn.SGD([weight], learning_rate=0.5)(gradients)
    np.testing.assert_array_equal(to_array(before.to_local()), 0 * VALUES)
    assert float(step()[0]) == 0
    weight.set_data(to_tensor(VALUES))
    np.testing.assert_array_equal(to_array(before.to_local()), VALUES)


def test_an_operator_that_fails_later_fails_here():
    """MindSpore computes asynchronously; a failure that comes while a DTensor is made would end the process."""
    halves = to_tensor(VALUES).astype(ms.bfloat16)
    layout = half().layout
    with pytest.raises(TypeError, match="Unsupported data type"):
        DTensor.from_layout(halves == halves * 2, layout)  # not on the CPU


def test_copies():
    d = half()
    assert copy.copy(d) is d
    for other in (copy.deepcopy(d), pickle.loads(pickle.dumps(d))):
        assert type(other) is DTensor
        assert other.layout is d.layout
        np.testing.assert_array_equal(to_array(other.to_local()), VALUES)
        assert other.to_local().data_ptr() != d.to_local().data_ptr()


NATIVE = {
    "method": (lambda d, x: d.sum(), "SumExt"),
    "d + x": (lambda d, x: d + x, "AddExt"),
    "x + d": (lambda d, x: x + d, "AddExt"),
    "1 + d": (lambda d, x: 1 + d, "AddExt"),
    "x - d": (lambda d, x: x - d, "SubExt"),
    "x * d": (lambda d, x: x * d, "Mul"),
    "x / d": (lambda d, x: x / d, "Div"),
    "x // d": (lambda d, x: x // d, "FloorDiv"),
    "x % d": (lambda d, x: x % d, "RemainderTensorTensor"),
    "x ** d": (lambda d, x: x**d, "Pow"),
    "x @ d": (lambda d, x: x @ d, "MatMulExt"),
    "x & d": (lambda d, x: x & d, "LogicalAnd"),
    "x | d": (lambda d, x: x | d, "LogicalOr"),
    "x ^ d": (lambda d, x: x ^ d, "LogicalXor"),
    "x == d": (lambda d, x: x == d, "Equal"),
    "x < d": (lambda d, x: x < d, "Greater"),
    "-d": (lambda d, x: -d, "Neg"),
    "mint, second": (lambda d, x: mint.add(x, d), "AddExt"),
    "in a list": (lambda d, x: mint.cat([x, d]), "Concat"),
    "primitive": (ops.Add(), "Add"),
    "packed primitive": (lambda d, x: ops.ReduceSum()(d, 0), "ReduceSum"),
    "zeros_like": (lambda d, x: ops.zeros_like(d), "ZerosLike"),
    "stop_gradient": (lambda d, x: ops.stop_gradient(d), "StopGradient"),
    "cast": (lambda d, x: d.astype(ms.float16), "ToDtype"),
    "reshape": (lambda d, x: d.reshape((-1,)), "Reshape"),
    "in place": (lambda d, x: d.add_(x), "InplaceAddExt"),
    "in a cell": (lambda d, x: ms.nn.ReLU()(d), "ReLU"),
}


@pytest.mark.parametrize(("call", "name"), NATIVE.values(), ids=NATIVE)
def test_native_operators_go_to_the_dispatcher(call, name):
    message = f"No distributed operator is registered under the name {name!r}, so it cannot run on DTensors."
    with pytest.raises(RuntimeError, match=re.escape(message)):
        call(half(), to_tensor(VALUES))


LOCAL = {
    "d[0]": lambda d: d[0],
    "d[0] = 1": lambda d: d.__setitem__(0, 1),
    "len": len,
    "iteration": list,
    "float": float,
    "int": int,
    "bool": bool,
    "+d": lambda d: +d,
    "asnumpy": lambda d: d.asnumpy(),
    "numpy": lambda d: d.numpy(),
    "item": lambda d: d.item(),
    "tolist": lambda d: d.tolist(),
    "contiguous": lambda d: d.contiguous(),
    "value": lambda d: d.value(),
    "size": lambda d: d.size,
    "nbytes": lambda d: d.nbytes,
    "numel": lambda d: d.numel(),
    "strides": lambda d: d.strides,
    "data": lambda d: d.data,
    "swapaxes": lambda d: d.swapaxes(0, 0),
    "set_": lambda d: d.set_(),
    "type_as": lambda d: d.type_as(d),
    "asarray": np.asarray,
    "np.add": lambda d: np.add(d, 1),
    "ndarray * d": lambda d: np.ones(3) * d,
    "np.sum": np.sum,
    "Parameter": lambda d: ms.Parameter(d, name="d"),
    "DTensor(...)": lambda d: DTensor(d.to_local()),
    "from_local": lambda d: DTensor.from_local(d, d.device_mesh, d.placements),
    "distribute_tensor": lambda d: distribute_tensor(d, d.device_mesh, d.placements),
}


@pytest.mark.parametrize("call", LOCAL.values(), ids=LOCAL)
def test_nothing_takes_the_local_tensor_for_the_whole(call):
    with pytest.raises(TypeError, match="DTensor"):
        call(half())


class Rows(DistributedOp):
    """Takes one tensor of any layout; counts how often a layout was inferred."""

    def __init__(self, op_name):
        super().__init__(op_name)
        self.inferred = 0

    def preprocess(self, args, kwargs):
        local = [value.to_local() if isinstance(value, DTensor) else value for value in args]
        return (
            tuple(local),
            kwargs,
            (args[0].layout, *(value for value in args[1:] if not isinstance(value, ms.Tensor))),
        )

    def infer_layout(self, cache_values):
        self.inferred += 1
        return (cache_values[0],), None


@pytest.mark.parametrize(
    ("name", "call", "inferred"),
    [
        ("Exp", mint.exp, 1),
        ("Softmax", ops.Softmax(-1), 1),
        ("CumSum", lambda d: ops.CumSum()(d, 1), 3),  # a primitive made anew is another operator
        ("ZerosLike", ops.zeros_like, 1),
        ("LogicalNot", ops.logical_not, 1),
    ],
)
def test_a_registered_native_operator_runs(monkeypatch, name, call, inferred):
    monkeypatch.setattr(REGISTRY, "layout_infer_ops", dict(REGISTRY.layout_infer_ops))
    operator = Rows(name)
    expected = to_array(call(to_tensor(VALUES)))
    for _ in range(3):
        d = half()
        result = call(d)
        assert type(result) is DTensor
        assert result.layout is d.layout
        np.testing.assert_array_equal(to_array(result.to_local()), expected)
    assert operator.inferred == inferred


def test_a_mesh_of_one_rank_needs_no_launcher():
    mesh = init_device_mesh("cpu", (1, 1))
    d = DTensor.from_local(to_tensor(VALUES), mesh, (Partial(), Shard(1)))
    np.testing.assert_array_equal(to_array(d.full_tensor()), VALUES)
    gradient = ms.grad(
        lambda x: (DTensor.from_local(x, mesh, (Partial(), Shard(1))).full_tensor() * 3).sum()
    )(to_tensor(VALUES))  # fmt: skip
    np.testing.assert_array_equal(to_array(gradient), np.full_like(VALUES, 3))


def test_groups_of_a_mesh_that_only_describes_layouts():
    with pytest.raises(ValueError, match="init_backend=False and only describes layouts"):
        mesh_of_four().get_group("dp")


def test_devices():
    with pytest.raises(ValueError, match="device_type on MindSpore should be one of cpu, npu, but got 'gpu'"):
        init_device_mesh("gpu", (1,))


def test_an_operator_on_a_mesh_of_one_rank():
    arrays = mhc_calls.draw(POST, (2, 3), "float32")
    mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("dp",))
    tensors = [distribute_tensor(to_tensor(value), mesh, (Shard(0),)) for value in arrays.values()]
    output = custom_ops.npu_mhc_post(*tensors)
    assert type(output) is DTensor
    np.testing.assert_array_equal(to_array(output.to_local()), mhc_calls.forward(POST, arrays)["out"])


def test_other_kinds_of_tensors_are_refused():
    mesh = mesh_of_four()
    with pytest.raises(TypeError, match=r"should be a tensor of mindspore, but got a numpy\.ndarray"):
        DTensor.from_local(VALUES, mesh, (Shard(0), Replicate()))
    arrays = mhc_calls.draw(POST, (2, 3), "float32")
    tensors = {
        name: distribute_tensor(to_tensor(value), mesh, (Shard(0), Replicate())) for name, value in arrays.items()
    }
    with pytest.raises(
        TypeError, match="x should be a DTensor because another argument is one, but got a plain tensor"
    ):
        custom_ops.npu_mhc_post(**{**tensors, "x": to_tensor(arrays["x"])})
