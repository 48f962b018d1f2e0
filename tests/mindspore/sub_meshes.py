# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of a mesh and merged axes on MindSpore ranks: what every rank finds out, for the tests to look at."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np

from hyper_parallel import Replicate, Shard, distribute_tensor, init_device_mesh

WHOLE = np.arange(24, dtype=np.float32).reshape(8, 3)


def run_sub_meshes(shape: tuple[int, ...]) -> dict[str, Any]:
    """Redistribution over one axis of a mesh, over both by name, and over both as one."""
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp"))
    whole = ms.Tensor(WHOLE)
    flat = mesh.flatten()
    along_dp = distribute_tensor(whole, mesh["dp"], (Shard(0),))
    along_flat = distribute_tensor(whole, flat, (Shard(0),))
    return {
        "rank": mesh.rank,
        "dp": along_dp.to_local().asnumpy(),
        "dp whole": along_dp.full_tensor().asnumpy(),
        "flat": along_flat.to_local().asnumpy(),
        "flat whole": along_flat.redistribute(flat, (Replicate(),)).to_local().asnumpy(),
        "flat axis": flat.axis_names,
        "same": flat is mesh.flatten() and mesh["dp"] is mesh["dp"],
    }


def check_sub_meshes(shape: tuple[int, ...], found: list[dict[str, Any]]) -> None:
    count = shape[0] * shape[1]
    for rank, here in enumerate(found):
        assert here["rank"] == rank
        assert np.array_equal(here["dp"], np.split(WHOLE, shape[0])[rank // shape[1]])
        assert np.array_equal(here["flat"], np.split(WHOLE, count)[rank])
        for name in ("dp whole", "flat whole"):
            assert np.array_equal(here[name], WHOLE)
        assert here["flat axis"] == ("dp_tp",)
        assert here["same"]
