# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Operators without any registry file: a DistributedOp and a DFunction written by hand, and what dispatch sees."""

from __future__ import annotations

from typing import Any

import autograd
import autograd.numpy as anp
import numpy as np
import pytest

from hyper_parallel import DTensor, Partial, Replicate, Shard, distribute_tensor, get_platform, init_device_mesh
from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.shard.dfunction import DFunction
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp
from hyper_parallel.core.shard.ops.parallel_ops_register import REGISTRY, get_distributed_op
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks

ROWS = np.arange(24.0).reshape(8, 3) / 5.0


class RoundRows(DFunction):
    """round(x * factor) and its row sums; straight-through, so that the backward is not what the forward says."""

    _op_name = "round_rows"

    @staticmethod
    def forward(ctx: Any, x: Any, factor: float = 2.0) -> Any:
        ctx.factor = factor
        rounded = np.round(x * factor)
        return rounded, rounded.sum(axis=1)

    @staticmethod
    def backward(ctx: Any, d_rounded: Any, d_sums: Any) -> Any:
        return (d_rounded + d_sums[:, np.newaxis]) * ctx.factor, None


class RoundRowsDistributedOp(DistributedOp):
    """Rows may be sharded. Counts how often a layout was inferred."""

    def __init__(self, op_name: str) -> None:
        super().__init__(op_name)
        self.inferred: list[Any] = []

    def preprocess(self, args: Any, kwargs: Any) -> Any:
        x = kwargs.get("x", args[0] if args else None)
        local = {name: value.to_local() if isinstance(value, DTensor) else value for name, value in kwargs.items()}
        factor = kwargs.get("factor", args[1] if len(args) > 1 else 2.0)
        return (x.to_local(), *args[1:]) if args else (), local, (x.layout, factor)

    def infer_layout(self, cache_values: Any) -> Any:
        layout, factor = cache_values
        self.inferred.append(factor)
        if layout.dim_axes(1):
            raise ValueError("For round_rows, dim 1 of x should be replicated.")
        return (layout, Layout.from_tensor_map(layout.mesh, layout.tensor_map[:1])), None


@pytest.fixture
def registered():
    """The operator, registered for one test."""
    before = dict(REGISTRY.layout_infer_ops)
    yield RoundRowsDistributedOp("round_rows")
    REGISTRY.layout_infer_ops.clear()
    REGISTRY.layout_infer_ops.update(before)


def rows_on_dp() -> DTensor:
    return distribute_tensor(ROWS, init_device_mesh("cpu", (2,), mesh_dim_names=("dp",)), (Shard(0),))


def part() -> slice:
    return slice(4 * get_platform().rank, 4 * get_platform().rank + 4)


def test_it_is_found_under_its_name(registered):
    assert get_distributed_op("round_rows") is registered


@pytest.mark.parametrize(
    "call",
    [
        lambda x: RoundRows.apply(x, 3.0),
        lambda x: RoundRows.apply(x, factor=3.0),
        lambda x: RoundRows.apply(x=x, factor=3.0),
        lambda x: RoundRows.apply(factor=3.0, x=x),
    ],
    ids=["by position", "attribute by keyword", "all by keyword", "in another order"],
)
def test_a_dtensor_is_seen_wherever_it_stands(registered, call):
    plain = call(ROWS)

    def on_rank():
        rounded, sums = call(rows_on_dp())
        assert (rounded.placements, sums.placements) == ((Shard(0),), (Shard(0),))
        assert (rounded.shape, sums.shape) == ((8, 3), (8,))
        np.testing.assert_array_equal(rounded.to_local(), plain[0][part()])
        np.testing.assert_array_equal(sums.to_local(), plain[1][part()])
        return True

    np.testing.assert_array_equal(plain[0], np.round(ROWS * 3.0))
    assert run_ranks(on_rank, 2) == [True, True]
    assert set(registered.inferred) == {3.0}


def test_its_own_rule_decides(registered):
    def on_rank():
        mesh = init_device_mesh("cpu", (3,))
        return RoundRows.apply(distribute_tensor(ROWS, mesh, (Shard(1),)))

    with pytest.raises(ValueError, match="dim 1 of x should be replicated"):
        run_ranks(on_rank, 3)


def test_its_own_backward_gives_the_gradient_of_the_local_tensor(registered):
    scale = np.linspace(-1.0, 1.0, 24).reshape(8, 3)

    def loss_of_parts(rounded, sums, scale):
        return anp.sum(rounded * scale) + 10.0 * anp.sum(sums)

    def on_rank():
        mesh = init_device_mesh("cpu", (2,))

        def loss(local):
            rounded, sums = RoundRows.apply(DTensor.from_local(local, mesh, (Shard(0),)), factor=3.0)
            return loss_of_parts(rounded.to_local(), sums.to_local(), scale[part()])

        return autograd.grad(loss)(ROWS[part()])

    # Through the rounding as if it were not there: d/dx = factor * (scale + 10).
    expected = 3.0 * (scale + 10.0)
    np.testing.assert_allclose(np.concatenate(run_ranks(on_rank, 2)), expected, rtol=1e-15)
    unsharded = autograd.grad(lambda x: loss_of_parts(*RoundRows.apply(x, 3.0), scale))(ROWS)
    np.testing.assert_allclose(unsharded, expected, rtol=1e-15)


def test_a_layout_is_inferred_once_for_each_typed_value(registered):
    mesh = init_device_mesh("cpu", (2,), init_backend=False)
    x = DTensor.from_local(ROWS[:4], mesh, (Shard(0),))
    factors = [1, True, 1.0, 0.0, -0.0]
    for factor in factors * 2:
        RoundRows.apply(x, factor)
    assert [(type(factor), str(factor)) for factor in registered.inferred] == [
        (int, "1"),
        (bool, "True"),
        (float, "1.0"),
        (float, "0.0"),
        (float, "-0.0"),
    ]


def test_a_layout_is_inferred_once_for_each_layout(registered):
    mesh = init_device_mesh("cpu", (2, 2), init_backend=False)
    placements = [(Shard(0), Replicate()), (Replicate(), Shard(0)), (Shard(0), Shard(0)), (Replicate(), Partial())]
    for _ in range(2):
        for each in placements:
            rounded, _ = RoundRows.apply(DTensor.from_local(ROWS, mesh, each))
            assert rounded.placements == each
    assert len(registered.inferred) == len(placements)


def test_the_newest_registration_runs(registered):
    class Replicated(RoundRowsDistributedOp):
        def infer_layout(self, cache_values):
            layout = cache_values[0]
            return tuple(Layout.from_tensor_map(layout.mesh, (-1,) * ndim) for ndim in (2, 1)), None

    x = DTensor.from_local(ROWS, init_device_mesh("cpu", (2,), init_backend=False), (Shard(0),))
    assert RoundRows.apply(x)[0].placements == (Shard(0),)
    Replicated("round_rows")
    assert RoundRows.apply(x)[0].placements == (Replicate(),)


def test_an_operator_that_is_not_registered():
    class RoundRow(RoundRows):
        _op_name = "npu_dense_lightning_indexer_softmax_lsd"

    x = DTensor.from_local(ROWS, init_device_mesh("cpu", (1,)), (Replicate(),))
    with pytest.raises(RuntimeError, match=r"No distributed operator is registered.*Did you mean npu_dense") as caught:
        RoundRow.apply(x)
    assert "HYPER_PARALLEL_OPS_YAML_DIR" in str(caught.value)


@pytest.mark.parametrize(
    "call",
    [lambda function, x: function.apply(x), lambda function, x: function.apply(x=x)],
    ids=["position", "keyword"],
)
def test_a_function_without_a_name(call):
    class Nameless(DFunction):
        @staticmethod
        def forward(ctx, x):
            return x

    x = DTensor.from_local(ROWS, init_device_mesh("cpu", (1,)), (Replicate(),))
    with pytest.raises(ValueError, match=r"^Nameless got a DTensor but has no _op_name\. Set _op_name to the name"):
        call(Nameless, x)
    np.testing.assert_array_equal(call(Nameless, ROWS), ROWS)


def test_subclasses_do_not_share_their_local_callable(registered):
    class TripleRows(RoundRows):
        _op_name = "triple_rows"

        @staticmethod
        def forward(ctx, x, factor=3.0):
            return RoundRows.forward(ctx, x, factor)

    RoundRowsDistributedOp("triple_rows")
    x = DTensor.from_local(ROWS, init_device_mesh("cpu", (1,)), (Replicate(),))
    np.testing.assert_array_equal(RoundRows.apply(x)[0].to_local(), np.round(2 * ROWS))
    np.testing.assert_array_equal(TripleRows.apply(x)[0].to_local(), np.round(3 * ROWS))
    assert TripleRows._get_local_callable().__name__ == TripleRows._get_local_callable().name == "triple_rows"
    assert RoundRows._get_local_callable() is RoundRows._get_local_callable()


def test_two_functions_of_one_name_share_the_rule_but_not_what_runs(registered):
    class RoundUp(RoundRows):
        @staticmethod
        def forward(ctx, x, factor=2.0):
            return np.ceil(x * factor), np.ceil(x * factor).sum(axis=1)

    x = DTensor.from_local(ROWS, init_device_mesh("cpu", (1,)), (Replicate(),))
    for _ in range(2):
        np.testing.assert_array_equal(RoundRows.apply(x)[0].to_local(), np.round(2 * ROWS))
        np.testing.assert_array_equal(RoundUp.apply(x)[0].to_local(), np.ceil(2 * ROWS))


def test_outputs_without_a_layout_are_an_error(registered):
    class OneLayout(RoundRowsDistributedOp):
        def infer_layout(self, cache_values):
            return (cache_values[0],), None

    OneLayout("round_rows")
    x = DTensor.from_local(ROWS, init_device_mesh("cpu", (1,)), (Replicate(),))
    with pytest.raises(RuntimeError, match="For round_rows, 2 outputs came back, but 1 have layouts"):
        RoundRows.apply(x)
