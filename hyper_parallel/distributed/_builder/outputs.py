# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The outputs of a forward by the order, or the names, of a contract."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, TypeVar

Declared = TypeVar("Declared")


def map_outputs(
    where: str,
    result: Any,
    contract: Mapping[str, Declared | None],
    change: Callable[[str, Declared, Any], Any],
) -> Any:
    """Return what a forward has returned with every declared output changed. None stays.

    A tuple or list goes by the order of the contract's names, a mapping by the names; anything else is one output.

    Raises:
        ValueError: as many outputs as names are not there, or not of these names; the message begins with ``where``.
    """

    def changed(name: str, value: Any) -> Any:
        declared = contract[name]
        return value if declared is None or value is None else change(name, declared, value)

    if isinstance(result, MutableMapping):
        missing = [name for name in contract if name not in result]
        if missing:
            raise ValueError(f"{where}, out_src declares {missing}, but the forward returned {sorted(result)}")
        named = copy.copy(result)
        for name in contract:
            named[name] = changed(name, result[name])
        return named
    several = isinstance(result, tuple | list)
    values = list(result) if several else [result]
    if len(values) != len(contract):
        raise ValueError(
            f"{where}, out_src declares {len(contract)} outputs ({', '.join(contract)}), but the forward returned "
            f"{len(values)}; an output of which nothing is declared is named with None"
        )
    items = [changed(name, value) for name, value in zip(contract, values, strict=True)]
    if not several:
        return items[0]
    return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
