# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Meshes and DTensors on torch with real process groups. Every check runs on all ranks of one start."""

from __future__ import annotations

import copy
import io
import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
from ranks import ROOT, free_port, run_gloo_ranks

pytest.importorskip("torch")

SHAPE = (8, 12)


def run_checks(names):
    for name in names:
        try:
            globals()[name]()
        except BaseException as error:
            raise AssertionError(f"{name} has failed: {error}") from error


def check_mesh_lies_on_process_groups():
    import torch.distributed as dist

    from hyper_parallel import init_device_mesh

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    assert mesh is init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    assert mesh.groups is not None
    assert mesh.rank == dist.get_rank()
    for axis in ("dp", "tp"):
        assert tuple(dist.get_process_group_ranks(mesh.get_group(axis))) == mesh.get_rank_list_along_axis(axis)
    layouts_only = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"), init_backend=False)
    with pytest.raises(ValueError, match="init_backend=False and only describes layouts"):
        layouts_only.get_group("a")


def check_mesh_of_another_size_is_refused():
    from hyper_parallel import init_device_mesh

    with pytest.raises(ValueError, match="has 3 ranks, but the world has"):
        init_device_mesh("cpu", (3,))
    with pytest.raises(ValueError, match="device_type on torch should be one of cpu, cuda, npu, but got 'gpu'"):
        init_device_mesh("gpu", (__import__("hyper_parallel").get_platform().world_size,))


def check_all_pairs(mesh_shape, ops=("sum",), rank_list=None):
    import torch
    import torch.distributed as dist
    from placement_oracle import all_placements, check_parts, held_by, operands

    from hyper_parallel import DTensor, init_device_mesh

    mesh = init_device_mesh("cpu", mesh_shape, rank_list=rank_list)
    position = mesh.rank_list.index(dist.get_rank())
    pairs = list(itertools.product(all_placements(mesh_shape, ops), repeat=2))
    mine = []
    for source, target in pairs:
        _, given = operands(SHAPE, source, mesh_shape)
        local = torch.from_numpy(held_by(given[position], source, mesh_shape, mesh.get_coordinate()))
        after = DTensor.from_local(local, mesh, source, shape=SHAPE).redistribute(mesh, target)
        assert type(after.to_local()) is torch.Tensor
        assert after.shape == SHAPE
        mine.append(after.to_local().numpy())
    of_rank = [None] * dist.get_world_size()
    dist.all_gather_object(of_rank, mine)
    for number, (source, target) in enumerate(pairs):
        full, _ = operands(SHAPE, source, mesh_shape)
        check_parts(full, [of_rank[rank][number] for rank in mesh.rank_list], target, mesh_shape)


def check_all_pairs_on_two():
    check_all_pairs((2,), ("sum", "max", "min", "avg"))


def check_all_pairs_on_four():
    check_all_pairs((4,), ("sum", "max", "min", "avg"))


def check_all_pairs_on_two_by_two():
    check_all_pairs((2, 2))


def check_all_pairs_in_another_order():
    check_all_pairs((2, 2), rank_list=(2, 0, 3, 1))


def check_distribute_and_gather():
    import torch
    from placement_oracle import held_by

    from hyper_parallel import Replicate, Shard, StridedShard, distribute_tensor, init_device_mesh

    full = torch.arange(96.0).reshape(SHAPE)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    for placements in [
        (Shard(0), Shard(0)),
        (StridedShard(0, 2), Shard(0)),
        (Replicate(), Shard(1)),
        (Shard(1), Shard(0)),
    ]:
        d = distribute_tensor(full, mesh, placements)
        np.testing.assert_array_equal(d.to_local(), held_by(full.numpy(), placements, (2, 2), mesh.get_coordinate()))
        assert torch.equal(d.full_tensor(), full)
    with pytest.raises(ValueError, match=r"dim 1 of shape \(4, 6\) has extent 6.*4 shards.*\(dp, tp\)"):
        distribute_tensor(torch.ones(4, 6), mesh, (Shard(1), Shard(1)))


def check_dtypes_stay():
    import torch
    import torch.distributed as dist

    from hyper_parallel import DTensor, Partial, Shard, distribute_tensor, init_device_mesh

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int32, torch.int64, torch.bool):
        local = (torch.arange(6) % 3).to(dtype)
        largest = DTensor.from_local(local, mesh, (Partial("max"),)).full_tensor()
        whole = DTensor.from_local(local, mesh, (Shard(0),)).full_tensor()
        assert largest.dtype == whole.dtype == dtype
        assert torch.equal(largest, local)
        assert torch.equal(whole, local.repeat(dist.get_world_size()))
        table = (torch.arange(48) % 3).to(dtype).reshape(8, 6)[:, :4]
        moved = distribute_tensor(table, mesh, (Shard(0),)).redistribute(mesh, (Shard(1),)).to_local()
        assert moved.dtype == dtype
        assert torch.equal(moved, distribute_tensor(table, mesh, (Shard(1),)).to_local())
    total = DTensor.from_local(torch.ones(3, dtype=torch.bfloat16), mesh, (Partial(),)).full_tensor()
    assert torch.equal(total, torch.full((3,), dist.get_world_size(), dtype=torch.bfloat16))
    with pytest.raises(TypeError, match="a sum over ranks needs numbers"):
        DTensor.from_local(torch.ones(3, dtype=torch.bool), mesh, (Partial(),)).full_tensor()


def check_the_source_stays_unchanged():
    import torch
    import torch.distributed as dist

    from hyper_parallel import DTensor, Partial, init_device_mesh

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    local = torch.ones(3)
    assert DTensor.from_local(local, mesh, (Partial(),)).full_tensor()[0] == dist.get_world_size()
    assert torch.equal(local, torch.ones(3))


def check_gradients_take_the_way_back():
    import torch
    import torch.distributed as dist

    from hyper_parallel import DTensor, Partial, Replicate, Shard, init_device_mesh

    size, rank = dist.get_world_size(), dist.get_rank()
    mesh = init_device_mesh("cpu", (size,))
    weights = torch.from_numpy(np.random.default_rng(0).normal(size=(8, 8)))
    chunk = slice(rank * 8 // size, (rank + 1) * 8 // size)
    expected = {Shard(0): weights[chunk], Replicate(): weights, Partial(): weights, Partial("avg"): weights / size}
    for source, detour in itertools.product(expected, (Shard(0), Shard(1), Replicate(), Partial())):
        local = torch.ones(expected[source].shape, dtype=torch.float64, requires_grad=True)
        there = DTensor.from_local(local, mesh, (source,)).redistribute(mesh, (detour,))
        (weights * there.full_tensor()).sum().backward()
        torch.testing.assert_close(local.grad, expected[source], msg=f"{source} -> {detour}")


def check_torch_functions_go_to_the_dispatcher():
    import torch
    import torch.distributed as dist

    from hyper_parallel import Shard, distribute_tensor, get_platform, init_device_mesh
    from hyper_parallel.core.shard import _op_dispatch

    library = torch.library.Library("hyper_parallel_test", "FRAGMENT")
    library.define("npu_foo(Tensor x, int times) -> Tensor")

    class Recorder:
        def dispatch(self, func, args, kwargs):
            return func, args, kwargs

    d = distribute_tensor(torch.ones(4), init_device_mesh("cpu", (dist.get_world_size(),)), (Shard(0),))
    dispatcher, _op_dispatch._OP_DISPATCHER = _op_dispatch._OP_DISPATCHER, Recorder()
    try:
        func, args, kwargs = torch.add(d, 1, alpha=2)
        assert func is torch.add
        assert args == (d, 1)
        assert kwargs == {"alpha": 2}
        assert torch.add(torch.ones(4), d)[1][1] is d
        assert torch.add(input=torch.ones(4), other=d)[2]["other"] is d
        for op in (torch.ops.hyper_parallel_test.npu_foo, torch.ops.hyper_parallel_test.npu_foo.default):
            for func, args, kwargs in (op(d, 2), op(x=d, times=2)):
                assert get_platform().get_op_name(func) == "npu_foo"
                assert d in (*args, *kwargs.values())
    finally:
        _op_dispatch._OP_DISPATCHER = dispatcher
    with pytest.raises(TypeError, match=r"numpy.add does not take a DTensor"):
        np.add(d, 1)
    with pytest.raises(TypeError, match="does not become a NumPy array by itself"):
        np.asarray(d)


def check_operator_names():
    import torch

    from hyper_parallel import get_platform

    platform = get_platform()
    assert platform.get_op_name(torch.add) == "add"
    assert platform.get_op_name(torch.Tensor.matmul) == "matmul"
    assert platform.get_op_name(torch.ops.aten.mul) == "mul"
    assert platform.get_op_name(torch.ops.aten.mul.Tensor) == "mul"
    with pytest.raises(TypeError, match="an operator should have a name"):
        platform.get_op_name(3)


def check_tensor_facts():
    import torch

    from hyper_parallel import get_platform

    platform = get_platform()
    assert platform.is_tensor(torch.ones(1))
    assert not platform.is_tensor(np.ones(1))
    assert platform.dtype_name(torch.ones(1, dtype=torch.bfloat16)) == "bfloat16"
    assert platform.host_integers(torch.tensor([1, 2], dtype=torch.int32)) == (1, 2)
    assert platform.host_integers([1, np.int64(2)]) == (1, 2)
    assert platform.is_on_host(torch.ones(1))
    for wrong in (torch.ones(2), torch.tensor([True]), [1.0], [True], [[1]], "12", 3, None, [torch.tensor(1)]):
        with pytest.raises(TypeError, match="integers"):
            platform.host_integers(wrong)
    with pytest.raises(ValueError, match=r"1-D tensor of integers, but got shape \(1, 1\)"):
        platform.host_integers(torch.tensor([[1]]))


def check_copies_and_pickles():
    import pickle

    import torch
    import torch.distributed as dist

    from hyper_parallel import Shard, distribute_tensor, init_device_mesh

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    d = distribute_tensor(torch.arange(8.0), mesh, (Shard(0),))
    stream = io.BytesIO()
    torch.save(d, stream)
    stream.seek(0)
    for other in (copy.deepcopy(d), pickle.loads(pickle.dumps(d)), torch.load(stream, weights_only=False)):
        assert other.layout is d.layout
        assert torch.equal(other.to_local(), d.to_local())
        assert other.to_local() is not d.to_local()


def check_wrong_tensors():
    import torch
    import torch.distributed as dist

    from hyper_parallel import DTensor, Shard, distribute_tensor, init_device_mesh

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    with pytest.raises(TypeError, match=r"should be a tensor of torch, but got a numpy\.ndarray"):
        DTensor.from_local(np.ones(4), mesh, (Shard(0),))
    with pytest.raises(TypeError, match="plain tensor, but got a DTensor"):
        distribute_tensor(distribute_tensor(torch.ones(4), mesh, (Shard(0),)), mesh, (Shard(0),))


def check_a_new_world_makes_new_meshes():
    import torch
    import torch.distributed as dist

    from hyper_parallel import Shard, distribute_tensor, init_device_mesh

    shape = (dist.get_world_size(),)
    mesh = init_device_mesh("cpu", shape)
    # Another port: with the old one a rank may find the store that is about to close.
    port = [free_port() if dist.get_rank() == 0 else 0]
    dist.broadcast_object_list(port)
    os.environ["MASTER_PORT"] = str(port[0])
    dist.barrier()
    dist.destroy_process_group()
    renewed = init_device_mesh("cpu", shape)  # starts communication again, from the environment
    assert renewed is not mesh
    full = torch.arange(8.0)
    assert torch.equal(distribute_tensor(full, renewed, (Shard(0),)).full_tensor(), full)


ANYWHERE = (
    "check_mesh_of_another_size_is_refused",
    "check_dtypes_stay",
    "check_the_source_stays_unchanged",
    "check_gradients_take_the_way_back",
    "check_torch_functions_go_to_the_dispatcher",
    "check_copies_and_pickles",
    "check_wrong_tensors",
)


def test_two_ranks():
    names = ("check_all_pairs_on_two", "check_operator_names", "check_tensor_facts", *ANYWHERE)
    run_gloo_ranks(run_checks, 2, (*names, "check_a_new_world_makes_new_meshes"))


def test_four_ranks():
    names = (
        "check_mesh_lies_on_process_groups",
        "check_all_pairs_on_four",
        "check_all_pairs_on_two_by_two",
        "check_all_pairs_in_another_order",
        "check_distribute_and_gather",
    )
    run_gloo_ranks(run_checks, 4, (*names, *ANYWHERE))


def test_one_process_needs_no_launcher():
    code = (
        "import torch\n"
        "from hyper_parallel import DTensor, Partial, init_device_mesh\n"
        "local = torch.ones(2)\n"
        "mesh = init_device_mesh('cpu', (1, 1))\n"
        "assert torch.equal(DTensor.from_local(local, mesh, (Partial(), Partial())).full_tensor(), local)\n"
        "torch.distributed.destroy_process_group()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=lone_environment(), cwd=ROOT)


def test_an_incomplete_environment_is_named():
    code = "from hyper_parallel import init_device_mesh; init_device_mesh('cpu', (2,))"
    environment = {**lone_environment(), "WORLD_SIZE": "2", "RANK": "0"}
    ended = subprocess.run(
        [sys.executable, "-c", code], check=False, timeout=60, env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert "MASTER_ADDR, MASTER_PORT are not set, so the 2 ranks cannot find each other" in ended.stderr


def lone_environment():
    launcher = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    kept = {name: value for name, value in os.environ.items() if name not in launcher}
    return {**kept, "HYPER_PARALLEL_PLATFORM": "torch", "OMP_NUM_THREADS": "1"}


def test_every_check_is_run():
    checks = {name for name in globals() if name.startswith("check_") and name != "check_all_pairs"}
    source = "".join(
        str(constant) for test in (test_two_ranks, test_four_ranks) for constant in test.__code__.co_consts
    )
    assert {name for name in checks if name not in ANYWHERE and name not in source} == set()
