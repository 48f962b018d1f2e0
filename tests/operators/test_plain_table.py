# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The tables that every platform runs: on NumPy, and that nothing is left out of them."""

from __future__ import annotations

from hyper_parallel import custom_ops

from . import test_kl_loss_sharded, test_lightning_indexer, test_mhc_linear, test_mhc_sharded
from .lse_cases import SHARDED_CASES
from .plain_table import check_plain, plain_calls
from .sharded_calls import NUMPY
from .sharded_table import LARGE_MESHES, SMALL_MESHES, rows


def test_every_row_of_the_plain_table():
    calls = dict(plain_calls())
    assert {call.op for call in calls.values()} == set(custom_ops.__all__), "each operator needs rows in plain_table.py"
    for name, call in calls.items():
        try:
            check_plain(call, NUMPY)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


def test_every_sharded_row_is_on_one_of_the_meshes():
    small, large = (dict.fromkeys(name for name, _, _ in rows(meshes)) for meshes in (SMALL_MESHES, LARGE_MESHES))
    tables = (SHARDED_CASES, test_mhc_sharded.POST_CASES, test_mhc_linear.CASES, test_lightning_indexer.CASES)
    of_two_operators = (test_mhc_sharded.PRE_CASES, test_kl_loss_sharded.CASES)
    assert len(small) + len(large) == sum(map(len, tables)) + 2 * sum(map(len, of_two_operators))
    assert min(len(small), len(large)) > 20
