# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""DFunctions under what torch offers around autograd: second derivatives, no_grad, checkpoints, autocast, compile."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from hyper_parallel import DTensor, Shard, init_device_mesh
from hyper_parallel.core.shard.dfunction import DFunction
from hyper_parallel.core.shard.ops.layout_rule import LayoutRule
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp
from hyper_parallel.platform.torch.custom_ops import custom_op_impl
from tests.operators.kl_loss_calls import DENSE, SCALE
from tests.operators.kl_loss_calls import draw as draw_loss
from tests.operators.mhc_calls import INPUTS, POST, draw


def bind(x: Any) -> tuple[Any, ...]:
    return (x,)


class Cube(DFunction):
    """x ** 3 with a backward that is differentiable again."""

    _op_name = "cube_for_modes"
    bind_arguments = staticmethod(bind)

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor]:
        (x,) = ctx.saved_tensors
        return (3 * x * x * grad,)


class CubeDistributedOp(DistributedOp):
    bind_arguments = staticmethod(bind)
    rule = LayoutRule(
        arguments=("x",),
        format_argument="",
        inputs={"M": {"x": ("M",)}},
        outputs={"M": {"out": ("M",)}},
        shard=("M",),
    )


CubeDistributedOp("cube_for_modes")


def plain(x: torch.Tensor) -> torch.Tensor:
    return Cube.apply(x)


def distributed(x: torch.Tensor) -> torch.Tensor:
    mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("dp",))
    return Cube.apply(DTensor.from_local(x, mesh, (Shard(0),))).to_local()


WAYS = pytest.mark.parametrize("run", [plain, distributed])


def points() -> torch.Tensor:
    return torch.tensor([-1.5, 0.5, 2.0], dtype=torch.float64, requires_grad=True)


@WAYS
def test_second_derivatives_where_the_backward_is_differentiable(run: Any) -> None:
    x = points()
    (first,) = torch.autograd.grad(run(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert torch.equal(first.detach(), 3 * x.detach() ** 2)
    assert torch.equal(second, 6 * x.detach())
    assert torch.autograd.gradgradcheck(run, (points(),))


def post_tensors() -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(value).requires_grad_() for name, value in draw(POST, (2, 2)).items()}


def test_a_backward_kernel_has_no_second_derivative() -> None:
    tensors = post_tensors()
    out = custom_op_impl.NpuMhcPostDFunction.apply(*(tensors[name] for name in INPUTS[POST]))
    (first,) = torch.autograd.grad(out.sum(), tensors["x"], create_graph=True)
    with pytest.raises(RuntimeError, match="For npu_mhc_post_backward, there is no second derivative"):
        first.square().sum().backward()


def test_a_precomputed_gradient_has_no_derivative() -> None:
    arrays, _ = draw_loss(DENSE, (1, 2), (1, 3))
    tensors = {name: torch.from_numpy(value) for name, value in arrays.items()}
    query_index = tensors["query_index"].requires_grad_()
    *_, loss = custom_op_impl.NpuDenseLightningIndexerGradKlLossDFunction.apply(**tensors, scale_value=SCALE)
    (first,) = torch.autograd.grad(loss.square().sum(), query_index, create_graph=True)
    with pytest.raises(RuntimeError, match="has no derivative of its own"):
        first.square().sum().backward()


@WAYS
def test_no_grad_and_inference_mode(run: Any) -> None:
    x = points()
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode:
            out = run(x)
        assert not out.requires_grad
        assert torch.equal(out, x.detach() ** 3)


@WAYS
@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpoints(run: Any, reentrant: bool) -> None:
    x = points()
    checkpoint(lambda value: run(value * 2), x, use_reentrant=reentrant).sum().backward()
    assert torch.allclose(x.grad, 24 * x.detach() ** 2)


@WAYS
def test_autocast_leaves_dtypes_to_the_caller(run: Any) -> None:
    x = points()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = run(x)
        narrow = run((x.float() @ torch.eye(3)).detach().requires_grad_())
    assert (out.dtype, narrow.dtype) == (torch.float64, torch.bfloat16)
    out.sum().backward()
    assert torch.equal(x.grad, 3 * x.detach() ** 2)


@WAYS
def test_compiled_with_a_graph_break_at_worst(run: Any) -> None:
    def step(value: torch.Tensor) -> torch.Tensor:
        return run(value * 2).sin().sum()

    x, y = points(), points()
    loss = torch.compile(step, backend="eager")(x)
    expected = step(y)
    assert torch.equal(loss, expected)
    loss.backward()
    expected.backward()
    assert torch.equal(x.grad, y.grad)
