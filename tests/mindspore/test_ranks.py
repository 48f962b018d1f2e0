# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Meshes and DTensors on MindSpore ranks that are processes. Every check runs on all ranks of one start."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import rank_checks
from ranks import RankError, run_mccl_ranks

from tests.rank_processes import ROOT, is_running
from tests.runtime.placement_oracle import all_placements, check_parts, operands

ALL_OPS = ("sum", "max", "min", "avg")
ON_TWO = (((2,), ALL_OPS, None),)
ON_FOUR = (((4,), ALL_OPS, None), ((2, 2), ("sum",), None), ((2, 2), ("sum",), (2, 0, 3, 1)))


def check_pairs(pairs, of_rank):
    for number, (mesh_shape, ops, rank_list) in enumerate(pairs):
        order = rank_list or range(len(of_rank))
        for row, (source, target) in enumerate(itertools.product(all_placements(mesh_shape, ops), repeat=2)):
            full, _ = operands(rank_checks.SHAPE, source, mesh_shape)
            check_parts(full, [of_rank[rank][number][row] for rank in order], target, mesh_shape)


def test_two_ranks():
    check_pairs(ON_TWO, run_mccl_ranks(rank_checks.run_all, 2, rank_checks.EVERYWHERE, ON_TWO))


@pytest.mark.slow
def test_four_ranks():
    names = (*rank_checks.EVERYWHERE, *rank_checks.ON_FOUR)
    check_pairs(ON_FOUR, run_mccl_ranks(rank_checks.run_all, 4, names, ON_FOUR))


def test_every_check_is_run():
    checks = {name for name in vars(rank_checks) if name.startswith("check_")}
    assert checks == {*rank_checks.EVERYWHERE, *rank_checks.ON_FOUR}


def fail_on_rank_one(folder):
    from hyper_parallel import get_platform

    Path(folder, str(os.getpid())).touch()
    if get_platform().rank == 1:
        raise ArithmeticError("one of us is wrong")
    time.sleep(600)


def exit_silently():
    os._exit(7)


@pytest.mark.slow
def test_a_failure_carries_the_rank_and_its_traceback(tmp_path):
    with pytest.raises(RankError, match=r"(?s)rank 1 of 2 has failed.*fail_on_rank_one.*one of us is wrong"):
        run_mccl_ranks(fail_on_rank_one, 2, str(tmp_path))
    started = [int(path.name) for path in tmp_path.iterdir()]
    assert started
    assert not any(is_running(pid) for pid in started)


@pytest.mark.slow
def test_a_silent_death_is_a_failure():
    with pytest.raises(RankError, match=r"rank \d of 2 has ended with exit code 7"):
        run_mccl_ranks(exit_silently, 2)


def test_an_incomplete_environment_is_named():
    launcher = ("MS_ROLE", "MS_WORKER_NUM", "MS_SCHED_HOST", "MS_SCHED_PORT", "MS_NODE_ID")
    kept = {name: value for name, value in os.environ.items() if name not in launcher}
    code = (
        "from hyper_parallel import get_platform, init_device_mesh\n"
        "assert (get_platform().rank, get_platform().world_size) == (1, 2)\n"
        "init_device_mesh('cpu', (2,))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        timeout=60,
        env={**kept, "HYPER_PARALLEL_PLATFORM": "mindspore", "MS_WORKER_NUM": "2", "MS_NODE_ID": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert "MS_ROLE, MS_SCHED_HOST, MS_SCHED_PORT are not set, so the 2 ranks cannot find each other" in ended.stderr
