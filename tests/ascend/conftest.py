# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Every test ends without a fault of the device. These tests run under `python -m tests.ascend.toolkit`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import mindspore as ms
import pytest
from mindspore.graph.api import _pynative_executor

from tests.ascend.device import FakeDevice
from tests.native_kernels.no_reference import forbid_references

# The framework as the tables of all platforms see it.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mindspore"))
forbid_references()


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is compiled with sanitizers takes minutes: beside the first tests."""
    if any(item.path.name == "test_sanitized.py" for item in session.items):
        command = [sys.executable, "-m", "tests.ascend.toolkit", "--sanitize", "true"]
        started = subprocess.Popen(command, cwd=Path(__file__).resolve().parents[2], start_new_session=True)

        def end() -> None:
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
            started.wait()

        session.config.add_cleanup(end)


@pytest.fixture(autouse=True)
def device() -> Iterator[FakeDevice]:
    """The fake device, without faults before and after; who expects one takes it."""
    assert ms.get_context("device_target") == "Ascend"
    found = FakeDevice()
    found.take_faults()
    yield found
    _pynative_executor.clear_res()  # after a failure, MindSpore would go on recording
    assert found.take_faults() == []
