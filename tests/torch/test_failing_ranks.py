# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A rank that fails raises at once, with the operator's name; its peers end by the group's time-out and say so."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path

import pytest
from ranks import RankError, run_gloo_ranks

PATIENCE = 3.0


def one_rank_fails(kind, folder):
    """Rank 1 makes a call that its rule refuses, rank 0 goes on to a collective: what each is told, and after how long.

    Written to files: what comes after it, the end of the process group, cannot succeed.
    """
    import torch
    from lse_on_torch import Lse

    from hyper_parallel import DTensor, Partial, Shard, init_device_mesh

    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    started = time.monotonic()
    try:
        if mesh.rank == 1:
            shapes = ((2, 3, 7, 128), (2, 4, 1, 128), (2, 3, 7))
            Lse.apply(*(DTensor.from_local(torch.ones(shape), mesh, (Shard(0),)) for shape in shapes))
        DTensor.from_local(torch.ones(4), mesh, (Partial() if kind == "all_reduce" else Shard(0),)).full_tensor()
    except (RuntimeError, ValueError) as error:
        told = [type(error).__name__, str(error), time.monotonic() - started]
        Path(folder, str(mesh.rank)).write_text(json.dumps(told))
    time.sleep(PATIENCE + 2)


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather"])
def test_peers_end_in_time_and_say_why(kind, tmp_path):
    with suppress(RankError):
        run_gloo_ranks(one_rank_fails, 2, kind, str(tmp_path), patience=PATIENCE)
    waiting, failing = (json.loads((tmp_path / rank).read_text()) for rank in ("0", "1"))
    assert failing[0] == "ValueError"
    assert failing[1].startswith("For npu_dense_lightning_indexer_softmax_lse, N1 in (8, 16, 32, 64) is required")
    assert waiting[0] == "RuntimeError"
    assert f"{kind}" in waiting[1]
    assert "along dp of DeviceMesh(cpu, dp=2) did not come to its end on rank 0: another rank has failed" in waiting[1]
    assert failing[2] < waiting[2]
