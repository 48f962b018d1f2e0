# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The seven operators on meshes of MindSpore ranks, against the unsharded call: the table that NumPy runs too.

Starting ranks takes seconds, so each number of ranks is started once and runs all rows.
"""

from __future__ import annotations

import pytest
from on_mindspore import MINDSPORE
from ranks import run_mccl_ranks
from sub_meshes import check_sub_meshes, run_sub_meshes

from tests.operators.sharded_calls import on_rank
from tests.operators.sharded_table import LARGE_MESHES, SMALL_MESHES, check_rows, rows


def run_rows(meshes):
    return [on_rank(call, case, 1.0, MINDSPORE) for _, call, case in rows(meshes)]


def run_all(meshes, shape):
    return run_rows(meshes), run_sub_meshes(shape)


def check_all(meshes, shape, found):
    check_rows(meshes, [rows_of_rank for rows_of_rank, _ in found])
    check_sub_meshes(shape, [parts for _, parts in found])


def test_two_ranks():
    check_all(SMALL_MESHES, (2, 1), run_mccl_ranks(run_all, 2, SMALL_MESHES, (2, 1)))


@pytest.mark.slow
def test_four_ranks():
    check_all(LARGE_MESHES, (2, 2), run_mccl_ranks(run_all, 4, LARGE_MESHES, (2, 2)))
