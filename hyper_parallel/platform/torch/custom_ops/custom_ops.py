# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The class of entry points on torch, as generated."""

from hyper_parallel.generated.platform_torch import TorchCustomOps

__all__ = ["TorchCustomOps"]
