# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The operator library on disk: its index `build.json`, the references and the autograd functions it names."""

from __future__ import annotations

import functools
import importlib
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
        outputs: How many outputs it has.
        sources: C++ sources in the library, with their content hashes.
        cpu_headers: Headers of its host kernels.
    """

    op: str
    dfunction: str
    reference: str
    outputs: int
    sources: dict[str, str]
    cpu_headers: tuple[str, ...]

    def load_reference(self) -> Callable[..., Any]:
        """The NumPy function that computes the operator from its arguments in API order."""
        module, function = self.reference.split(":")
        return getattr(importlib.import_module(f"{REFERENCES}.{module}"), function)  # type: ignore[no-any-return]

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


def dfunction(name: str) -> type:
    """The autograd function class of that name. AttributeError if the library has none."""
    for entry in operators().values():
        if entry.dfunction == name:
            return entry.load_dfunction()
    raise AttributeError(f"The operator library has no autograd function {name!r}.")
