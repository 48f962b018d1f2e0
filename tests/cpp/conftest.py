# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Binaries that the tests of several files run: compiled once."""

from __future__ import annotations

import pytest
from mhc_kernels import compile_kernels
from recorder import Recorder


@pytest.fixture(scope="session")
def mhc_kernels(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    return compile_kernels(tmp_path_factory.mktemp("mhc"))
