# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A plugin for pytest: every test runs on each of the instruction sets that the variable INSTRUCTION_SETS lists.

For tests that run kernels in processes of their own; one process keeps the set of its first call.
"""

from __future__ import annotations

import os

import pytest

from .sanitized import INSTRUCTION_SETS


@pytest.fixture(autouse=True, params=os.environ[INSTRUCTION_SETS].split())
def instruction_set(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPER_PARALLEL_CPU_INSTRUCTIONS", request.param)
