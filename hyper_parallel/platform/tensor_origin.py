# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors of another framework than the process's platform, which would otherwise fail somewhere inside."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from hyper_parallel.platform.selection import PLATFORM_VARIABLE, get_platform

_TENSORS = {
    "torch": {"Tensor"},
    "mindspore": {"Tensor"},
    "numpy": {"ndarray", "generic"},  # what a sum over all elements gives is a generic
}
_FROM_ARRAYS = {
    ("torch", "ndarray"): "torch.from_numpy(...)",
    ("torch", "generic"): "torch.tensor(...)",
    ("mindspore", "ndarray"): "mindspore.from_numpy(...)",
    ("mindspore", "generic"): "mindspore.Tensor(...)",
}


def _is_from_elsewhere(kind: type) -> bool:
    found = _tensor_class(kind)
    return found is not None and found[0] != get_platform().name


is_from_elsewhere: Callable[[Any], bool] = lru_cache(maxsize=1024)(_is_from_elsewhere)
"""Whether a type is that of another framework's tensors. Asked in every call, so the answer is kept."""


def _tensor_class(kind: type) -> tuple[str, str] | None:
    """The framework and the class of a tensor by its type; None for what is no tensor of a framework itself."""
    for base in kind.__mro__:  # by name: the other frameworks need not be installed
        framework = base.__module__.partition(".")[0]
        if base.__name__ in _TENSORS.get(framework, ()):
            return framework, base.__name__
    return None


def what_it_is(value: Any) -> str:
    """Return what a tensor of another framework is and what to do, to be put behind its name in a message.

    Raises:
        ValueError: ``value`` is no tensor of a framework.
    """
    found = _tensor_class(type(value))
    if found is None:
        raise ValueError(f"expected a tensor of a framework, but got {type(value).__name__}")
    framework, name = found
    own = get_platform().name
    if framework == "numpy":
        return f"should be a tensor of {own}, but got a numpy.{name}: {_FROM_ARRAYS[own, name]} makes one"
    return (
        f"is a {framework}.{name}, but this process is on {own}; set {PLATFORM_VARIABLE}={framework} before the first "
        "import of hyper_parallel"
    )
