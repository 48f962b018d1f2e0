# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What follows from a checked spec, worked out once for all templates."""

from .derive import derive_library, derive_operator
from .operator import LibraryPlan, OperatorPlan, Parameter

__all__ = [
    "LibraryPlan",
    "OperatorPlan",
    "Parameter",
    "derive_library",
    "derive_operator",
]
