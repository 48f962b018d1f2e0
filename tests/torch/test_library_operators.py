# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""torch.ops.hyper_parallel.<op>: torch's own checks, and the bits of the references, eager and compiled."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from on_torch import TORCH
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import hyper_parallel.torch_library  # noqa: F401 - defines the operators
from hyper_parallel import DTensor, Shard, init_device_mesh, library
from tests.operators.plain_table import check_plain, plain_calls
from tests.operators.sharded_calls import as_tuple

CALLS = dict(plain_calls())
ONE_DTYPE = {name: call for name, call in CALLS.items() if name.endswith("float32")}
COMPILED = [
    pytest.param(call, id=name, marks=pytest.mark.slow if name.split()[1] in ("TN", "ragged") else ())
    for name, call in ONE_DTYPE.items()
    if "in the middle" not in name
]


def operator(op):
    return getattr(torch.ops.hyper_parallel, op)


def given(call):
    """The tensors of a call, those with a gradient as leaves that require it, and its keywords."""
    tensors = {name: TORCH.tensor(value) for name, value in call.tensors.items()}
    for name in call.gradients:
        tensors[name].requires_grad_()
    keywords = {
        name: TORCH.tensor(value) if isinstance(value, np.ndarray) else value
        for name, value in call.keywords(0).items()
    }
    return tensors, keywords


EAGER = TORCH._replace(run=operator)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_equal_to_the_reference(call):
    """As the autograd functions are by the same table, so that both have the same bits."""
    check_plain(call, EAGER)


@pytest.mark.parametrize("call", ONE_DTYPE.values(), ids=ONE_DTYPE)
def test_checks_of_torch(call):
    tensors, keywords = given(call)
    found = torch.library.opcheck(operator(call.op).default, (), tensors | keywords)
    assert set(found.values()) == {"SUCCESS"}
    assert set(found) == {"test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"}


@pytest.mark.parametrize("call", COMPILED)
def test_compiled_as_one_graph(call):
    torch._dynamo.reset()

    def compiled(op):
        def run(**arguments):
            return operator(op)(**arguments)

        return torch.compile(run, fullgraph=True, backend="aot_eager", dynamic=True)

    check_plain(call, TORCH._replace(run=compiled))


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_meta_tensors(call):
    tensors, keywords = given(call)
    moved = {name: value.to("meta") for name, value in tensors.items()}
    moved |= {name: value.to("meta") if isinstance(value, torch.Tensor) else value for name, value in keywords.items()}
    outputs = as_tuple(operator(call.op)(**moved))
    for output, (name, expected) in zip(outputs, call.outputs.items(), strict=True):
        assert output.device.type == "meta", name
        assert output.shape == expected.shape, name
        assert output.dtype == TORCH.tensor(expected).dtype, name


def test_every_operator_is_defined():
    assert {call.op for call in CALLS.values()} == set(library.operators())
    for op, entry in library.operators().items():
        assert operator(op).default
        assert hasattr(torch.ops.hyper_parallel, f"{op}_backward") == bool(entry.backward_reference)


def test_one_graph_for_every_length():
    """A packed call with other tokens, and other document ends, is not traced again."""
    frames = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")

    def run(query, key, weights, ends):
        return operator("npu_dense_lightning_indexer_softmax_lse")(query, key, weights, ends, ends, layout="TND")

    torch._dynamo.reset()
    compiled = torch.compile(run, fullgraph=True, backend=frames, dynamic=True)
    for ends in ([3, 7], [2, 9], [5, 6], [1, 12]):
        generator = torch.Generator().manual_seed(ends[-1])
        tokens = ends[-1]
        tensors = [
            torch.randn(shape, generator=generator) for shape in ((tokens, 8, 128), (tokens, 1, 128), (tokens, 8))
        ]
        for found, expected in zip(compiled(*tensors, ends), run(*tensors, ends), strict=True):
            assert torch.equal(found, expected)
    assert frames.frame_count == 1


def test_exported():
    class Layer(torch.nn.Module):
        def forward(self, x, h_res, h_out, h_post):
            return operator("npu_mhc_post")(x, h_res, h_out, h_post)

    tensors = [torch.randn(shape) for shape in ((4, 2, 8), (4, 2, 2), (4, 8), (4, 2))]
    exported = torch.export.export(Layer(), tuple(tensors), dynamic_shapes=[{0: torch.export.Dim("T")}] * 4)
    assert [node.target for node in exported.graph.nodes if node.op == "call_function"] == [
        torch.ops.hyper_parallel.npu_mhc_post.default
    ]
    fewer = [tensor[:3] for tensor in tensors]
    assert torch.equal(exported.module()(*fewer), Layer()(*fewer))


def test_dtensors():
    """The layout rule of the operator holds for the torch.library one, where all outputs are returned."""
    mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("dp",))
    tensors = [torch.randn(shape) for shape in ((4, 2, 8), (4, 2, 2), (4, 8), (4, 2))]
    out = operator("npu_mhc_post")(*(DTensor.from_local(tensor, mesh, (Shard(0),)) for tensor in tensors))
    assert out.placements == (Shard(0),)
    assert torch.equal(out.to_local(), operator("npu_mhc_post")(*tensors))


def test_unknown_extents():
    """Extents that only the data tell: the shapes follow, and the checks wait for the call itself."""
    shapes = ShapeEnv(allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True)
    with FakeTensorMode(shape_env=shapes):
        kept = torch.zeros(6, dtype=torch.bool).nonzero()[:, 0]
        x, h_res, h_out, h_post = (torch.zeros(shape)[kept] for shape in ((6, 2, 8), (6, 2, 2), (6, 8), (6, 2)))
        out = operator("npu_mhc_post")(x, h_res, h_out, h_post)
    assert out.shape[0] is x.shape[0] or out.shape[0].node.expr == x.shape[0].node.expr
    assert tuple(out.shape[1:]) == (2, 8)
