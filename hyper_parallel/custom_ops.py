# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The public operators: `hyper_parallel.custom_ops.<op>(...)`, for plain tensors and DTensors."""

from __future__ import annotations

from hyper_parallel.generated import *  # noqa: F403 - the operators are whatever the library holds
from hyper_parallel.generated import __all__ as __all__  # noqa: PLC0414
