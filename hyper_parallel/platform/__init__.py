# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What differs between frameworks, behind one interface: ``get_platform()`` returns the one in use."""

from __future__ import annotations

from hyper_parallel.platform.platform import Platform
from hyper_parallel.platform.selection import get_platform

__all__ = ["Platform", "get_platform"]
