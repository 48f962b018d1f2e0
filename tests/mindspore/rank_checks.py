# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What every MindSpore rank checks of meshes, collectives and redistribution; run by test_ranks.py."""

from __future__ import annotations

import itertools

import mindspore as ms
import ml_dtypes
import numpy as np
import pytest
from mindspore.communication import GlobalComm

from hyper_parallel import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    StridedShard,
    distribute_tensor,
    get_platform,
    init_device_mesh,
    reduce_gradient,
)
from hyper_parallel.platform.mindspore.host_arrays import to_array, to_tensor
from tests.runtime.placement_oracle import all_placements, held_by, operands

SHAPE = (8, 12)
DTYPES = (
    np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.bool_,
)  # fmt: skip


def run_checks(names):
    for name in names:
        try:
            globals()[name]()
        except BaseException as error:
            raise AssertionError(f"{name} has failed: {error}") from error


def run_pairs(mesh_shape, ops, rank_list):
    """This rank's part after every redistribution, to be put together by the test."""
    mesh = init_device_mesh("cpu", mesh_shape, rank_list=rank_list)
    position = mesh.rank_list.index(get_platform().rank)
    mine = []
    for source, target in itertools.product(all_placements(mesh_shape, ops), repeat=2):
        _, given = operands(SHAPE, source, mesh_shape)
        local = to_tensor(held_by(given[position], source, mesh_shape, mesh.get_coordinate()))
        after = DTensor.from_local(local, mesh, source, shape=SHAPE).redistribute(mesh, target)
        assert type(after.to_local()) is ms.Tensor
        assert after.shape == SHAPE
        mine.append(to_array(after.to_local()))
    return mine


def run_all(names, pairs):
    run_checks(names)
    return [run_pairs(*arguments) for arguments in pairs]


def world():
    return init_device_mesh("cpu", (get_platform().world_size,), mesh_dim_names=("dp",))


def check_the_mesh():
    size = get_platform().world_size
    assert world() is world()
    assert world().rank == get_platform().rank
    with pytest.raises(ValueError, match=f"has 3 ranks, but the world has {size}"):
        init_device_mesh("cpu", (3,))


def check_groups():
    from mindspore.communication import get_process_group_ranks

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"), rank_list=(2, 0, 3, 1))
    for axis in ("dp", "tp"):
        assert sorted(get_process_group_ranks(mesh.get_group(axis))) == sorted(mesh.get_rank_list_along_axis(axis))


def check_dtypes_stay():
    size = get_platform().world_size
    for dtype in DTYPES:
        array = (np.arange(6) % 3).astype(dtype)
        local = to_tensor(array)
        for op in ("max", "min"):
            assert_same(DTensor.from_local(local, world(), (Partial(op),)).full_tensor(), array)
        assert_same(DTensor.from_local(local, world(), (Shard(0),)).full_tensor(), np.tile(array, size))
        if dtype is not np.bool_:
            assert_same(DTensor.from_local(local, world(), (Partial(),)).full_tensor(), (array * size).astype(dtype))
        else:
            with pytest.raises(TypeError, match="a sum over ranks needs numbers"):
                DTensor.from_local(local, world(), (Partial(),)).full_tensor()
        if np.dtype(dtype).kind in "fV":
            assert_same(DTensor.from_local(local, world(), (Partial("avg"),)).full_tensor(), array)
        else:
            with pytest.raises(TypeError, match="a avg over ranks needs numbers"):
                DTensor.from_local(local, world(), (Partial("avg"),)).full_tensor()


def assert_same(given, expected):
    assert to_array(given).dtype == expected.dtype
    np.testing.assert_array_equal(to_array(given), expected)


def check_sums_of_half_are_rounded_once():
    """The bits of the sum on NumPy: in float32, in the order of the ranks."""
    size, rank = get_platform().world_size, get_platform().rank
    for dtype in (np.float16, ml_dtypes.bfloat16):
        every = np.random.default_rng(0).standard_normal((size, 1000)).astype(dtype)
        total = every[0].astype(np.float32)
        for one in every[1:]:
            total = total + one.astype(np.float32)
        assert_same(
            DTensor.from_local(to_tensor(every[rank]), world(), (Partial(),)).full_tensor(), total.astype(dtype)
        )


def check_shapes():
    size, rank = get_platform().world_size, get_platform().rank
    for shape in ((), (0, 3), (1,), (3, 0), (2, 3, 4)):
        whole = DTensor.from_local(to_tensor(np.full(shape, rank + 1.0)), world(), (Partial(),)).full_tensor()
        assert_same(whole, np.full(shape, size * (size + 1) / 2))
    strided = to_tensor(np.arange(6.0).reshape(2, 3) + 100 * rank).swapaxes(0, 1)
    expected = np.concatenate([np.arange(6.0).reshape(2, 3).T + 100 * other for other in range(size)], axis=1)
    assert_same(DTensor.from_local(strided, world(), (Shard(1),)).full_tensor(), expected)


def check_the_source_stays_unchanged():
    local = to_tensor(np.ones(3, np.float32))
    whole = DTensor.from_local(local, world(), (Partial(),)).full_tensor()
    assert_same(whole, np.full(3, get_platform().world_size, np.float32))
    assert_same(local, np.ones(3, np.float32))


def check_ranks_that_differ_are_told():
    rank = get_platform().rank
    for local in (np.ones(3 + rank, np.float32), np.ones(3, np.float32 if rank else np.float64)):
        d = DTensor.from_local(to_tensor(local), world(), (Partial(),))
        with pytest.raises(
            ValueError, match=r"same shape and dtype on every rank, but got: rank 0 .*\(3,\) float.*; rank 1"
        ):
            d.full_tensor()
    placement = Shard(0) if rank else Partial()
    with pytest.raises(
        ValueError, match=r"same call .*rank 0 all_reduce\(sum\) of \(4,\).*rank 1 all_gather\(dim=0\) of"
    ):
        DTensor.from_local(to_tensor(np.ones(4, np.float32)), world(), (placement,)).full_tensor()


def check_gradients_take_the_way_back():
    size, rank = get_platform().world_size, get_platform().rank
    weights = np.random.default_rng(0).normal(size=(8, 8))
    chunk = slice(rank * 8 // size, (rank + 1) * 8 // size)
    expected = {Shard(0): weights[chunk], Replicate(): weights, Partial(): weights, Partial("avg"): weights / size}
    for source, detour in itertools.product(expected, (Shard(0), Shard(1), Replicate(), Partial())):

        def loss(local):
            there = DTensor.from_local(local, world(), (source,)).redistribute(world(), (detour,))  # noqa: B023
            return (to_tensor(weights) * there.full_tensor()).sum()

        gradient = ms.grad(loss)(to_tensor(np.ones(expected[source].shape)))
        np.testing.assert_allclose(to_array(gradient), expected[source], rtol=1e-15, err_msg=f"{source} -> {detour}")


def check_what_has_no_gradient():
    local = to_tensor(np.ones(4, np.float32))
    with pytest.raises(ValueError, match=r"Partial\('max'\) has no gradient"):
        ms.grad(lambda x: DTensor.from_local(x, world(), (Partial("max"),)).full_tensor().sum())(local)
    layout = DTensor.from_local(local, world(), (Partial(),)).layout
    with pytest.raises(RuntimeError, match=r"an all_reduce has no derivative by itself: .*DTensor.redistribute"):
        ms.grad(lambda x: reduce_gradient(x * 2, layout).sum())(local)
    assert_same(reduce_gradient(local, layout), np.full(4, get_platform().world_size, np.float32))


def check_the_collectives_that_ascend_has():
    """The way that hccl's take, on mccl's: for the dtypes that mccl has them for."""
    size, rank, mccl = get_platform().world_size, get_platform().rank, GlobalComm.BACKEND
    mesh = init_device_mesh("cpu", (size,), rank_list=tuple(reversed(range(size))))
    GlobalComm.BACKEND = "hccl"
    try:
        for dtype in (np.float32, np.int32, ml_dtypes.bfloat16):
            local = to_tensor(np.full((2, 3), rank + 1, dtype))
            assert_same(
                get_platform().all_reduce(local, "sum", mesh, 0), np.full((2, 3), size * (size + 1) // 2, dtype)
            )
            assert_same(get_platform().all_reduce(local, "max", mesh, 0), np.full((2, 3), size, dtype))
            assert_same(local, np.full((2, 3), rank + 1, dtype))
            gathered = get_platform().all_gather(local.swapaxes(0, 1), 1, mesh, 0)
            assert_same(gathered, np.repeat(np.full((3, size), range(size, 0, -1)), 2, axis=1).astype(dtype))
        average = get_platform().all_reduce(to_tensor(np.full(3, rank, np.float32)), "avg", mesh, 0)
        assert_same(average, np.full(3, (size - 1) / 2, np.float32))
        held = to_tensor(np.array([True, False, rank == 0]))
        assert_same(get_platform().all_reduce(held, "max", mesh, 0), np.array([True, False, True]))
        assert_same(get_platform().all_reduce(held, "min", mesh, 0), np.array([True, False, False]))
    finally:
        GlobalComm.BACKEND = mccl


def check_distribute_and_gather():
    full = np.arange(96.0).reshape(SHAPE)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    for placements in (
        (Shard(0), Shard(0)),
        (StridedShard(0, 2), Shard(0)),
        (Replicate(), Shard(1)),
        (Shard(1), Shard(0)),
    ):
        d = distribute_tensor(to_tensor(full), mesh, placements)
        assert_same(d.to_local(), held_by(full, placements, (2, 2), mesh.get_coordinate()))
        assert_same(d.full_tensor(), full)
    with pytest.raises(ValueError, match=r"dim 1 of shape \(4, 6\) has extent 6.*4 shards.*\(dp, tp\)"):
        distribute_tensor(to_tensor(np.ones((4, 6))), mesh, (Shard(1), Shard(1)))


EVERYWHERE = (
    "check_the_mesh",
    "check_dtypes_stay",
    "check_sums_of_half_are_rounded_once",
    "check_shapes",
    "check_the_source_stays_unchanged",
    "check_ranks_that_differ_are_told",
    "check_gradients_take_the_way_back",
    "check_what_has_no_gradient",
    "check_the_collectives_that_ascend_has",
)
ON_FOUR = ("check_groups", "check_distribute_and_gather")
