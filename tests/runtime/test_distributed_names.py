# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""`hyper_parallel.distributed` on a platform without modules: declarations exist, modules do not."""

from __future__ import annotations

import pytest

from hyper_parallel import Shard, distributed, init_device_mesh

NO_MODULES = "the numpy platform has no modules.*set HYPER_PARALLEL_PLATFORM to torch or mindspore"


def test_function_modules_need_a_framework():
    with pytest.raises(RuntimeError, match=NO_MODULES):
        distributed.FunctionModule  # noqa: B018


def test_so_does_a_plan():
    spec = distributed.ModuleShardingSpec(params={"weight": {"tp": Shard(0)}})
    with pytest.raises(RuntimeError, match=NO_MODULES):
        distributed.apply_sharding(object(), init_device_mesh("cpu", (1,)), {"": spec})


def test_other_names():
    assert {"FunctionModule", "ModuleShardingSpec", "PlacementMismatchError", "apply_sharding"} <= set(dir(distributed))
    with pytest.raises(AttributeError, match="has no attribute 'apply_shard'"):
        distributed.apply_shard  # noqa: B018
