# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""DTensors: made from parts and from wholes, and what is refused."""

from __future__ import annotations

import copy
import math
import pickle

import autograd
import autograd.numpy as anp
import ml_dtypes
import numpy as np
import pytest
from placement_oracle import all_placements, held_by

from hyper_parallel import DTensor, Layout, Partial, Replicate, Shard, StridedShard, distribute_tensor, init_device_mesh
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks

FULL = np.arange(288.0).reshape(12, 24)


@pytest.mark.parametrize("mesh_shape", [(2,), (4,), (2, 2), (2, 3)])
def test_every_rank_cuts_its_part_and_gathers_the_whole(mesh_shape):
    choices = [item for item in all_placements(mesh_shape) if not any(placement.is_partial() for placement in item)]

    def ranks():
        mesh = init_device_mesh("cpu", mesh_shape)
        for placements in choices:
            d = distribute_tensor(FULL, mesh, placements)
            np.testing.assert_array_equal(d.to_local(), held_by(FULL, placements, mesh_shape, mesh.get_coordinate()))
            np.testing.assert_array_equal(d.full_tensor(), FULL)
            assert (d.shape, d.local_shape, d.ndim, d.dtype) == ((12, 24), d.to_local().shape, 2, np.float64)

    run_ranks(ranks, math.prod(mesh_shape))


def test_properties():
    def ranks():
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        local = np.ones((3, 4), ml_dtypes.bfloat16)
        d = DTensor.from_local(local, mesh, (Shard(0), Partial()))
        assert d.to_local() is local
        assert d.device_mesh is mesh
        assert d.placements == (Shard(0), Partial())
        assert d.layout is Layout.from_placements(mesh, (Shard(0), Partial()), 2)
        assert (d.shape, d.local_shape, d.ndim, d.dtype) == ((6, 4), (3, 4), 2, ml_dtypes.bfloat16)
        assert "shape=(6, 4), dtype=bfloat16, Layout([dp, None] + sum over tp" in repr(d)
        assert d.redistribute(mesh, (Shard(0), Partial())) is d
        opened = d.layout("tp", "None")
        assert DTensor.from_layout(local, opened).layout is opened.freeze()
        with pytest.raises(AttributeError):
            d.other = 1

    run_ranks(ranks, 4)


@pytest.mark.parametrize(
    ("shape", "placements", "message"),
    [
        ((5, 4), (Shard(0), Replicate()), r"dim 0 of shape \(5, 4\) has extent 5.*the 2 shards .*\(dp\)"),
        ((4, 6), (Shard(1), Shard(1)), r"dim 1 of shape \(4, 6\) has extent 6.*the 4 shards .*\(dp, tp\)"),
        ((6, 4), (StridedShard(0, 2), Shard(0)), r"dim 0 of shape \(6, 4\) has extent 6.*the 4 shards .*\(tp, dp\)"),
        ((4, 4), (Shard(0), Partial()), "distribute_tensor takes Shard and Replicate only"),
        ((4, 4), (Shard(0),), "each of the 2 axes"),
        ((4, 4), (Shard(2), Replicate()), "one of the 2 dimensions"),
    ],
)
def test_wholes_that_cannot_be_distributed(shape, placements, message):
    def ranks():
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        with pytest.raises(ValueError, match=message):
            distribute_tensor(np.ones(shape), mesh, placements)

    run_ranks(ranks, 4)


def test_uneven_parts_are_found_by_the_shape():
    def ranks():
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
        DTensor.from_local(np.ones((3, 2)), mesh, (Shard(0),), shape=(6, 2))
        with pytest.raises(ValueError, match=r"shape \(5, 2\) has extent 5.*divisible by the 2 shards"):
            DTensor.from_local(np.ones((3, 2)), mesh, (Shard(0),), shape=(5, 2))
        with pytest.raises(ValueError, match=r"parts of shape \(2, 2\), but rank \d got one of \(3, 2\); uneven"):
            DTensor.from_local(np.ones((3, 2)), mesh, (Shard(0),), shape=(4, 2))
        with pytest.raises(ValueError, match=r"2 dimensions, but got the shape \(6,\)"):
            DTensor.from_local(np.ones((3, 2)), mesh, (Shard(0),), shape=(6,))

    run_ranks(ranks, 2)


def test_uneven_parts_are_found_when_they_meet():
    from hyper_parallel import get_platform

    def ranks():
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
        local = np.ones(3 - get_platform().rank)
        with pytest.raises(ValueError, match=r"'dp' should be the same call.*rank 0 .* of \(3,\).*rank 1 .* of \(2,\)"):
            DTensor.from_local(local, mesh, (Shard(0),)).full_tensor()

    run_ranks(ranks, 2)


def test_ranks_outside_of_the_mesh_or_of_another_rank():
    outside = init_device_mesh("cpu", (2,), rank_list=(4, 5), init_backend=False)
    for make in (DTensor.from_local, distribute_tensor):
        with pytest.raises(ValueError, match=r"rank 0 is not part of the mesh .*only the ranks \(4, 5\)"):
            make(np.ones(4), outside, (Shard(0),))
    larger = init_device_mesh("cpu", (2,), init_backend=False)
    with pytest.raises(ValueError, match=r"needs them all, but the world has 1; run it inside run_ranks"):
        distribute_tensor(np.ones(4), larger, (Shard(0),)).full_tensor()


def test_wrong_tensors():
    mesh = init_device_mesh("cpu", (1,))
    d = distribute_tensor(np.ones(4), mesh, (Shard(0),))
    for make in (DTensor.from_local, distribute_tensor):
        for value in ([1.0, 2.0], 3.0, None, np.float64(3)):
            with pytest.raises(TypeError, match="takes a tensor of numpy, but got"):
                make(value, mesh, (Shard(0),))
        with pytest.raises(TypeError, match="takes a plain tensor, but got a DTensor"):
            make(d, mesh, (Shard(0),))
    with pytest.raises(TypeError, match=r"make a DTensor with DTensor\.from_local"):
        DTensor(np.ones(4), mesh, (Shard(0),))


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda d: np.add(d, 1), r"numpy\.add does not take a DTensor"),
        (lambda d: np.ones(4) * d, r"numpy\.multiply does not take a DTensor"),
        (lambda d: np.ones(4) @ d, r"numpy\.matmul does not take a DTensor"),
        (lambda d: anp.add(d, 1), r"numpy\.add does not take a DTensor"),
        (lambda d: np.concatenate([d, d]), r"numpy\.concatenate does not take a DTensor"),
        (np.sum, r"numpy\.sum does not take a DTensor"),
        (np.asarray, "a DTensor does not become a NumPy array by itself"),
        (lambda d: np.array([d, d]), "a DTensor does not become a NumPy array by itself"),
        (lambda d: d + 1, "unsupported operand .*'DTensor' and 'int'"),
    ],
)
def test_numpy_does_not_make_object_arrays_of_dtensors(use, message):
    d = distribute_tensor(np.ones(4), init_device_mesh("cpu", (1,)), (Shard(0),))
    with pytest.raises(TypeError, match=message):
        use(d)


def test_copies():
    d = distribute_tensor(np.arange(4.0), init_device_mesh("cpu", (1,)), (Shard(0),))
    for other in (copy.deepcopy(d), pickle.loads(pickle.dumps(d))):
        assert other.layout is d.layout
        np.testing.assert_array_equal(other.to_local(), d.to_local())
        assert other.to_local() is not d.to_local()
    assert copy.copy(d).to_local() is d.to_local()


def test_gradients_flow_through_the_local_part():
    def ranks():
        mesh = init_device_mesh("cpu", (2,))

        def loss(full):
            return anp.sum(distribute_tensor(full, mesh, (Shard(0),)).to_local() * 3)

        return autograd.grad(loss)(np.ones(4))

    first, second = run_ranks(ranks, 2)
    np.testing.assert_array_equal(first, [3, 3, 0, 0])
    np.testing.assert_array_equal(second, [0, 0, 3, 3])
