# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Every test ends without a fault of the device. These tests run under `python -m tests.ascend.toolkit`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import mindspore as ms
import pytest
from mindspore.graph.api import _pynative_executor

from tests.ascend.device import FakeDevice
from tests.native_kernels.no_reference import forbid_references

# The framework as the tables of all platforms see it.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mindspore"))
forbid_references()


OWN_PROCESSES = ("test_docs.py", "test_faults.py", "test_sanitized.py")
"""Tests that only start processes. They come first: once this one has used the device, MindSpore's threads keep a
processor busy in it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in OWN_PROCESSES)


@pytest.fixture(autouse=True)
def device(request: pytest.FixtureRequest) -> Iterator[FakeDevice | None]:
    """The fake device, without faults before and after; who expects one takes it."""
    if request.path.name in OWN_PROCESSES:
        yield None
        return
    assert ms.get_context("device_target") == "Ascend"
    found = FakeDevice()
    found.take_faults()
    yield found
    _pynative_executor.clear_res()  # after a failure, MindSpore would go on recording
    assert found.take_faults() == []
