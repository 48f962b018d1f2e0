# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Packages lie in several top-level folders, which pyproject.toml cannot search: found here, so that a new operator is
part of the next wheel without being listed anywhere."""

from pathlib import Path

from setuptools import setup

ROOTS = {
    "hpgen": "codegen",
    "hpgen.csrc": "csrc",
    "hpgen.templates": "templates",
    "hyper_parallel": "hyper_parallel",
    "hyper_parallel.generated": "generated",
    "hyper_parallel.reference": "specs/reference",
}


def packages() -> list[str]:
    """Every folder with an __init__.py below the roots, as a dotted name."""
    found = []
    for package, folder in ROOTS.items():
        for init in sorted(Path(folder).rglob("__init__.py")):
            found.append(".".join((package, *init.parent.relative_to(folder).parts)))
    return found


setup(packages=packages(), package_dir=ROOTS)
