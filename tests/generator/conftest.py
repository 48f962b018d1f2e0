# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What the tests of writing share: one process that has hpgen loaded, one folder of projects."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .writing_cases import Project
from .writing_process import Forks


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    process = Forks()
    yield process
    process.close()


@pytest.fixture(scope="session")
def between_libraries(tmp_path_factory: pytest.TempPathFactory, forks: Forks) -> Project:
    return Project(tmp_path_factory.mktemp("writing"), forks)


@pytest.fixture
def between(between_libraries: Project) -> Project:
    """An output folder as the old specs give it, with the new specs beside."""
    between_libraries.become(between_libraries.old)
    return between_libraries
