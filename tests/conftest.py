# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A process has one platform, chosen at import: tests/torch and tests/mindspore need runs of their own."""

from __future__ import annotations

import os
import tempfile

import pytest

os.environ.setdefault("HYPER_PARALLEL_PLATFORM", "numpy")

collect_ignore = [folder for folder in ("torch", "mindspore") if os.environ["HYPER_PARALLEL_PLATFORM"] != folder]


def pytest_configure(config: pytest.Config) -> None:
    """Nobody's cache is used or filled: the runs share one that goes with them."""
    folder = tempfile.TemporaryDirectory(prefix="hpgen-cache-")
    config.add_cleanup(folder.cleanup)
    os.environ["HPGEN_CACHE_DIR"] = folder.name
