# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Packages found without importing them, and folders imported as packages that are on no path."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import threading
from importlib.machinery import ModuleSpec
from pathlib import Path

_lock = threading.RLock()


def folder_of_package(package: str) -> Path | None:
    """The folder of an importable package; None if there is none.

    None of its code is run, nor that of the packages around it, unless they alone know where it lies.
    """
    top, *rest = package.split(".")
    for location in _locations(top):
        folder = Path(location, *rest)
        if folder.is_dir():
            return folder
    if rest:
        # Editable installs and mapped packages: a parent's finder, or its __path__, leads elsewhere.
        return next((Path(location) for location in _locations(package) if Path(location).is_dir()), None)
    return None


def _locations(package: str) -> list[str]:
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return []
    return list(spec.submodule_search_locations or ()) if spec else []


def package_of_folder(folder: Path) -> str:
    """The name under which the modules of a folder are imported.

    That is its own name where it lies on `sys.path`, so that nothing is imported twice; else one made for it.
    """
    own = _own_name(folder)
    if own and (found := folder_of_package(own)) is not None and found.resolve() == folder.resolve():
        return own
    name = f"hyper_parallel_ops_{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]}"
    with _lock:
        if name not in sys.modules:
            _import_folder(name, folder)
    return name


def _own_name(folder: Path) -> str:
    """The dotted name below the folder on `sys.path` that the outermost package lies in; empty if there is none."""
    parts: list[str] = []
    where = folder.resolve()
    while (where / "__init__.py").is_file() and where.parent != where:
        parts.insert(0, where.name)
        where = where.parent
    on_path = any(Path(entry or ".").resolve() == where for entry in sys.path)
    return ".".join(parts) if on_path else ""


def _import_folder(name: str, folder: Path) -> None:
    init = folder / "__init__.py"
    spec: ModuleSpec | None
    if init.is_file():
        spec = importlib.util.spec_from_file_location(name, init, submodule_search_locations=[str(folder)])
    else:
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if spec.loader is None:
        return
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
