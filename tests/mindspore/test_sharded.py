# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The seven operators on meshes of MindSpore ranks, against the unsharded call: the table that NumPy runs too.

Starting ranks takes seconds, so each number of ranks is started once and runs all rows.
"""

from __future__ import annotations

import pytest
from on_mindspore import MINDSPORE
from ranks import run_mccl_ranks

from tests.operators.sharded_calls import on_rank
from tests.operators.sharded_table import LARGE_MESHES, SMALL_MESHES, check_rows, rows


def run_rows(meshes):
    return [on_rank(call, case, 1.0, MINDSPORE) for _, call, case in rows(meshes)]


def test_two_ranks():
    check_rows(SMALL_MESHES, run_mccl_ranks(run_rows, 2, SMALL_MESHES))


@pytest.mark.slow
def test_four_ranks():
    check_rows(LARGE_MESHES, run_mccl_ranks(run_rows, 4, LARGE_MESHES))
