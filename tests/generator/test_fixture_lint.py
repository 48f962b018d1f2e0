# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What is generated for the fixture operators satisfies formatters, linters and the type checker as it stands."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.library import fixture_library

from .spec_texts import ROOT


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generated files where the repository's configuration expects them."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(fixture_library().generated, folder / "generated")
    for name in ("pyproject.toml", ".clang-format"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def passes(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def tool(name: str) -> str:
    if importlib.util.find_spec(name.replace("-", "_")) is None:
        pytest.skip(f"{name} is not installed")
    return str(Path(sys.executable).parent / name)


@pytest.mark.parametrize("arguments", [("format", "--check", "--diff", "--no-cache"), ("check", "--no-cache")])
def test_ruff(project: Path, arguments: tuple[str, ...]) -> None:
    passes(project, tool("ruff"), *arguments, "generated")


def test_clang_format(project: Path) -> None:
    sources = [str(path) for path in sorted((project / "generated").glob("*/*.cc"))]
    assert sources
    passes(project, tool("clang-format"), "--dry-run", "-Werror", *sources)


@pytest.mark.slow
def test_mypy(project: Path) -> None:
    shutil.copytree(ROOT / "hyper_parallel", project / "hyper_parallel", dirs_exist_ok=True)
    passes(project, tool("mypy"), "--cache-dir", str(project / "cache"), "--follow-imports", "silent", "generated")
