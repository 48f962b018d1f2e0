# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What a reference has returned, against what the spec says of the outputs: number, shapes and dtypes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..spec.model import FLOATING, Output, Spec, TensorArgument
from .evaluate import evaluate
from .subject import KernelError


def by_name(spec: Spec, form: str, made: Sequence[Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs by name, hidden ones too.

    Args:
        names: The extents, and the arguments that are no tensors, with their values.

    Raises:
        KernelError: They are not what the spec says.
    """
    if len(made) != len(spec.outputs):
        names_of_all = ", ".join(item.name for item in spec.outputs)
        count = len(spec.outputs)
        raise KernelError(f"the reference should return {count} outputs, {names_of_all}, but returned {len(made)}")
    for item, array in zip(spec.outputs, made, strict=True):
        check(spec, form, item, array, names)
    return {item.name: np.asarray(array) for item, array in zip(spec.outputs, made, strict=True)}


def check(spec: Spec, form: str, item: Output, array: Any, names: Mapping[str, Any]) -> None:
    if not isinstance(array, np.ndarray | np.generic):
        raise KernelError(f"the reference should return NumPy arrays, but {item.name} is a {type(array).__name__}")
    expected = shape_of_output(item, form, names)
    if expected is not None and array.shape != expected:
        dims = " ".join(dim.compact for dim in item.dims.per_format[form])
        raise KernelError(f"the reference returns {item.name} with shape {array.shape}, but {dims} is {expected}")
    declared = declared_dtype(spec, item, names)
    is_floating = declared in FLOATING
    if (array.dtype.kind == "f") is not is_floating or (not is_floating and array.dtype != declared):
        raise KernelError(f"the reference returns {item.name} in {array.dtype}, but the spec says {declared}")
    if is_floating and np.isnan(array).any():
        raise KernelError(f"the reference returns NaN in {item.name}, which equals nothing")
    is_chosen = declared != item.dtype and item.dtype in names  # by an attribute, so that it has to be rounded
    if is_floating and not is_chosen and array.dtype.itemsize < np.dtype(np.float32).itemsize:
        raise KernelError(
            f"the reference rounds {item.name} to {array.dtype} though its inputs are in float64: mistakes cannot be "
            "told from roundings; return it in the precision of the inputs"
        )


def shape_of_output(item: Output, form: str, names: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The shape that the spec gives; None if it has `...`, or a dim that only absent tensors tell."""
    dims = item.dims.per_format[form]
    if any(dim.is_rest for dim in dims):
        return None
    try:
        return tuple(int(evaluate(dim.expression, names)) for dim in dims)
    except (KeyError, TypeError):
        return None


def declared_dtype(spec: Spec, item: Output, names: Mapping[str, Any]) -> str:
    """The output's dtype: its own, the first one of a tensor whose dtype it shares, or what an attribute says."""
    word = item.dtype
    while isinstance(argument := spec.by_name.get(word), TensorArgument):
        word = argument.dtypes[0]
    return str(names.get(word, word))
