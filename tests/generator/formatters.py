# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The formatters and linters that generated code must please, run with the repository's own configuration."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .spec_texts import ROOT


def tool(name: str) -> str:
    """The path of a tool, beside this interpreter or anywhere; the test is skipped if there is none."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: pip install 'hpgen[dev]'")
    return found


def lint_config(folder: Path) -> None:
    """Make `folder` a project with the repository's settings."""
    for name in ("pyproject.toml", ".clang-format"):
        shutil.copy(ROOT / name, folder / name)


def ruff(command: str, *arguments: str, cwd: Path) -> str:
    """What ruff complains about; empty if it does not."""
    run = subprocess.run(
        [tool("ruff"), command, "--no-cache", *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )
    return "" if run.returncode == 0 else run.stdout + run.stderr


def clang_format(folder: Path, *roots: str) -> str:
    """What clang-format complains about in the .cc files below a folder; empty if it does not."""
    files = [path for root in roots or (".",) for path in sorted((folder / root).rglob("*.cc"))]
    assert files, f"no .cc file below {folder}"
    command = [tool("clang-format"), "--dry-run", "-Werror", *map(str, files)]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return "" if run.returncode == 0 else run.stderr
