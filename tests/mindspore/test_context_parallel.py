# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences that MindSpore ranks share, against the unsharded call: rows that NumPy runs too."""

from __future__ import annotations

import pytest
from on_mindspore import MINDSPORE
from ranks import run_mccl_ranks

from tests.operators.sequence_calls import seen_on_rank
from tests.operators.sequence_table import check_rows, rows
from tests.operators.sharded_table import LARGE_MESHES, SMALL_MESHES


def run_rows(meshes):
    return [seen_on_rank(case, MINDSPORE) for case in rows(meshes)]


def test_two_ranks():
    check_rows(SMALL_MESHES, run_mccl_ranks(run_rows, 2, SMALL_MESHES))


@pytest.mark.slow
def test_four_ranks():
    check_rows(LARGE_MESHES, run_mccl_ranks(run_rows, 4, LARGE_MESHES, timeout=400))
