# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The operator library on disk: its index `build.json`, the references and the autograd functions it names."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from typing import Any

PACKAGE = "hyper_parallel.generated"
REFERENCES = "hyper_parallel.reference"


@dataclass(frozen=True)
class OperatorEntry:
    """What `build.json` says of one operator.

    Attributes:
        op: The operator's name.
        dfunction: The name of its autograd function's class.
        reference: `module:function` of its NumPy reference.
        backward_reference: The same for its backward kernel; empty if it has none.
        outputs: How many outputs it has.
        sources: C++ sources in the library, with their content hashes.
        cpu_headers: Headers of its host kernels.
    """

    op: str
    dfunction: str
    reference: str
    backward_reference: str
    outputs: int
    sources: dict[str, str]
    cpu_headers: tuple[str, ...]

    def load_dfunction(self) -> type:
        """The operator's autograd function."""
        return getattr(importlib.import_module(f"{PACKAGE}.{self.op}.dfunction"), self.dfunction)  # type: ignore[no-any-return]


@functools.cache
def operators() -> dict[str, OperatorEntry]:
    """Every operator of the library by name."""
    content = json.loads(resources.files(PACKAGE).joinpath("build.json").read_text(encoding="utf-8"))
    return {
        op: OperatorEntry(
            op=op,
            dfunction=body["dfunction"],
            reference=body["reference"],
            backward_reference=body.get("backward_reference", ""),
            outputs=body["outputs"],
            sources=body["sources"],
            cpu_headers=tuple(body["cpu_headers"]),
        )
        for op, body in content["operators"].items()
    }


def operator(op: str) -> OperatorEntry:
    """The entry of one operator. LookupError with the known names if the library has none of that name."""
    entry = operators().get(op)
    if entry is None:
        known = ", ".join(sorted(operators()))
        raise LookupError(f"The operator library has no {op!r}; it has {known}.")
    return entry


def reference(kernel: str) -> Callable[..., tuple[Any, ...]]:
    """The NumPy function for a kernel: an operator's name, or that name with `_backward` behind it.

    Raises:
        LookupError: If the library has no such kernel.
    """
    op = kernel.removesuffix("_backward")
    backward = kernel != op and kernel not in operators()
    entry = operator(op if backward else kernel)
    path = entry.backward_reference if backward else entry.reference
    if not path:
        raise LookupError(f"The operator {op!r} has no backward kernel.")
    module, function = path.split(":")
    try:
        found = getattr(importlib.import_module(f"{REFERENCES}.{module}"), function)
    except ModuleNotFoundError as error:
        if error.name != f"{REFERENCES}.{module}":
            raise
        raise LookupError(
            f"The reference {path!r} of {op!r} has no module: there is no {REFERENCES}.{module}."
        ) from None
    except AttributeError:
        raise LookupError(f"The reference {path!r} of {op!r} has no function {function!r} in its module.") from None
    return _checked(found, kernel, path, None if backward else entry.outputs)


def _checked(found: Callable[..., Any], kernel: str, path: str, outputs: int | None) -> Callable[..., tuple[Any, ...]]:
    """A reference that is called as the spec says, or an error that says how it is written."""

    def reference_kernel(*args: Any) -> tuple[Any, ...]:
        try:
            made = found(*args)
        except TypeError:
            _check_signature(found, args, f"The reference {path!r} of {kernel!r}")
            raise
        result = made if isinstance(made, tuple) else (made,)
        if outputs is not None and len(result) != outputs:
            raise ValueError(
                f"The reference {path!r} of {kernel!r} should return {outputs} outputs, not {len(result)}."
            )
        return result

    return reference_kernel


def _check_signature(function: Callable[..., Any], args: tuple[Any, ...], name: str) -> None:
    """Raise a clear error if a function cannot be called with so many arguments."""
    try:
        inspect.signature(function).bind(*args)
    except TypeError as error:
        wanted = f"should take the kernel's {len(args)} arguments by position"
        raise TypeError(f"{name} {wanted}, but {error}.") from None


def dfunction(name: str) -> type:
    """The autograd function class of that name. AttributeError if the library has none."""
    for entry in operators().values():
        if entry.dfunction == name:
            return entry.load_dfunction()
    raise AttributeError(f"The operator library has no autograd function {name!r}.")
