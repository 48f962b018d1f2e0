# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Places along a dim of tensors, for `Platform.take`."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import numpy.typing as npt


class Index:
    """Places along a dim, int64. Who takes by the same index again uploads it once for each device."""

    __slots__ = ("_tensors", "places")

    def __init__(self, places: npt.NDArray[np.int64]) -> None:
        self.places = places
        self._tensors: dict[Hashable, Any] = {}

    def tensor(self, device: Hashable, made: Callable[[npt.NDArray[np.int64]], Any], kept: type) -> Any:
        """Return the framework's tensor of the places, which `made` gives.

        Args:
            kept: The type of a tensor that has values. What a trace has in its place is not kept.
        """
        found = self._tensors.get(device)
        if found is None:
            found = made(self.places)
            if type(found) is kept:
                self._tensors[device] = found
        return found
