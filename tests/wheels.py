# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Wheels as users get them, and empty environments to install them in."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def build_wheel(source: Path, folder: Path) -> Path:
    """Build the distribution in `source` and return the wheel in `folder`."""
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


@functools.cache
def hpgen_wheel() -> Path:
    """The wheel of this repository, built once per session."""
    keep = tempfile.TemporaryDirectory(prefix="wheel-")
    _KEPT.append(keep)
    return build_wheel(ROOT, Path(keep.name))


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


def empty_environment(folder: Path) -> Path:
    """A virtual environment that has nothing but pip; returns its folder of programs."""
    venv.create(folder, with_pip=True)
    return folder / "bin"


def outside_variables() -> dict[str, str]:
    """The environment without what would lead Python, or the runtime, to this repository."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "HYPER_PARALLEL"))}
