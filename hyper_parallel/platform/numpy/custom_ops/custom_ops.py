# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The class of entry points on NumPy, as generated."""

from hyper_parallel.generated.platform_numpy import NumpyCustomOps

__all__ = ["NumpyCustomOps"]
