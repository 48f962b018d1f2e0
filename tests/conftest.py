# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A process has one platform, chosen at import: the tests in tests/torch need a run of their own."""

from __future__ import annotations

import os

os.environ.setdefault("HYPER_PARALLEL_PLATFORM", "numpy")

collect_ignore = [] if os.environ["HYPER_PARALLEL_PLATFORM"] == "torch" else ["torch"]
