# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A rank that fails raises at once, with the operator's name; its peers end by mccl's time-out and say so."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from ranks import RankError, run_mccl_ranks

from tests.rank_processes import is_running

PATIENCE = 10


def one_rank_fails(kind, goes, folder):
    """Rank 1 makes a call that its rule refuses, rank 0 goes on to a collective: what each is told, and after how long.

    Then rank 1 dies at once, if it ``goes``, or hangs.
    """
    from mindspore import mint

    from hyper_parallel import DTensor, Partial, Shard, custom_ops, init_device_mesh

    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    started = time.monotonic()
    try:
        if mesh.rank == 1:
            shapes = ((2, 3, 7, 128), (2, 4, 1, 128), (2, 3, 7))
            custom_ops.npu_dense_lightning_indexer_softmax_lse(
                *(DTensor.from_local(mint.ones(shape), mesh, (Shard(0),)) for shape in shapes)
            )
        DTensor.from_local(mint.ones(4), mesh, (Partial() if kind == "all_reduce" else Shard(0),)).full_tensor()
    except (RuntimeError, ValueError) as error:
        told = [os.getpid(), type(error).__name__, str(error), time.monotonic() - started]
        Path(folder, str(mesh.rank)).write_text(json.dumps(told))
        if mesh.rank == 1 and not goes:
            time.sleep(PATIENCE + 5)
        raise


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "goes"), [("all_reduce", False), ("all_gather", True)])
def test_peers_end_in_time_and_say_why(kind, goes, tmp_path):
    with pytest.raises(RankError, match=r"rank \d of 2 has failed"):
        run_mccl_ranks(one_rank_fails, 2, kind, goes, str(tmp_path), patience=PATIENCE, grace=PATIENCE + 20)
    waiting, failing = (json.loads((tmp_path / rank).read_text()) for rank in ("0", "1"))
    assert failing[1] == "ValueError"
    assert failing[2].startswith("For npu_dense_lightning_indexer_softmax_lse, N1 in (8, 16, 32, 64) is required")
    assert waiting[1] == "RuntimeError"
    assert waiting[2].startswith(kind)
    assert "along dp of DeviceMesh(cpu, dp=2) did not come to its end on rank 0: another rank has failed" in waiting[2]
    assert "MS_CPU_COMM_OP_TIMEOUT seconds" in waiting[2]
    assert failing[3] < waiting[3]
    assert not is_running(waiting[0])
    assert not is_running(failing[0])
