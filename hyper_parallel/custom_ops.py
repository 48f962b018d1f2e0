# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The public operators: `hyper_parallel.custom_ops.<op>(...)`, for plain tensors and DTensors.

The operators are those of the built-in library and of all that are installed or named by the environment. A library is
imported when an operator of it is asked for.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from hyper_parallel import library

if TYPE_CHECKING:
    from hyper_parallel.generated import *  # noqa: F403 - for editors: the built-in operators


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted(library.operators())
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    known = library.catalogue()
    known.check_unique(name)
    if name not in known.operators:
        close = get_close_matches(name, known.operators, n=1)
        meant = f"Did you mean {close[0]}?" if close else f"There are {', '.join(known.operators)}."
        raise AttributeError(" ".join([f"The library has no operator {name!r}. {meant}", *known.faults]))
    function = library.operator(name).load_function()
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    return sorted(library.operators())
