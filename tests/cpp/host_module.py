# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The committed C++ of every operator as one Python module for NumPy arrays, and arguments to call it with."""

from __future__ import annotations

import functools
import importlib.util
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
NAME = "checked_operators"
_KEPT: list[tempfile.TemporaryDirectory[str]] = []


@functools.cache
def host_module() -> ModuleType:
    """Compile csrc/host with every operator, once for all tests. RuntimeError with the compiler's output if it fails."""
    import pybind11

    keep = tempfile.TemporaryDirectory(prefix="host-module-")
    _KEPT.append(keep)
    unit = Path(keep.name) / "unity.cc"
    sources = [*sorted((ROOT / "generated").glob("*/*.cc")), ROOT / "csrc" / "module.cc"]
    unit.write_text("".join(f'#include "{path}"\n' for path in sources))
    library = unit.with_name(f"{NAME}{sysconfig.get_config_var('EXT_SUFFIX')}")
    includes = [ROOT / "csrc" / "host", ROOT, Path(pybind11.get_include()), Path(sysconfig.get_path("include"))]
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden"]
    command = ["g++", *flags, f"-DMS_EXTENSION_NAME={NAME}", *(f"-I{path}" for path in includes)]
    done = subprocess.run([*command, str(unit), "-o", str(library)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    found = importlib.util.spec_from_file_location(NAME, library)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[NAME] = module
    found.loader.exec_module(module)
    return module


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def value_of(description: str) -> Any:
    """An argument from the words of recording/module.h; a tensor holds zeros."""
    kind, _, rest = description.partition(":")
    match kind:
        case "tensor":
            dtype, _, extents = rest.partition(":")
            return np.zeros([int(extent) for extent in extents.split(",") if extent], dtype_of(dtype))
        case "none":
            return None
        case "lengths":
            return [int(end) for end in rest.split(",") if end]
        case "bool":
            return rest == "true"
        case "str":
            return rest
        case _:
            return {"int": int, "float": float}[kind](rest)
