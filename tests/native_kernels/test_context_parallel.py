# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Sequences that virtual ranks share, with compiled kernels, against the unsharded oracle."""

from __future__ import annotations

import pytest

from tests.operators.sequence_calls import check_on_virtual_ranks
from tests.operators.sequence_table import rows
from tests.operators.sharded_table import LARGE_MESHES, SMALL_MESHES


@pytest.mark.parametrize("meshes", [SMALL_MESHES, LARGE_MESHES], ids=str)
def test_every_row(meshes):
    for case in rows(meshes):
        check_on_virtual_ranks(case)
