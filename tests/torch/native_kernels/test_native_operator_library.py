# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The kernel that an installed library brings, on torch ranks."""

from __future__ import annotations

import os

import library_on_torch
import pytest
from ranks import run_gloo_ranks

from tests.native_kernels.no_reference import forbid_references
from tests.operator_library import install


def check_ranks():
    forbid_references()
    return library_on_torch.check_ranks()


def test_two_ranks(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    assert run_gloo_ranks(check_ranks, 2) == [True, True]
