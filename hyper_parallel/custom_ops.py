# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The public operators: `hyper_parallel.custom_ops.<op>(...)`, for plain tensors and DTensors."""

from __future__ import annotations

from difflib import get_close_matches
from typing import NoReturn

from hyper_parallel.generated import *  # noqa: F403 - the operators are whatever the library holds
from hyper_parallel.generated import __all__ as __all__  # noqa: PLC0414


def __getattr__(name: str) -> NoReturn:
    close = get_close_matches(name, __all__, n=1)
    meant = f" Did you mean {close[0]}?" if close else f" There are {', '.join(__all__)}."
    raise AttributeError(f"The library has no operator {name!r}.{meant}")
