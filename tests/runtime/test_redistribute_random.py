# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Redistribution between random layouts on random meshes, forward and backward, against a model in NumPy."""

from __future__ import annotations

import math

import autograd
import numpy as np
import pytest
from autograd.tracer import getval
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from placement_oracle import check_parts, coordinate_of, gradient_held_by, held_by, operands

from hyper_parallel import DTensor, Layout, Partial, Replicate, Shard, StridedShard, distribute_tensor, init_device_mesh
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks

MOST_RANKS = 12
UNEVEN = r"should be divisible by the \d+ shards over the mesh axes"
PENDING = st.sampled_from([("sum",), ("sum", "avg"), ("avg",), ("max",), ("min",)])


@st.composite
def meshes(draw):
    """Extents of one to four axes, and the ranks in any order."""
    shape = []
    for _ in range(draw(st.integers(1, 4))):
        shape.append(draw(st.integers(1, min(4, MOST_RANKS // math.prod(shape)))))
    return tuple(shape), tuple(draw(st.permutations(range(math.prod(shape)))))


@st.composite
def placements_on(draw, mesh_shape, ndim):
    """Any placements: on every dim any of the axes, in any order of the cuts, and reductions that may be mixed."""
    ops = draw(PENDING)
    kinds = st.sampled_from(
        [("replicate", 0), *(("partial", op) for op in ops), *(("dim", dim) for dim in range(ndim))]
    )
    chosen = [draw(kinds) for _ in mesh_shape]
    found = [Partial(value) if kind == "partial" else Replicate() for kind, value in chosen]
    for dim in range(ndim):
        order = draw(st.permutations([axis for axis, kind in enumerate(chosen) if kind == ("dim", dim)]))
        for depth, axis in enumerate(order):
            # Into how many chunks the axes further right have cut the dim before.
            before = math.prod(mesh_shape[outer] for outer in order[:depth] if outer > axis)
            written = draw(st.sampled_from([dim, dim - ndim]))
            found[axis] = Shard(written) if before == 1 else StridedShard(written, before)
    return tuple(found)


def parts_of_dims(placements, mesh_shape, ndim):
    counts = [1] * ndim
    for placement, count in zip(placements, mesh_shape, strict=True):
        if isinstance(placement, Shard):
            counts[placement.dim] *= count
    return counts


@st.composite
def journeys(draw, on=meshes()):  # noqa: B008 - strategies do not change
    """A mesh, the shape of a tensor, and the placements that it goes through."""
    mesh_shape, rank_list = draw(on)
    ndim = draw(st.sampled_from([0, 1, 2, 2, 3, 3]))
    stops = tuple(draw(placements_on(mesh_shape, ndim)) for _ in range(draw(st.integers(2, 4))))
    least = [
        math.lcm(*counts) for counts in zip(*(parts_of_dims(stop, mesh_shape, ndim) for stop in stops), strict=True)
    ]
    shape = tuple(extent * draw(st.sampled_from([1, 1, 1, 1, 2, 2, 0])) for extent in least)
    return mesh_shape, rank_list, shape, stops


def has_gradient(stops):
    return not any(isinstance(item, Partial) and item.reduce_op in ("max", "min") for stop in stops for item in stop)


def departure(mesh, shape, stops):
    """This rank's part of the tensor at the first stop, and the gradient that comes in at the last."""
    coordinate = mesh.get_coordinate()
    _, contributions = operands(shape, stops[0], mesh.mesh_shape)
    contribution = contributions[mesh.rank_list.index(mesh.rank)]
    incoming = gradient_held_by(weights_of(shape, mesh.mesh_shape), stops[-1], mesh.mesh_shape, coordinate)
    # NumPy makes scalars of what has no dims.
    return np.asarray(held_by(contribution, stops[0], mesh.mesh_shape, coordinate)), np.asarray(incoming)


def parts_on_the_way(mesh, shape, stops, local):
    """This rank's part at every stop."""
    tensor = DTensor.from_local(local, mesh, stops[0], shape=shape)
    for stop in stops:
        tensor = tensor.redistribute(mesh, stop)
        assert tensor.layout is Layout.from_placements(mesh, stop, len(shape))
        assert tensor.shape == shape
        yield tensor.to_local()


def travel(mesh_shape, rank_list, shape, stops):
    """On every rank: its part at every stop, and the gradient of its first part."""
    mesh = init_device_mesh("cpu", mesh_shape, rank_list=rank_list)
    local, incoming = departure(mesh, shape, stops)
    if not has_gradient(stops):
        return list(parts_on_the_way(mesh, shape, stops, local)), None
    found = []

    def last_part(first):
        found.extend(parts_on_the_way(mesh, shape, stops, first))
        return found[-1]

    gradient_of, _ = autograd.make_vjp(last_part)(local)
    return [getval(part) for part in found], gradient_of(incoming)


def weights_of(shape, mesh_shape):
    # Multiples of the number of ranks: shares of an average are whole numbers.
    return np.random.default_rng(1).integers(-9, 9, shape).astype(np.float64) * math.prod(mesh_shape)


def check_journey(mesh_shape, rank_list, shape, stops):
    of_rank = run_ranks(travel, math.prod(mesh_shape), mesh_shape, rank_list, shape, stops, timeout=20)
    check_travelled([of_rank[rank] for rank in rank_list], mesh_shape, shape, stops)


def check_travelled(in_order, mesh_shape, shape, stops):
    """What the ranks have seen, in the order of the mesh."""
    full, _ = operands(shape, stops[0], mesh_shape)
    for number, stop in enumerate(stops):
        check_parts(full, [parts[number] for parts, _ in in_order], stop, mesh_shape)
    if has_gradient(stops):
        for position, (_, gradient) in enumerate(in_order):
            coordinate = coordinate_of(position, mesh_shape)
            expected = gradient_held_by(weights_of(shape, mesh_shape), stops[0], mesh_shape, coordinate)
            np.testing.assert_array_equal(gradient, expected, err_msg=f"gradient at {coordinate}")


QUICK = settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@QUICK
@given(journeys())
@example(((2,), (0, 1), (2,), ((Replicate(),), (Partial("avg"),), (Replicate(),))))
@example(((2, 2, 2), tuple(range(8)), (8,), ((StridedShard(0, 4), StridedShard(0, 2), Shard(0)), (Shard(0),) * 3)))
def test_random_journeys(journey):
    check_journey(*journey)


@pytest.mark.slow
def test_ten_thousand_redistributions():
    count = 0

    @settings(QUICK, max_examples=7_000, derandomize=False)
    @given(journeys())
    def run(journey):
        nonlocal count
        count += len(journey[-1]) - 1
        check_journey(*journey)

    run()
    assert count >= 10_000


@QUICK
@given(st.data())
def test_a_tensor_is_distributed_evenly_or_not_at_all(data):
    """NumPy's own split refuses what does not divide."""
    mesh_shape, rank_list = data.draw(meshes())
    ndim = data.draw(st.integers(0, 3))
    placements = data.draw(placements_on(mesh_shape, ndim))
    shape = tuple(data.draw(st.integers(0, 8)) for _ in range(ndim))
    whole = np.arange(float(math.prod(shape))).reshape(shape)
    mesh = init_device_mesh("cpu", mesh_shape, rank_list=rank_list, init_backend=False)
    sharded = tuple(Replicate() if isinstance(item, Partial) else item for item in placements)
    try:
        expected = held_by(whole, sharded, mesh_shape, mesh.get_coordinate())
    except ValueError:
        with pytest.raises(ValueError, match=UNEVEN):
            distribute_tensor(whole, mesh, sharded)
        with pytest.raises(ValueError, match=UNEVEN):
            DTensor.from_local(whole, mesh, (Replicate(),) * mesh.ndim).redistribute(mesh, placements)
        with pytest.raises(ValueError, match=UNEVEN):
            DTensor.from_local(whole, mesh, placements, shape=shape)
        return
    found = distribute_tensor(whole, mesh, sharded)
    np.testing.assert_array_equal(found.to_local(), expected)
    assert found.shape == shape
    assert DTensor.from_local(expected, mesh, placements, shape=shape).shape == shape
