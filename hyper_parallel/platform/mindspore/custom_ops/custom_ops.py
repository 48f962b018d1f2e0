# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The class of entry points on MindSpore, as generated."""

from hyper_parallel.generated.platform_mindspore import MindSporeCustomOps

__all__ = ["MindSporeCustomOps"]
