# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What the tests of writing share: one process that has hpgen loaded, one folder of projects."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .writing_cases import Project
from .writing_process import Forks


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    process = Forks()
    yield process
    process.close()


@pytest.fixture(scope="session")
def between_libraries(forks: Forks) -> Iterator[Project]:
    # In memory where there is such a place: a kill leaves the same files there, and syncing them takes no time.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Project(Path(folder), forks)


@pytest.fixture
def between(between_libraries: Project) -> Project:
    """An output folder as the old specs give it, with the new specs beside."""
    between_libraries.become(between_libraries.old)
    return between_libraries
