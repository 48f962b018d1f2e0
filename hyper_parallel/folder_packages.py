# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Packages found without importing them, and folders imported as packages that are on no path."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path


def folder_of_package(package: str) -> Path | None:
    """The folder of an importable package; None if there is none.

    None of its code is run, nor that of the packages around it, unless they alone know where it lies.
    """
    top, *rest = package.split(".")
    for location in locations(top):
        folder = Path(location, *rest)
        if folder.is_dir():
            return folder
    if rest:
        # Editable installs and mapped packages: a parent's finder, or its __path__, leads elsewhere.
        return next((Path(location) for location in locations(package) if Path(location).is_dir()), None)
    return None


def locations(package: str) -> list[str]:
    """The folders in which Python finds a package, after it has imported the packages around it; none without one."""
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
    if "." in folder.resolve().name:  # no name of a module: its own __init__.py is not run then
        return _namespace(folder)
    return f"{_namespace(folder.resolve().parent)}.{folder.resolve().name}"


def _namespace(folder: Path) -> str:
    """A package made of nothing but a folder; what lies in it is imported by Python itself, which knows threads."""
    where = str(folder.resolve())
    name = f"hyper_parallel_ops_{hashlib.sha256(where.encode()).hexdigest()[:16]}"
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [where]
    sys.modules.setdefault(name, importlib.util.module_from_spec(spec))
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
