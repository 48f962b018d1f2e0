# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Define the torch.library operators of generated files: python -m tests.fuzz.torch_operators FOLDER OP...

For each one whose file does not import, or whose schema says something else than its public function, there is a line
with the file and what is wrong.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import types
from pathlib import Path
from typing import Any

PACKAGE = "drawn"
"""Stands for the folder: an operator may have the name of any module."""


def main(folder: str, *operators: str) -> None:
    os.environ["HYPER_PARALLEL_PLATFORM"] = "torch"
    package: Any = types.ModuleType(PACKAGE)
    package.__path__ = [str(Path(folder) / "generated")]
    sys.modules[PACKAGE] = package
    for op in operators:
        path = f"generated/{op}/{op}/torch_library.py"
        try:
            importlib.import_module(f"{PACKAGE}.{op}.{op}.torch_library")
            bind = importlib.import_module(f"{PACKAGE}.{op}.{op}.parallel_{op}").bind_arguments
        except ModuleNotFoundError as error:
            if error.name == f"{PACKAGE}.{op}.{op}.torch_library":
                continue  # a layout rule alone
            print(f"{path}: {error!r}")
        except Exception as error:  # whatever it is, it is a finding
            print(f"{path}: {error!r}")
        else:
            for fault in faults(op, inspect.signature(bind).parameters):
                print(f"{path}: {fault}")


def faults(op: str, parameters: Any) -> list[str]:
    """Arguments of the schema that differ in name, order or default from those of the operator."""
    import torch

    schema = getattr(torch.ops.hyper_parallel, op).default._schema
    found = []
    if [argument.name for argument in schema.arguments] != list(parameters):
        found.append(f"arguments {[argument.name for argument in schema.arguments]}")
    for argument, parameter in zip(schema.arguments, parameters.values(), strict=False):
        required = parameter.default is parameter.empty
        if required == argument.has_default_value():
            found.append(f"{argument.name} is required in one of schema and function")
        given, expected = argument.default_value, parameter.default
        expected = list(expected) if isinstance(expected, tuple) else expected
        if not required and given not in (None, expected):
            found.append(f"{argument.name} has the default {given!r}, not {expected!r}")
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
