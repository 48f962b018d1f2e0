# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What the dispatcher keeps of a call is used for the same call only; and when it is switched off."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from hyper_parallel import (
    DTensor,
    Shard,
    custom_ops,
    disable_dtensor_dispatch,
    dtensor_dispatch,
    enable_dtensor_dispatch,
    init_device_mesh,
)
from hyper_parallel.core.shard import _op_dispatch
from hyper_parallel.core.shard._op_dispatch import _OP_DISPATCHER
from hyper_parallel.core.shard.dfunction import DFunction
from hyper_parallel.core.shard.ops.layout_rule import LayoutRule
from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp

INT64_MAX = 2**63 - 1
LSE = custom_ops.npu_dense_lightning_indexer_softmax_lse


def bind(x: Any, factor: float = 2.0) -> tuple[Any, ...]:
    return x, factor


class Scaled(DFunction):
    """x * factor; counts how often a plan is made."""

    _op_name = "scaled_for_dispatch"
    bind_arguments = staticmethod(bind)

    @staticmethod
    def forward(ctx: Any, x: Any, factor: float) -> Any:
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * ctx.factor, None


class ScaledDistributedOp(DistributedOp):
    bind_arguments = staticmethod(bind)
    rule = LayoutRule(
        arguments=("x", "factor"),
        format_argument="",
        inputs={"M": {"x": ("M",)}},
        outputs={"M": {"out": ("M",)}},
        shard=("M",),
    )

    def __init__(self, op_name: str) -> None:
        super().__init__(op_name)
        self.planned = 0
        self.checked = 0

    def infer_layout(self, cache_values: Any) -> Any:
        self.planned += 1
        return super().infer_layout(cache_values)

    def check_arguments(self, x: Any, factor: Any) -> None:  # type: ignore[override]
        self.checked += 1
        if factor == 13:
            raise ValueError("For scaled_for_dispatch, factor should not be 13.")


@pytest.fixture
def op() -> ScaledDistributedOp:
    return ScaledDistributedOp("scaled_for_dispatch")


@pytest.fixture
def mesh() -> Any:
    return init_device_mesh("cpu", (1,), mesh_dim_names=("dp",))


def vector(mesh: Any, length: int = 4, dtype: str = "float32") -> DTensor:
    return DTensor.from_local(np.arange(length, dtype=dtype), mesh, (Shard(0),))


def test_the_same_call_is_planned_and_checked_once(op: ScaledDistributedOp, mesh: Any) -> None:
    for _ in range(3):
        out = Scaled.apply(vector(mesh), 3.0)
        assert np.array_equal(out.to_local(), [0, 3, 6, 9])
    assert (op.planned, op.checked) == (1, 1)


@pytest.mark.parametrize("value", [3, True, 3.5, np.float64(3.0)])
def test_another_value_or_type_is_another_call(op: ScaledDistributedOp, mesh: Any, value: Any) -> None:
    Scaled.apply(vector(mesh), 3.0)
    out = Scaled.apply(vector(mesh), value)
    assert np.array_equal(out.to_local(), np.arange(4) * value)
    assert op.checked == 2


@pytest.mark.parametrize("other", [{"length": 5}, {"dtype": "float64"}])
def test_another_shape_or_dtype_is_checked_but_not_planned(op: ScaledDistributedOp, mesh: Any, other: Any) -> None:
    Scaled.apply(vector(mesh), 3.0)
    Scaled.apply(vector(mesh, **other), 3.0)
    assert (op.planned, op.checked) == (1, 2)


def test_a_call_that_failed_its_check_fails_again(op: ScaledDistributedOp, mesh: Any) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="13"):
            Scaled.apply(vector(mesh), 13)
    assert op.checked == 2


def test_values_that_cannot_be_hashed_are_checked_each_time(op: ScaledDistributedOp, mesh: Any) -> None:
    for _ in range(2):
        Scaled.apply(vector(mesh), np.array(2.0))
    assert op.checked == 2


def test_the_newest_registration_is_used(op: ScaledDistributedOp, mesh: Any) -> None:
    Scaled.apply(vector(mesh), 3.0)
    newer = ScaledDistributedOp("scaled_for_dispatch")
    Scaled.apply(vector(mesh), 3.0)
    assert (op.checked, newer.checked) == (1, 1)


def lse_tensors(mesh: Any, lead: tuple[int, ...] = (1, 4), heads: int = 8) -> list[DTensor]:
    rng = np.random.default_rng(0)
    shapes = ((*lead, heads, 128), (*lead, 1, 128), (*lead, heads))
    return [DTensor.from_local(rng.standard_normal(shape), mesh, (Shard(0),)) for shape in shapes]


def test_shapes_are_checked_on_a_hit_too(mesh: Any) -> None:
    LSE(*lse_tensors(mesh))
    with pytest.raises(ValueError, match="N1 in"):
        LSE(*lse_tensors(mesh, heads=7))
    query, key, weights = lse_tensors(mesh)
    LSE(query, key, weights)
    query.to_local().resize((1, 2, 16, 128), refcheck=False)  # the same object, another shape
    with pytest.raises(ValueError, match="weights"):
        LSE(query, key, weights)


@pytest.mark.parametrize("value", [True, 3.0, "3", np.float32(3), 4])
def test_attributes_are_checked_on_a_hit_too(mesh: Any, value: Any) -> None:
    tensors = lse_tensors(mesh)
    LSE(*tensors, sparse_mode=3)
    with pytest.raises((TypeError, ValueError), match="sparse_mode"):
        LSE(*tensors, sparse_mode=value)


def test_lengths_are_checked_on_a_hit_too(mesh: Any) -> None:
    tensors = lse_tensors(mesh, lead=(6,))
    lengths: list[int] = [2, 6]
    arguments: dict[str, Any] = {"actual_seq_klen": [2, 6], "layout": "TND"}
    first = LSE(*tensors, actual_seq_qlen=lengths, **arguments)[0].to_local()
    lengths[0] = 3  # the caller's own list, changed
    second = LSE(*tensors, actual_seq_qlen=lengths, **arguments)[0].to_local()
    assert not np.array_equal(first, second)
    lengths[1] = 5
    with pytest.raises(ValueError, match="should end at T1 = 6"):
        LSE(*tensors, actual_seq_qlen=lengths, **arguments)


def test_what_is_kept_is_bounded(op: ScaledDistributedOp, mesh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_op_dispatch, "MOST_CALLS", 8)
    for factor in range(100, 150):
        Scaled.apply(vector(mesh), factor)
    (known,) = [known for known in _OP_DISPATCHER._operators.values() if known.op is op]
    assert len(known.calls) == 8
    Scaled.apply(vector(mesh), 149)
    assert op.checked == 50
    Scaled.apply(vector(mesh), 100)
    assert op.checked == 51


def test_eight_threads_at_once(op: ScaledDistributedOp, mesh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_op_dispatch, "MOST_CALLS", 16)
    inputs = [vector(mesh, length) for length in range(1, 13)]
    start = threading.Barrier(8)

    def work(seed: int) -> int:
        draw = np.random.default_rng(seed)
        start.wait(timeout=10)
        for _ in range(500):
            length, factor = int(draw.integers(1, 13)), int(draw.integers(0, 12))
            out = Scaled.apply(inputs[length - 1], factor)
            assert np.array_equal(out.to_local(), np.arange(length, dtype="float32") * factor)
            assert out.layout is inputs[length - 1].layout
        return seed

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == list(range(8))


@pytest.mark.slow
def test_memory_is_flat_over_100_000_calls(op: ScaledDistributedOp, mesh: Any) -> None:
    inputs = [vector(mesh, length) for length in range(1, 65)]
    tracemalloc.start()
    sizes = []
    for number in range(100_000):
        Scaled.apply(inputs[number % 64], number + 0.5)  # a new value each time
        if number % 25_000 == 24_999:
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert max(sizes) - min(sizes) < 200_000


# --- switched off ---


@pytest.fixture(autouse=True)
def switched_on() -> Iterator[None]:
    yield
    enable_dtensor_dispatch()


def test_switched_off_an_operator_runs_on_local_tensors(op: ScaledDistributedOp, mesh: Any) -> None:
    disable_dtensor_dispatch()
    out = Scaled.apply(vector(mesh), factor=2.0)
    assert isinstance(out, np.ndarray)
    enable_dtensor_dispatch()
    assert isinstance(Scaled.apply(vector(mesh), factor=2.0), DTensor)


def test_blocks_nest(op: ScaledDistributedOp, mesh: Any) -> None:
    def kind() -> type:
        return type(Scaled.apply(vector(mesh)))

    with dtensor_dispatch(enabled=False):
        assert kind() is np.ndarray
        with dtensor_dispatch(enabled=True):
            assert kind() is DTensor
            with suppress(KeyError), dtensor_dispatch(enabled=False):
                assert kind() is np.ndarray
                raise KeyError
            assert kind() is DTensor
        assert kind() is np.ndarray
    assert kind() is DTensor


def test_other_threads_are_not_concerned(op: ScaledDistributedOp, mesh: Any) -> None:
    with dtensor_dispatch(enabled=False), ThreadPoolExecutor(1) as pool:
        assert isinstance(pool.submit(Scaled.apply, vector(mesh)).result(), DTensor)


def test_switched_off_arguments_are_still_checked(mesh: Any) -> None:
    with dtensor_dispatch(enabled=False), pytest.raises(ValueError, match="N1 in"):
        LSE(*lse_tensors(mesh, heads=7))
