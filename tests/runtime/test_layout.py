# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Placements and layouts: translation, interning, derived facts, and what is refused."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest
from placement_oracle import all_placements, held_by

from hyper_parallel import Layout, Partial, Replicate, Shard, StridedShard, init_device_mesh
from hyper_parallel.core.dtensor.layout import DeviceMesh
from hyper_parallel.platform import get_platform
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks


@pytest.fixture
def mesh():
    return init_device_mesh("cpu", (2, 3, 4), mesh_dim_names=("dp", "cp", "tp"), init_backend=False)


# On (dp=2, cp=3, tp=4); tensor maps count axes from the right: tp is 0, cp is 1, dp is 2.
TABLE = [
    ((Shard(0), Replicate(), Replicate()), (2, -1), ("dp", "None")),
    ((Shard(0), Shard(0), Replicate()), ((2, 1), -1), (("dp", "cp"), "None")),
    ((StridedShard(0, 3), Shard(0), Replicate()), ((1, 2), -1), (("cp", "dp"), "None")),
    ((StridedShard(1, 12), Shard(1), Shard(1)), (-1, (1, 0, 2)), ("None", ("cp", "tp", "dp"))),
    ((StridedShard(1, 3), Shard(1), Shard(1)), (-1, (1, 2, 0)), ("None", ("cp", "dp", "tp"))),
    ((StridedShard(1, 12), StridedShard(1, 4), Shard(1)), (-1, (0, 1, 2)), ("None", ("tp", "cp", "dp"))),
    ((Shard(1), Partial(), Shard(0)), (0, 2), ("tp", "dp")),
    ((Shard(-1), Replicate(), Shard(-2)), (0, 2), ("tp", "dp")),
]


@pytest.mark.parametrize(("placements", "tensor_map", "names"), TABLE)
def test_three_ways_to_write_a_layout(mesh, placements, tensor_map, names):
    layout = Layout.from_placements(mesh, placements, 2)
    assert layout.tensor_map == tensor_map
    assert layout.alias_tensor_map == names
    assert layout is Layout.from_tensor_map(mesh, tensor_map, layout.partial)
    assert layout.placements == tuple(Shard(p.dim % 2) if type(p) is Shard else p for p in placements)
    opened = Layout.from_device_mesh(mesh)(*names)
    opened = opened if not layout.is_partial() else _with_partial(opened, layout.partial)
    assert opened == layout
    assert hash(opened) == hash(layout)
    assert opened.freeze() is layout


def _with_partial(layout, ops):
    for axis, op in enumerate(ops):
        if op:
            layout.set_partial_by_dev_axis(axis, op)
    return layout


def test_every_layout_survives_the_way_through_a_tensor_map():
    mesh = init_device_mesh("cpu", (2, 3), init_backend=False)
    for placements in all_placements((2, 3), ("sum", "max", "min", "avg")):
        layout = Layout.from_placements(mesh, placements, 2)
        assert layout.placements == placements
        assert Layout.from_tensor_map(mesh, layout.tensor_map, layout.partial) is layout


def test_split_numbers_and_ids_say_which_chunk_a_rank_holds():
    mesh_shape = (2, 3, 2)

    def ranks():
        mesh = init_device_mesh("cpu", mesh_shape)
        for count in range(4):
            for order in itertools.permutations(range(3), count):
                layout = Layout.from_tensor_map(mesh, (tuple(2 - axis for axis in order) or -1,))
                chunks = layout.get_dim_split_num(0)
                chunk = np.split(np.arange(12), chunks)[layout.get_split_id(0)]
                expected = held_by(np.arange(12), layout.placements, mesh_shape, mesh.get_coordinate())
                np.testing.assert_array_equal(chunk, expected)
                assert layout.dim_axes(0) == layout.dim_axes(-1) == order

    run_ranks(ranks, 12)


def test_mixed_radix_by_hand():
    mesh = init_device_mesh("cpu", (2, 3), rank_list=(9, 8, 7, 6, 5, 0), init_backend=False)  # rank 0 is at (1, 2)
    assert Layout.from_tensor_map(mesh, ((1, 0),)).get_split_id(0) == 1 * 3 + 2
    assert Layout.from_tensor_map(mesh, ((0, 1),)).get_split_id(0) == 2 * 2 + 1


def test_an_unnamed_mesh_lays_out_like_a_named_one():
    named = init_device_mesh("cpu", (2, 3), mesh_dim_names=("dp", "tp"), init_backend=False)
    unnamed = init_device_mesh("cpu", (2, 3), init_backend=False)
    for placements in all_placements((2, 3)):
        one, other = (Layout.from_placements(mesh, placements, 2) for mesh in (named, unnamed))
        assert one.tensor_map == other.tensor_map
        assert one.partial == other.partial
        assert one.get_global_shape((4, 4)) == other.get_global_shape((4, 4))
        assert other.alias_tensor_map == tuple(
            tuple(_unnamed(name) for name in item) if isinstance(item, tuple) else _unnamed(item)
            for item in one.alias_tensor_map
        )
    assert Layout.from_device_mesh(unnamed)("dim_1", "None").tensor_map == (0, -1)


def _unnamed(name):
    return {"dp": "dim_0", "tp": "dim_1"}.get(name, name)


def test_equal_layouts_are_the_same_object(mesh):
    first = Layout.from_placements(mesh, (Shard(0), Partial(), Replicate()), 2)
    assert first is Layout.from_placements(mesh, [Shard(0), Partial(), Replicate()], 2)
    assert first is Layout.from_tensor_map(mesh, [2, -1], (None, "sum", None))
    assert first is Layout.from_tensor_map(mesh, ((2,), (-1,)), (None, "sum", None))
    different = [
        Layout.from_placements(mesh, (Shard(0), Partial("max"), Replicate()), 2),
        Layout.from_placements(mesh, (Shard(0), Partial(), Replicate()), 3),
        Layout.from_placements(mesh, (Shard(1), Partial(), Replicate()), 2),
        Layout.from_placements(mesh, (Shard(0), Replicate(), Partial()), 2),
    ]
    assert all(layout != first for layout in different)
    assert len({first, *different}) == 5


def test_axes_of_extent_one_have_one_spelling():
    mesh = init_device_mesh("cpu", (1, 2), init_backend=False)
    layout = Layout.from_tensor_map(mesh, ((0, 1),))
    assert layout is Layout.from_placements(mesh, layout.placements, 1)
    assert layout.get_dim_split_num(0) == 2


def test_layouts_of_two_threads_are_never_mixed():
    def ranks():
        layout = Layout.from_placements(init_device_mesh("cpu", (4,)), (Shard(0),), 1)
        return get_platform().rank, layout.mesh.rank, layout.get_split_id(0)

    for _ in range(20):
        assert run_ranks(ranks, 4) == [(rank, rank, rank) for rank in range(4)]


def test_global_and_local_shapes(mesh):
    layout = Layout.from_tensor_map(mesh, ((2, 1), 0, -1))
    assert layout.get_global_shape((2, 5, 7)) == (12, 20, 7)
    assert layout.get_local_shape((12, 20, 7)) == (2, 5, 7)
    with pytest.raises(ValueError, match=r"dim 0 of shape \(9, 20, 7\) has extent 9.*6 shards .*\(dp, cp\)"):
        layout.get_local_shape((9, 20, 7))
    with pytest.raises(ValueError, match=r"3 dimensions, but got the shape \(1, 2\)"):
        layout.get_global_shape((1, 2))


def test_descriptions(mesh):
    layout = Layout.from_placements(mesh, (StridedShard(0, 4), Partial(), Shard(0)), 2)
    assert layout.compact_str == "[(tp, dp), None] + sum over cp"
    assert repr(layout) == "Layout([(tp, dp), None] + sum over cp on DeviceMesh(cpu, dp=2, cp=3, tp=4))"
    assert layout.alias_placements == (("dp", StridedShard(0, 4)), ("cp", Partial()), ("tp", Shard(0)))
    assert Layout.from_device_mesh(mesh).compact_str == "(Replicate(), Replicate(), Replicate())"


def test_an_open_layout_can_be_changed(mesh):
    layout = Layout.from_device_mesh(mesh)
    assert isinstance(layout.mesh, DeviceMesh)
    assert layout.placements == (Replicate(),) * 3
    layout.set_partial_by_dev_axis("cp", "max")
    layout.set_tensor_map((2, -1))
    assert layout.tensor_map_to_placement() == (Shard(0), Partial("max"), Replicate())
    layout.set_partial_by_dev_axis(2, "max")
    assert layout.partial == (None, "max", "max")
    assert layout.is_partial()
    layout.set_tensor_map((-1, 2))
    assert layout.placements == (Shard(1), Partial("max"), Partial("max"))


def test_placements_wait_for_the_number_of_dimensions(mesh):
    base = Layout.from_tensor_map(mesh, (-1,))
    for layout in (base(Shard(-1), Replicate(), Partial()), base((Shard(-1), Replicate(), Partial()))):
        assert layout.placements == (Shard(-1), Replicate(), Partial())
        for use in (lambda of: of.tensor_map, lambda of: of.ndim, lambda of: of.dim_axes(0), lambda of: of.freeze()):
            with pytest.raises(ValueError, match="does not know the number of dimensions"):
                use(layout)
        assert layout.placement_to_tensor_map(3) == (-1, -1, 2)
    assert base.tensor_map == (-1,)


def test_a_scalar_has_a_layout(mesh):
    assert Layout.from_placements(mesh, (Replicate(), Partial(), Replicate()), 0).tensor_map == ()
    assert Layout.from_tensor_map(mesh, ()).get_global_shape(()) == ()


def test_a_frozen_layout_cannot_be_changed(mesh):
    layout = Layout.from_tensor_map(mesh, (2, -1))
    for change in (
        lambda: layout.set_tensor_map((-1, -1)),
        lambda: layout.set_partial_by_dev_axis("cp"),
        lambda: layout.placement_to_tensor_map(2),
    ):
        with pytest.raises(ValueError, match="is frozen"):
            change()
    assert layout.tensor_map == (2, -1)
    called = layout("tp", "None")
    called.set_tensor_map((1, -1))
    assert not called.is_frozen


def test_copies(mesh):
    frozen = Layout.from_placements(mesh, (Shard(0), Partial(), Replicate()), 2)
    assert copy.copy(frozen) is copy.deepcopy(frozen) is pickle.loads(pickle.dumps(frozen)) is frozen
    opened = frozen("dp", "None")
    copied = copy.deepcopy(opened)
    copied.set_tensor_map((-1, -1))
    assert opened.tensor_map == (2, -1)
    unknown = frozen(Shard(0), Replicate(), Replicate())
    assert copy.copy(unknown) == unknown == pickle.loads(pickle.dumps(unknown))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda m: Layout.from_placements(m, (Shard(0),), 2), ValueError, r"3 axes \('dp', 'cp', 'tp'\).* but got 1"),
        (lambda m: Layout.from_placements(m, (Shard(2), Replicate(), Replicate()), 2), ValueError, "one of the 2 dim"),
        (lambda m: Layout.from_placements(m, (Shard(-3), Replicate(), Replicate()), 2), ValueError, r"Shard\(dim=-3\)"),
        (lambda m: Layout.from_placements(m, (StridedShard(0, 2), Shard(0), Replicate()), 2), ValueError, r"\[1, 3\]"),
        (lambda m: Layout.from_placements(m, (0, 1, 2), 2), TypeError, "tuple of Shard, Replicate"),
        (lambda m: Layout.from_placements(m, None, 2), TypeError, "tuple of Shard, Replicate"),
        (lambda m: Layout.from_placements("dp", (Shard(0),), 2), TypeError, "expected a DeviceMesh"),
        (lambda m: Layout.from_placements(m, (Partial(), Partial("max"), Replicate()), 2), ValueError, "one operation"),
        (lambda m: Layout.from_placements(m, (Replicate(),) * 3, -1), ValueError, "number of dimensions, but got -1"),
        (lambda m: Layout.from_tensor_map(m, (3, -1)), ValueError, r"\(0\.\.2\), but got 3 in \(3, -1\)"),
        (lambda m: Layout.from_tensor_map(m, (-2, -1)), ValueError, "but got -2"),
        (lambda m: Layout.from_tensor_map(m, ((2, -1), -1)), ValueError, r"but got \(2, -1\)"),
        (lambda m: Layout.from_tensor_map(m, (2, 2)), ValueError, "'dp' should be used once, but splits dim 1 and spl"),
        (lambda m: Layout.from_tensor_map(m, ((2, 2),)), ValueError, "'dp' should be used once"),
        (lambda m: Layout.from_tensor_map(m, (2,), ("sum", None, None)), ValueError, "splits dim 0 and is Partial"),
        (lambda m: Layout.from_tensor_map(m, (2,), ("sum",)), ValueError, "reduce_op or None for each of the 3"),
        (lambda m: Layout.from_tensor_map(m, (2,), (None, "mean", None)), ValueError, "but got 'mean'"),
        (lambda m: Layout.from_tensor_map(m, ("dp",)), TypeError, "int or a tuple of int, but got 'dp'"),
        (lambda m: Layout.from_tensor_map(m, (True,)), TypeError, "int or a tuple of int, but got True"),
        (lambda m: Layout.from_tensor_map(m, 2), TypeError, "one entry per dimension, but got 2"),
        (lambda m: Layout.from_device_mesh(m)("dp", "dp"), ValueError, "'dp' should be used once"),
        (lambda m: Layout.from_device_mesh(m)("dpp"), ValueError, "did you mean 'dp'"),
        (lambda m: Layout.from_device_mesh(m)(Shard(0), "None", "None"), TypeError, "tuple of Shard, Replicate"),
        (lambda m: Layout.from_device_mesh(m)(0), TypeError, "axis name, a tuple of them or 'None', but got 0"),
        (lambda m: Layout.from_device_mesh(m)("dp").set_partial_by_dev_axis("dp"), ValueError, "should be used once"),
        (lambda m: Layout.from_device_mesh(m).set_partial_by_dev_axis("dp", "mul"), ValueError, "but got 'mul'"),
        (lambda m: Layout.from_tensor_map(m, (2,)).dim_axes(1), ValueError, r"in -1\.\.0 for the layout .*, but got 1"),
    ],
)
def test_wrong_layouts(mesh, make, error, message):
    with pytest.raises(error, match=message):
        make(mesh)


def test_a_rank_outside_of_the_mesh_has_no_chunk():
    mesh = init_device_mesh("cpu", (2,), rank_list=(4, 5), init_backend=False)
    with pytest.raises(ValueError, match="rank 0 is not part of the mesh"):
        Layout.from_tensor_map(mesh, (0,)).get_split_id(0)


def test_placement_types():
    assert Shard(1).is_shard()
    assert Shard(1).is_shard(1)
    assert not Shard(1).is_shard(0)
    assert StridedShard(0, 2).is_shard(0)
    assert Replicate().is_replicate()
    assert Partial().is_partial()
    assert not Partial().is_shard()
    assert not Shard(0).is_replicate()
    assert Partial() == Partial("sum") != Partial("max")
    assert Shard(0) != StridedShard(0, 1)
    assert len({Shard(0), Shard(0), Shard(1), Replicate(), Partial(), StridedShard(0, 2)}) == 5
    assert repr((Shard(0), Replicate(), Partial(), StridedShard(1, 2))) == (
        "(Shard(dim=0), Replicate(), Partial(reduce_op='sum'), StridedShard(dim=1, split_factor=2))"
    )
    with pytest.raises(AttributeError):
        Shard(0).dim = 1


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Shard("0"), TypeError),
        (lambda: Shard(True), TypeError),
        (lambda: Shard(1.0), TypeError),
        (lambda: StridedShard(0, 0), ValueError),
        (lambda: StridedShard(0, "2"), TypeError),
        (lambda: StridedShard(None, 2), TypeError),
        (lambda: Partial("mean"), ValueError),
        (lambda: Partial(None), TypeError),
    ],
)
def test_wrong_placements(make, error):
    with pytest.raises(error):
        make()
