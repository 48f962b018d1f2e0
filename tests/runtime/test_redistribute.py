# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Redistribution between all pairs of placements, on all ranks, against the oracle."""

from __future__ import annotations

import itertools
import math

import autograd
import autograd.numpy as anp
import numpy as np
import pytest
from placement_oracle import all_placements, check_parts, held_by, operands

from hyper_parallel import DTensor, Layout, Partial, Replicate, Shard, StridedShard, distribute_tensor, init_device_mesh
from hyper_parallel.core.dtensor.placement_map import placements_of_split
from hyper_parallel.core.dtensor.redistribute import steps_between
from hyper_parallel.platform import get_platform
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks

SHAPE = (12, 24)
OPS = ("sum", "max", "min", "avg")


def redistributed(pairs, mesh_shape, rank_list=None):
    """On every rank: for every pair its part before and after."""
    mesh = init_device_mesh("cpu", mesh_shape, rank_list=rank_list)
    position = mesh.rank_list.index(get_platform().rank)
    parts = []
    for source, target in pairs:
        _, given = operands(SHAPE, source, mesh_shape)
        local = held_by(given[position], source, mesh_shape, mesh.get_coordinate())
        before = DTensor.from_local(local, mesh, source, shape=SHAPE)
        after = before.redistribute(mesh, target)
        assert after.layout is Layout.from_placements(mesh, target, 2)
        assert after.shape == SHAPE
        parts.append(after.to_local())
    return parts


@pytest.mark.parametrize("mesh_shape", [(2,), (4,), (2, 2), (2, 3), (3, 2)])
def test_all_pairs_of_placements(mesh_shape):
    pairs = list(itertools.product(all_placements(mesh_shape, OPS), repeat=2))
    of_rank = run_ranks(redistributed, math.prod(mesh_shape), pairs, mesh_shape)
    for number, (source, target) in enumerate(pairs):
        full, _ = operands(SHAPE, source, mesh_shape)
        check_parts(full, [parts[number] for parts in of_rank], target, mesh_shape)


def test_sum_and_average_over_different_axes():
    pairs = [
        ((Partial("sum"), Partial("avg")), (Replicate(), Replicate())),
        ((Partial("sum"), Partial("avg")), (Replicate(), Partial("avg"))),
        ((Partial("sum"), Partial("avg")), (Partial("avg"), Partial("sum"))),
    ]
    of_rank = run_ranks(redistributed, 6, pairs, (2, 3))
    for number, (source, target) in enumerate(pairs):
        full, _ = operands(SHAPE, source, (2, 3))
        check_parts(full, [parts[number] for parts in of_rank], target, (2, 3))


def test_three_axes_on_one_dimension_in_every_order():
    mesh_shape = (2, 3, 2)

    def splits(mesh):
        orders = [order for count in range(4) for order in itertools.permutations(range(3), count)]
        return [placements_of_split(mesh, ((), order), (None, None, None)) for order in orders]

    mesh = init_device_mesh("cpu", mesh_shape, init_backend=False)
    pairs = list(itertools.product(splits(mesh), repeat=2))
    of_rank = run_ranks(redistributed, 12, pairs, mesh_shape)
    for number, (source, target) in enumerate(pairs):
        full, _ = operands(SHAPE, source, mesh_shape)
        check_parts(full, [parts[number] for parts in of_rank], target, mesh_shape)


# Of a tensor of three dimensions on a mesh (2, 3, 2): kind and axis, and the dimension, or both of a move.
@pytest.mark.parametrize(
    ("held", "wanted", "steps"),
    [
        (((0,), (), ()), ((), (0,), ()), "move 0 0>1"),
        (((0, 1), (), ()), ((0,), (1,), ()), "move 1 0>1"),
        (((0, 1), (), ()), ((1,), (0,), ()), "gather 1 0, move 0 0>1, cut 1 0"),
        (((0, 1), (), ()), ((), (0, 1), ()), "gather 1 0, move 0 0>1, cut 1 1"),
        (((0, 1), (), ()), ((), (1, 0), ()), "gather 1 0, gather 0 0, cut 1 1, cut 0 1"),
        (((0,), (1,), ()), ((), (0,), (1,)), "move 1 1>2, move 0 0>1"),
        (((0,), (1,), ()), ((1,), (0,), ()), "gather 1 1, move 0 0>1, cut 1 0"),
        (((0,), (1,), (2,)), ((2,), (0,), (1,)), "gather 2 2, move 1 1>2, move 0 0>1, cut 2 0"),
        (((0,), (1,), ()), ((), (1, 0), ()), "move 0 0>1"),
        (((0,), (1,), ()), ((), (0, 1), ()), "gather 1 1, move 0 0>1, cut 1 1"),
        (((0,), (), ()), ((0,), (1,), ()), "cut 1 1"),
    ],
)
def test_an_axis_moves_at_once_where_it_can(held, wanted, steps):
    mesh = init_device_mesh("cpu", (2, 3, 2), init_backend=False)
    layouts = []
    for split in (held, wanted):
        placements = placements_of_split(mesh, split, (None, None, None))
        layouts.append(Layout.from_placements(mesh, placements, 3))
    found = steps_between(*layouts)
    words = [f"{step.kind} {step.axis} {step.dim}" + f">{step.to_dim}" * (step.kind == "move") for step in found]
    assert ", ".join(words) == steps


@pytest.mark.parametrize(
    ("source", "target", "steps"),
    [
        ((Partial(), Replicate()), (Shard(0), Replicate()), "scatter 0 0 sum"),
        ((Partial("avg"), Partial("avg")), (Shard(1), Replicate()), "scatter 0 1 avg, reduce 1 0 avg"),
        ((Partial(), Partial()), (Shard(0), Shard(0)), "scatter 0 0 sum, scatter 1 0 sum"),
        ((Partial(), Replicate()), (Replicate(), Shard(0)), "cut 1 0, reduce 0 0 sum"),
        ((Partial("max"), Replicate()), (Shard(0), Replicate()), "reduce 0 0 max, cut 0 0"),
        ((Partial(), Shard(0)), (Shard(0), Shard(1)), "reduce 0 0 sum, move 1 0, cut 0 0"),
    ],
)
def test_a_sum_along_an_axis_that_cuts_is_scattered(source, target, steps):
    mesh = init_device_mesh("cpu", (2, 3), init_backend=False)
    found = steps_between(*(Layout.from_placements(mesh, placements, 2) for placements in (source, target)))
    assert ", ".join(f"{step.kind} {step.axis} {step.dim} {step.op}".rstrip() for step in found) == steps


def test_ranks_in_another_order():
    rank_list = (2, 0, 3, 1)
    pairs = list(itertools.product(all_placements((2, 2)), repeat=2))
    of_rank = run_ranks(redistributed, 4, pairs, (2, 2), rank_list)
    for number, (source, target) in enumerate(pairs):
        full, _ = operands(SHAPE, source, (2, 2))
        check_parts(full, [of_rank[rank][number] for rank in rank_list], target, (2, 2))


def test_axes_that_change_their_order_keep_a_pending_reduction():
    def ranks():
        mesh = init_device_mesh("cpu", (2, 2, 2))
        full = np.arange(16.0).reshape(8, 2)
        part = held_by(full, (Shard(0), Replicate(), StridedShard(0, 1)), (2, 2, 2), mesh.get_coordinate())
        d = DTensor.from_local(part, mesh, (Shard(0), Partial(), Shard(0)))
        swapped = d.redistribute(mesh, (StridedShard(0, 2), Partial(), Shard(0)))
        assert swapped.layout.partial == (None, "sum", None)
        assert swapped.layout.tensor_map == ((0, 2), -1)
        return swapped.full_tensor(), d.full_tensor()

    for swapped, kept in run_ranks(ranks, 8):
        np.testing.assert_array_equal(swapped, np.arange(16.0).reshape(8, 2) * 2)
        np.testing.assert_array_equal(kept, np.arange(16.0).reshape(8, 2) * 2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int32", "int64", "bool"])
def test_dtypes_stay(dtype):
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)

    def ranks():
        mesh = init_device_mesh("cpu", (2,))
        local = (np.arange(8) % 3).astype(kind)
        largest = DTensor.from_local(local, mesh, (Partial("max"),)).full_tensor()
        whole = DTensor.from_local(local, mesh, (Shard(0),)).full_tensor()
        return largest, whole, local

    for largest, whole, local in run_ranks(ranks, 2):
        assert largest.dtype == whole.dtype == kind
        np.testing.assert_array_equal(largest, local)
        np.testing.assert_array_equal(whole, np.concatenate([local, local]))


@pytest.mark.parametrize(("dtype", "op"), [(np.bool_, "sum"), (np.bool_, "avg"), (np.int64, "avg")])
def test_reductions_without_meaning_are_refused(dtype, op):
    def ranks():
        mesh = init_device_mesh("cpu", (2,))
        DTensor.from_local(np.ones(3, dtype), mesh, (Partial(op),)).full_tensor()

    with pytest.raises(TypeError, match=f"a {op} over ranks"):
        run_ranks(ranks, 2)


def test_uneven_targets_are_refused_before_any_communication():
    def ranks():
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        d = distribute_tensor(np.ones((6, 4)), mesh, (Shard(0), Replicate()))
        if get_platform().rank == 0:  # on one rank only: communication would fail the run
            with pytest.raises(ValueError, match=r"dim 0 of shape \(6, 4\) has extent 6.*4 shards.*\(dp, tp\)"):
                d.redistribute(mesh, (Shard(0), Shard(0)))

    run_ranks(ranks, 4)


def test_another_mesh_is_refused():
    def ranks():
        mesh = init_device_mesh("cpu", (2,))
        other = init_device_mesh("cpu", (2,), rank_list=(1, 0))
        d = distribute_tensor(np.ones(4), mesh, (Shard(0),))
        with pytest.raises(ValueError, match=r"stays on its mesh .*, but got .*rank_list=\(1, 0\)"):
            d.redistribute(other, (Shard(0),))

    run_ranks(ranks, 2)


def test_a_result_does_not_change_with_a_later_write_to_the_source():
    def ranks():
        mesh = init_device_mesh("cpu", (2,))
        local = np.full(4, 1.0 + get_platform().rank)
        whole = DTensor.from_local(local, mesh, (Shard(0),)).full_tensor()
        local[:] = -1
        return whole

    for whole in run_ranks(ranks, 2):
        np.testing.assert_array_equal(whole, [1, 1, 1, 1, 2, 2, 2, 2])


# The gradient of sum(weights * whole tensor) with respect to this rank's part, by hand: its chunk of the weights for a
# sharded part; all of them for a replicated or pending one; divided by the number of ranks for an average.
@pytest.mark.parametrize(
    ("placement", "share"),
    [(Shard(0), lambda w, r: w[2 * r : 2 * r + 2]), (Replicate(), lambda w, r: w), (Partial(), lambda w, r: w),
     (Partial("avg"), lambda w, r: w / 2)],
)  # fmt: skip
@pytest.mark.parametrize("detour", [Replicate(), Shard(1), Partial(), Partial("avg")])
def test_gradients_take_the_way_back(placement, share, detour):
    weights = np.random.default_rng(0).normal(size=(4, 4))

    def ranks():
        mesh = init_device_mesh("cpu", (2,))
        local = np.ones((2, 4) if placement == Shard(0) else (4, 4))

        def loss(part):
            there = DTensor.from_local(part, mesh, (placement,)).redistribute(mesh, (detour,))
            return anp.sum(weights * there.full_tensor())

        return autograd.grad(loss)(local)

    for rank, gradient in enumerate(run_ranks(ranks, 2)):
        np.testing.assert_allclose(gradient, share(weights, rank))


def test_extrema_have_no_gradient():
    def ranks():
        mesh = init_device_mesh("cpu", (2,))
        loss = lambda part: anp.sum(DTensor.from_local(part, mesh, (Partial("max"),)).full_tensor())  # noqa: E731
        autograd.grad(loss)(np.ones(3))

    with pytest.raises(ValueError, match=r"Partial\('max'\) has no gradient"):
        run_ranks(ranks, 2)
