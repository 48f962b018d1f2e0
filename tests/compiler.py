# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The C++ compiler that some tests need. `.ci/run` installs it, so that these tests are never skipped there."""

from __future__ import annotations

import shutil

import pytest

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
