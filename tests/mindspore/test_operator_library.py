# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""An operator of an installed library on MindSpore ranks: forward and gradient."""

from __future__ import annotations

import os

import pytest
from library_on_mindspore import check_ranks
from ranks import run_mccl_ranks

from tests.operator_library import install


def test_two_ranks(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path)
    monkeypatch.setenv("HYPER_PARALLEL_KERNELS", "reference")  # the compiled kernel has tests of its own
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    assert run_mccl_ranks(check_ranks, 2) == [True, True]
