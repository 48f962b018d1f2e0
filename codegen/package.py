# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Where the generator's own files lie: `importlib.resources` would take longer to import than they take to read."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

CODE = Path(__file__).parent


def templates() -> Path:
    """The folder of the templates, which is a package of its own."""
    spec = find_spec(f"{__package__}.templates")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"{__package__}.templates is not installed")
    return Path(spec.submodule_search_locations[0])


def package_files() -> Iterator[Path]:
    """The generator's code, its schema and its templates."""
    for folder in (CODE, templates()):
        yield from sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".json", ".j2"))
