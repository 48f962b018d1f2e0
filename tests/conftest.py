# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A process has one platform, chosen at import: tests/torch and tests/mindspore need runs of their own.

So have the tests of compiled kernels, in the folders `native_kernels`, `st` (make test-native), `sanitizers` (make
test-sanitizers) and `ascend` (make test-ascend): all others run on the references, with which they compare bit for bit.
"""

from __future__ import annotations

import os
import tempfile

import pytest

os.environ.setdefault("HYPER_PARALLEL_PLATFORM", "numpy")

os.environ.setdefault("HYPER_PARALLEL_KERNELS", "reference")
IS_NATIVE = os.environ["HYPER_PARALLEL_KERNELS"] == "native"

collect_ignore = [folder for folder in ("torch", "mindspore") if os.environ["HYPER_PARALLEL_PLATFORM"] != folder]
if not IS_NATIVE:
    collect_ignore += [
        "ascend",
        "native_kernels",
        "sanitizers",
        "torch/native_kernels",
        "mindspore/native_kernels",
        "mindspore/st",
    ]


def pytest_configure(config: pytest.Config) -> None:
    """Nobody's cache is used or filled: the runs share one that goes with them. Compiled kernels stay where they are."""
    if IS_NATIVE:
        return
    folder = tempfile.TemporaryDirectory(prefix="hpgen-cache-")
    config.add_cleanup(folder.cleanup)
    os.environ["HPGEN_CACHE_DIR"] = folder.name
