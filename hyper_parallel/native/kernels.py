# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Where the kernels of a process come from, and the modules that have them."""

from __future__ import annotations

import importlib.util
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from hyper_parallel import library
from hyper_parallel.native.errors import REFERENCE_INSTEAD, EnvironmentFault, KernelBuildError
from hyper_parallel.native.flavours import Flavour
from hyper_parallel.native.library_cache import NativeLibrary, native_library
from hyper_parallel.native.translation_unit import unit_of
from hyper_parallel.op_libraries import OperatorLibrary

_MODULES: dict[tuple[OperatorLibrary, Flavour], ModuleType] = {}
_lock = threading.Lock()


def native_kernel(kernel: str, flavour: Flavour) -> Callable[..., tuple[Any, ...]]:
    """The compiled function of a kernel: an operator's name, or that name with `_backward` behind it.

    Compiles the library of the operator if that has not been done, which takes a minute.

    Raises:
        LookupError: If no library has such a kernel.
        KernelBuildError: If it cannot be compiled or loaded.
    """
    entry = library.entry_of_kernel(kernel)
    if flavour.is_host and not entry.cpu_headers:  # before a minute is spent on compiling others
        raise KernelBuildError(
            f"{kernel} has no kernel for the CPU, only one for Ascend: name one in its spec (kernel: cpu:), or "
            f"{REFERENCE_INSTEAD}"
        )
    module = native_module(entry.library, flavour)
    found: Callable[..., tuple[Any, ...]] | None = getattr(module, kernel, None)
    if found is None:
        raise LookupError(
            f"The operator {entry.op!r} has no kernel {kernel!r} in C++; it has {', '.join(entry.sources)}."
        )
    return found


def native_module(of_library: OperatorLibrary, flavour: Flavour) -> ModuleType:
    """The module with all kernels of an operator library, compiled if need be; one object per process."""
    with _lock:
        found = _MODULES.get((of_library, flavour))
        if found is None:
            found = _MODULES[of_library, flavour] = _loaded(native_library(unit_of(of_library), flavour))
        return found


def _loaded(native: NativeLibrary) -> ModuleType:
    found = native.find()
    if found:
        try:
            return _imported(native.module, str(found))
        except ImportError as error:  # made on another machine, or for another build of the framework
            print(f"hyper_parallel: compiled again, since it cannot be loaded: {error}", file=sys.stderr, flush=True)
    path = _built(native)
    try:
        return _imported(native.module, str(path))
    except ImportError as error:
        message = f"the kernels have been compiled but cannot be loaded: {error}; {REFERENCE_INSTEAD}"
        raise KernelBuildError(message) from error


def _built(native: NativeLibrary) -> Path:
    started = time.monotonic()
    try:
        path = native.build(again=True)
    except EnvironmentFault:
        others = native.find_of_others()  # from an image, say, whose compiler was another one
        if others is None:
            raise
        return others
    print(f"hyper_parallel: compiled in {time.monotonic() - started:.0f} s: {path}", file=sys.stderr, flush=True)
    return path


def _imported(name: str, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
