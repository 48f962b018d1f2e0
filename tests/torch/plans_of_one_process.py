# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Meshes and plans for tests of boundaries on one process."""

from __future__ import annotations

from hyper_parallel import Shard, init_device_mesh
from hyper_parallel.distributed import ModuleShardingSpec

SPEC = ModuleShardingSpec(region_dispatch=False, in_src={"x": {"dp": Shard(0)}}, out_src={"y": {"dp": Shard(0)}})
OTHER = ModuleShardingSpec(region_dispatch=False, in_src={"x": {"tp": Shard(0)}}, out_src={"y": {"tp": Shard(0)}})


def described_mesh():
    """Of four ranks, for plans that are applied and not run."""
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"), init_backend=False)


def one_rank():
    return init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))


def spec(**fields):
    return ModuleShardingSpec(region_dispatch=False, **fields)


def linear(placement, **more):
    return spec(params={"weight": placement}, in_src={"input": {}}, out_src={"y": {}}, **more)
