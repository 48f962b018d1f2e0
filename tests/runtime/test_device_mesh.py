# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Meshes: coordinates, interning, and what is refused."""

from __future__ import annotations

import copy
import pickle

import pytest

from hyper_parallel import DeviceMesh, init_device_mesh
from hyper_parallel.platform import get_platform
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks


def facts(mesh_shape, names=None, rank_list=None):
    mesh = init_device_mesh("cpu", mesh_shape, mesh_dim_names=names, rank_list=rank_list)
    axes = range(mesh.ndim)
    return (
        mesh.get_coordinate(),
        [mesh.get_rank_list_along_axis(axis) for axis in axes],
        [mesh.get_local_rank(axis) for axis in axes],
    )


# Rank r of a (2, 3) mesh: the ranks are 0 1 2 / 3 4 5.
def test_coordinates_and_ranks_along_axes():
    results = run_ranks(facts, 6, (2, 3))
    assert results[0] == ((0, 0), [(0, 3), (0, 1, 2)], [0, 0])
    assert results[4] == ((1, 1), [(1, 4), (3, 4, 5)], [1, 1])
    assert results[5] == ((1, 2), [(2, 5), (3, 4, 5)], [1, 2])


# The ranks are 5 4 3 / 2 1 0.
def test_coordinates_with_another_rank_order():
    results = run_ranks(facts, 6, (2, 3), None, (5, 4, 3, 2, 1, 0))
    assert results[5] == ((0, 0), [(5, 2), (5, 4, 3)], [0, 0])
    assert results[1] == ((1, 1), [(4, 1), (2, 1, 0)], [1, 1])


def test_an_unnamed_mesh_is_the_named_one_without_names():
    def ranks():
        named = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        unnamed = init_device_mesh("cpu", (2, 2))
        assert unnamed.mesh_dim_names is None
        assert unnamed.axis_names == ("dim_0", "dim_1")
        assert unnamed is not named
        assert unnamed.get_local_rank("dim_1") == named.get_local_rank("tp")
        assert unnamed.get_coordinate() == named.get_coordinate()

    run_ranks(ranks, 4)


def test_sizes_and_axes():
    mesh = init_device_mesh("cpu", (2, 3), mesh_dim_names=["dp", "tp"], init_backend=False)
    assert isinstance(mesh, DeviceMesh)
    assert (mesh.ndim, mesh.size(), mesh.size("tp"), mesh.get_device_num_along_axis(0)) == (2, 6, 3, 2)
    assert (mesh.axis_index("tp"), mesh.axis_index(0)) == (1, 0)
    assert repr(mesh) == "DeviceMesh(cpu, dp=2, tp=3)"
    with pytest.raises(ValueError, match=r"axes \('dp', 'tp'\), but got 'tpp'; did you mean 'tp'"):
        mesh.axis_index("tpp")
    with pytest.raises(ValueError, match=r"in 0\.\.1, but got 2"):
        mesh.axis_index(2)
    with pytest.raises(TypeError, match="name or a position, but got True"):
        mesh.axis_index(True)


def test_equal_content_is_the_same_object():
    make = lambda **other: init_device_mesh("cpu", (2, 2), init_backend=False, **other)  # noqa: E731
    assert make() is make(rank_list=[0, 1, 2, 3])
    others = [make(), make(rank_list=(1, 0, 2, 3)), make(mesh_dim_names=("a", "b")), make(mesh_dim_names=("b", "a"))]
    others += [init_device_mesh("cpu", (4,), init_backend=False), init_device_mesh("npu", (4,), init_backend=False)]
    assert len(set(others)) == len(others)


def test_a_mesh_of_one_thread_never_serves_another_rank():
    def ranks():
        mesh = init_device_mesh("cpu", (4,))
        return mesh, get_platform().rank

    for _ in range(20):
        results = run_ranks(ranks, 4)
        assert [mesh.rank for mesh, _ in results] == [rank for _, rank in results] == [0, 1, 2, 3]
        assert [mesh.get_coordinate() for mesh, _ in results] == [(0,), (1,), (2,), (3,)]


def test_using_the_mesh_of_another_rank_is_refused():
    mesh = init_device_mesh("cpu", (2,), init_backend=False)

    def ranks():
        if get_platform().rank == 1:
            with pytest.raises(
                ValueError, match="rank 1 uses a mesh that was made on rank 0; every rank makes its own"
            ):
                mesh.check_current_rank()

    run_ranks(ranks, 2)


def test_a_rank_outside_of_the_mesh():
    mesh = init_device_mesh("cpu", (2,), rank_list=(4, 5), init_backend=False)
    assert mesh.get_coordinate() is None
    with pytest.raises(ValueError, match=r"rank 0 is not part of the mesh .*only the ranks \(4, 5\)"):
        mesh.get_local_rank(0)


def test_copies_are_the_mesh_itself():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"), rank_list=(3, 2, 1, 0), init_backend=False)
    assert copy.copy(mesh) is copy.deepcopy(mesh) is pickle.loads(pickle.dumps(mesh)) is mesh


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"mesh_shape": 4}, TypeError, "mesh_shape should be a tuple of int, but got 4"),
        ({"mesh_shape": (2.0,)}, TypeError, "mesh_shape should hold int only"),
        ({"mesh_shape": (True, 2)}, TypeError, "mesh_shape should hold int only"),
        ({"mesh_shape": ()}, ValueError, "at least one extent"),
        ({"mesh_shape": (2, 0)}, ValueError, "each at least 1"),
        ({"mesh_dim_names": ("dp",)}, ValueError, "should name the 2 axes"),
        ({"mesh_dim_names": ("dp", "dp")}, ValueError, "should be different names"),
        ({"mesh_dim_names": ("dp", "None")}, ValueError, "should not be called"),
        ({"mesh_dim_names": "dp"}, TypeError, "tuple of str, but got 'dp'"),
        ({"mesh_dim_names": ("dp", 1)}, TypeError, "tuple of str"),
        ({"rank_list": (0, 1, 2)}, ValueError, r"4 ranks of mesh_shape \(2, 2\), but got 3"),
        ({"rank_list": (0, 1, 2, 2)}, ValueError, "different ranks from 0 on"),
        ({"rank_list": (0, 1, 2, -1)}, ValueError, "different ranks from 0 on"),
        ({"rank_list": (0, 1, 2, 3.0)}, TypeError, "rank_list should hold int only"),
        ({"device_type": ""}, ValueError, "empty string"),
        ({"device_type": None}, TypeError, "device_type should be a str"),
    ],
)
def test_wrong_arguments(arguments, error, message):
    given = {"device_type": "cpu", "mesh_shape": (2, 2), "init_backend": False, **arguments}
    with pytest.raises(error, match=message):
        init_device_mesh(given.pop("device_type"), given.pop("mesh_shape"), **given)


@pytest.mark.parametrize(
    ("world_size", "arguments", "message"),
    [
        (2, {"mesh_shape": (4,)}, r"shape \(4,\) has 4 ranks, but the world has 2"),
        (4, {"mesh_shape": (2,)}, r"shape \(2,\) has 2 ranks, but the world has 4"),
        (2, {"mesh_shape": (2,), "rank_list": (0, 2)}, r"ranks 0\.\.1 of the world, but got \(0, 2\)"),
        (2, {"mesh_shape": (2,), "device_type": "npu"}, "on the NumPy platform should be 'cpu', but got 'npu'"),
    ],
)
def test_a_mesh_with_communication_is_the_world(world_size, arguments, message):
    given = {"device_type": "cpu", **arguments}
    with pytest.raises(ValueError, match=message):
        run_ranks(init_device_mesh, world_size, given.pop("device_type"), given.pop("mesh_shape"), **given)
