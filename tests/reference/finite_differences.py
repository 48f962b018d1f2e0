# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients that know nothing of the mathematics: central differences, entry by entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

STEP = 1e-5


def gradient(function: Callable[[Any], float], tensor: Any) -> Any:
    """The gradient of a function of one float64 array at ``tensor``."""
    result = np.zeros_like(tensor)
    for place in np.ndindex(tensor.shape):
        above, below = tensor.copy(), tensor.copy()
        above[place] += STEP
        below[place] -= STEP
        result[place] = (function(above) - function(below)) / (2 * STEP)
    return result


def assert_gradients(function: Callable[..., float], inputs: dict[str, Any], gradients: dict[str, Any]) -> None:
    """Each gradient against the differences of ``function(**inputs)`` in the input of the same name."""
    for name, value in gradients.items():

        def of_one(tensor: Any, name: str = name) -> float:
            return function(**{**inputs, name: tensor})

        assert value.dtype == np.float64
        np.testing.assert_allclose(value, gradient(of_one, inputs[name]), rtol=1e-6, atol=1e-7, err_msg=name)
