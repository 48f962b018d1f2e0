# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Sub-meshes and flattened meshes: their ranks, their identity, tensors on them, and what is refused."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from hyper_parallel import (
    DTensor,
    Layout,
    Partial,
    Replicate,
    Shard,
    StridedShard,
    distribute_tensor,
    get_platform,
    init_device_mesh,
)
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks

NAMES = ("dp", "cp", "tp")
SHAPE = (2, 2, 3)
# Rank r of the mesh 0 1 2 / 3 4 5 // 6 7 8 / 9 10 11, where "dp" counts the halves, "cp" the rows.
THROUGH_RANK_7 = {
    "dp": ((2,), (1, 7)),
    "cp": ((2,), (7, 10)),
    "tp": ((3,), (6, 7, 8)),
    ("dp", "cp"): ((2, 2), (1, 4, 7, 10)),
    ("dp", "tp"): ((2, 3), (0, 1, 2, 6, 7, 8)),
    ("cp", "tp"): ((2, 3), (6, 7, 8, 9, 10, 11)),
}


def mesh_of(names=NAMES, shape=SHAPE, **options):
    return init_device_mesh("cpu", shape, mesh_dim_names=names, **options)


def on_rank(rank, function, world_size=12):
    return run_ranks(function, world_size)[rank]


@pytest.mark.parametrize(("axes", "expected"), THROUGH_RANK_7.items(), ids=str)
def test_the_ranks_of_a_sub_mesh(axes, expected):
    numbers = tuple(NAMES.index(axis) for axis in axes) if isinstance(axes, tuple) else NAMES.index(axes)

    def facts():
        mesh = mesh_of()
        sub, unnamed = mesh[axes], mesh_of(None)[numbers]
        assert sub.mesh_dim_names == (axes if isinstance(axes, tuple) else (axes,))
        assert unnamed.mesh_dim_names is None
        assert (unnamed.mesh_shape, unnamed.rank_list) == (sub.mesh_shape, sub.rank_list)
        assert sub.root is mesh
        for axis in sub.mesh_dim_names:
            assert sub.get_rank_list_along_axis(axis) == mesh.get_rank_list_along_axis(axis)
            assert sub.get_local_rank(axis) == mesh.get_local_rank(axis)
        return sub.mesh_shape, sub.rank_list

    assert on_rank(7, facts) == expected


def test_the_ranks_of_a_flattened_mesh():
    def facts():
        mesh = mesh_of()
        flat, outer = mesh["cp", "tp"].flatten(), mesh["dp", "tp"].flatten("data")
        assert (flat.axis_names, outer.axis_names, mesh.flatten().axis_names) == (("cp_tp",), ("data",), ("dp_cp_tp",))
        assert mesh_of(None).flatten().mesh_dim_names is None
        assert mesh_of(None).flatten("all").axis_names == ("all",)
        assert mesh.flatten().rank_list == tuple(range(12))
        return flat.rank_list, flat.get_coordinate(), outer.rank_list, outer.get_coordinate()

    assert on_rank(7, facts) == ((6, 7, 8, 9, 10, 11), (1,), (0, 1, 2, 6, 7, 8), (4,))


# The ranks are 3 1 / 0 2.
def test_another_rank_order_is_kept():
    def facts():
        mesh = mesh_of(("dp", "tp"), (2, 2), rank_list=(3, 1, 0, 2))
        return mesh["dp"].rank_list, mesh["tp"].rank_list, mesh.flatten().rank_list

    assert run_ranks(facts, 4) == [
        ((3, 0), (0, 2), (3, 1, 0, 2)),
        ((1, 2), (3, 1), (3, 1, 0, 2)),
        ((1, 2), (0, 2), (3, 1, 0, 2)),
        ((3, 0), (3, 1), (3, 1, 0, 2)),
    ]


def test_the_same_axes_are_the_same_object():
    mesh = mesh_of(init_backend=False)
    assert mesh["dp"] is mesh["dp"] is mesh[0] is mesh["dp", "cp"]["dp"] is mesh["dp",]
    assert mesh["dp", "cp", "tp"] is mesh[0, 1, 2] is mesh
    flat = mesh["dp", "cp"].flatten()
    assert flat is mesh["dp", "cp"].flatten("dp_cp") is not mesh["dp", "cp"].flatten("data")
    assert flat.flatten() is flat["dp_cp"] is flat
    assert mesh["dp"].flatten() is mesh["dp"]
    assert mesh["dp"] is not mesh["cp"]
    assert mesh["dp"] is not mesh_of(rank_list=tuple(reversed(range(12))), init_backend=False)["dp"]
    for part in (mesh["dp"], mesh["cp", "tp"], flat, mesh.flatten("all")):
        assert copy.copy(part) is copy.deepcopy(part) is pickle.loads(pickle.dumps(part)) is part


def test_a_sub_mesh_of_another_rank_is_that_rank_s_view():
    pickled = run_ranks(lambda: pickle.dumps(mesh_of(("dp", "tp"), (2, 2))["tp"]), 4)[0]
    assert [mesh.rank_list for mesh in run_ranks(lambda: pickle.loads(pickled), 4)] == [(0, 1), (0, 1), (2, 3), (2, 3)]


@pytest.mark.parametrize(
    ("axes", "error", "message"),
    [
        ("tpp", ValueError, r"axes \('dp', 'cp', 'tp'\), but got 'tpp'; did you mean 'tp'\?"),
        (("dp", "cpp"), ValueError, "but got 'cpp'; did you mean 'cp'"),
        (3, ValueError, r"in 0\.\.2, but got 3"),
        (-1, ValueError, r"in 0\.\.2, but got -1"),
        (("dp", "dp"), ValueError, r"at least one axis, each once, but got \('dp', 'dp'\)"),
        (("dp", 0), ValueError, r"each once, but got \('dp', 0\)"),
        ((), ValueError, r"at least one axis, each once, but got \(\)"),
        (("tp", "dp"), ValueError, r"in the order of \('dp', 'cp', 'tp'\), but got \('tp', 'dp'\)"),
        (True, TypeError, "name or a position, but got True"),
        (slice(0, 2), TypeError, r"name or a position, but got slice\(0, 2, None\)"),
        (None, TypeError, "name or a position, but got None"),
    ],
)
def test_wrong_axes(axes, error, message):
    with pytest.raises(error, match=message):
        mesh_of(init_backend=False)[axes]


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [("", ValueError, "should not be called ''"), ("None", ValueError, "'None'"), (3, TypeError, "tuple of str")],
)
def test_wrong_names_of_a_flattened_axis(name, error, message):
    with pytest.raises(error, match=message):
        mesh_of(init_backend=False).flatten(name)


def test_other_refusals():
    mesh = init_device_mesh("cpu", (2, 2), rank_list=(4, 5, 6, 7), init_backend=False)
    for part in (lambda: mesh[0], mesh.flatten):
        with pytest.raises(ValueError, match=r"rank 0 is not part of the mesh .*only the ranks \(4, 5, 6, 7\)"):
            part()
    with pytest.raises(TypeError, match="not iterable"):
        iter(mesh)
    with pytest.raises(TypeError, match="not iterable"):
        "dp" in mesh_of(init_backend=False)  # noqa: B015 - the question itself is refused


def test_layouts_on_a_sub_mesh():
    mesh = mesh_of(init_backend=False)
    sub = mesh["cp", "tp"]
    layout = Layout.from_device_mesh(sub)(("tp", "cp"), "None").freeze()
    assert layout.tensor_map == ((0, 1), -1)
    assert layout.placements == (StridedShard(0, 3), Shard(0))
    assert layout.compact_str == "[(tp, cp), None]"
    flat = Layout.from_device_mesh(sub.flatten())("cp_tp", "None").freeze()
    assert flat.get_dim_split_num(0) == 6
    assert flat is not Layout.from_placements(sub, (Shard(0), Shard(0)), 2)


def test_tensors_on_sub_meshes():
    """Every rank outside of a sub-mesh has a tensor of its own: ranks with other coordinates hold other values."""
    whole = np.arange(24.0).reshape(6, 4)

    def ranks():
        mesh = mesh_of()
        dp, cp, tp = mesh.get_coordinate()
        rows = distribute_tensor(whole + 100 * dp, mesh["cp", "tp"], (Shard(0), Shard(0)))
        start = 3 * cp + tp
        np.testing.assert_array_equal(rows.to_local(), whole[start : start + 1] + 100 * dp)
        turned = rows.redistribute(mesh["cp", "tp"], (Shard(1), Replicate()))
        np.testing.assert_array_equal(turned.to_local(), whole[:, 2 * cp : 2 * cp + 2] + 100 * dp)
        np.testing.assert_array_equal(turned.full_tensor(), whole + 100 * dp)

        flat = mesh["cp", "tp"].flatten()
        same = distribute_tensor(whole + 100 * dp, flat, (Shard(0),))
        np.testing.assert_array_equal(same.to_local(), rows.to_local())
        np.testing.assert_array_equal(same.full_tensor(), whole + 100 * dp)

        summed = DTensor.from_local(np.full(2, 1.0 + get_platform().rank), mesh["dp", "tp"].flatten(), (Partial(),))
        return summed.full_tensor()[0]

    # Ranks 0 1 2 6 7 8 are the first row of either half, plus one each: 30; the others are 3 more each.
    assert run_ranks(ranks, 12) == [30.0, 30.0, 30.0, 48.0, 48.0, 48.0] * 2


def test_a_sub_mesh_is_another_mesh():
    def ranks():
        mesh = mesh_of(("dp", "tp"), (2, 2))
        rows = distribute_tensor(np.ones((4, 4)), mesh["tp"], (Shard(0),))
        for other, placements in ((mesh["dp"], (Shard(0),)), (mesh, (Shard(0), Replicate()))):
            with pytest.raises(ValueError, match="stays on its mesh"):
                rows.redistribute(other, placements)

    run_ranks(ranks, 4)
