# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The elementwise reduction of the ranks' arrays, on platforms that bring them all to one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def reduce_arrays(parts: Sequence[Any], op: str) -> Any:
    """Return the sum, avg, max or min of arrays of one shape and dtype, taken in their order, in that dtype."""
    dtype = parts[0].dtype
    # 16-bit floats are summed in float32.
    wide = np.dtype(np.float32) if dtype.itemsize == 2 and dtype.kind in "fV" else dtype
    total = parts[0].astype(wide)
    for part in parts[1:]:
        if op in ("sum", "avg"):
            total = total + part.astype(wide)
        else:
            total = (np.maximum if op == "max" else np.minimum)(total, part.astype(wide))
    if op == "avg":
        total = total / np.asarray(len(parts), wide)
    return np.asarray(total).astype(dtype)
