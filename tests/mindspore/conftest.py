# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""MindSpore after a failure: a test that lets a differentiated function fail should not disturb the next one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mindspore.graph.api import _pynative_executor


@pytest.fixture(autouse=True)
def _recording_ends() -> Iterator[None]:
    yield
    # MindSpore would go on recording, and then refuses to index tensors.
    _pynative_executor.clear_res()
