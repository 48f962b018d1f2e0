# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Where the generator's own files lie: `importlib.resources` would take longer to import than they take to read."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

CODE = Path(__file__).parent
LIBRARIES = ("jinja2", "markupsafe", "yaml", "jsonschema_rs")
"""The packages by others that decide what is generated."""


def templates() -> Path:
    """The folder of the templates, which is a package of its own."""
    return folder_of(f"{__package__}.templates")


def folder_of(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"{package} is not installed")
    return Path(spec.submodule_search_locations[0])


def package_files() -> Iterator[Path]:
    """The generator's code, its schema and its templates."""
    for folder in (CODE, templates()):
        found = (path for path in folder.rglob("*") if path.suffix in (".py", ".json", ".j2"))
        yield from sorted(path for path in found if path.is_file())


def library_files() -> Iterator[Path]:
    """The code of the libraries in use."""
    for library in LIBRARIES:
        found = (path for path in folder_of(library).iterdir() if path.suffix in (".py", ".so", ".pyd"))
        yield from sorted(path for path in found if path.is_file())
