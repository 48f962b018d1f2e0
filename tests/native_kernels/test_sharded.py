# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The seven operators on virtual ranks with compiled kernels, against the unsharded oracle."""

from __future__ import annotations

import pytest

from tests.operators.sharded_calls import check_sharded
from tests.operators.sharded_table import LARGE_MESHES, SMALL_MESHES, rows


@pytest.mark.parametrize("meshes", [SMALL_MESHES, LARGE_MESHES], ids=str)
def test_every_row(meshes):
    for name, call, case in rows(meshes):
        try:
            check_sharded(call, case)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error
