# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Sub-meshes and flattened meshes on torch's process groups."""

from __future__ import annotations

import pytest
from ranks import run_gloo_ranks

pytest.importorskip("torch")


def check_sub_meshes_lie_on_the_groups_of_their_mesh():
    import torch
    import torch.distributed as dist

    from hyper_parallel import DTensor, Partial, Shard, distribute_tensor, init_device_mesh

    whole = torch.arange(16.0).reshape(8, 2)
    for rank_list in (None, (2, 0, 3, 1)):
        mesh = init_device_mesh("cpu", (2, 1, 2), mesh_dim_names=("dp", "cp", "tp"), rank_list=rank_list)
        before = dist.get_pg_count()
        for axis in ("dp", "tp"):
            assert mesh[axis].get_group(axis) is mesh.get_group(axis)
            assert mesh["dp", "tp"].get_group(axis) is mesh.get_group(axis)
            rows = distribute_tensor(whole, mesh[axis], (Shard(0),))
            assert torch.equal(rows.full_tensor(), whole)
            assert torch.equal(rows.redistribute(mesh[axis], (Shard(1),)).full_tensor(), whole)
            summed = DTensor.from_local(torch.tensor([float(dist.get_rank())]), mesh[axis], (Partial(),))
            assert summed.full_tensor().item() == sum(mesh.get_rank_list_along_axis(axis))
        assert mesh["dp", "tp"].flatten().get_group(0) is dist.group.WORLD
        assert dist.get_pg_count() == before
        for axes in (("cp", "tp"), ("dp", "cp"), ("dp", "tp")):
            flat = mesh[axes].flatten()
            made = dist.get_pg_count()
            assert mesh[axes].flatten("other").get_group(0) is flat.get_group(0)
            assert dist.get_pg_count() == made
            assert sorted(flat.rank_list) == dist.get_process_group_ranks(flat.get_group("_".join(axes)))
            assert torch.equal(distribute_tensor(whole, flat, (Shard(0),)).full_tensor(), whole)
    layouts_only = init_device_mesh("cpu", (4, 1), mesh_dim_names=("a", "b"), init_backend=False)
    flat = layouts_only.flatten()
    for part in (flat, layouts_only["a"]):
        with pytest.raises(ValueError, match="init_backend=False and only describes layouts"):
            part.get_group(0)
    init_device_mesh("cpu", (4, 1), mesh_dim_names=("a", "b"))
    with pytest.raises(ValueError, match="was flattened before there was communication: call flatten again"):
        flat.get_group(0)
    assert layouts_only.flatten().get_group(0) is dist.group.WORLD


def test_four_ranks():
    run_gloo_ranks(check_sub_meshes_lie_on_the_groups_of_their_mesh, 4)
