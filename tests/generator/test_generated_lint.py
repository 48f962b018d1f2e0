# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Generated files pass the repository's formatters, linters and type checker as they stand: generated/ and golden trees."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from ..golden.update import case_folders
from .formatters import clang_format, ruff, tool
from .spec_texts import ROOT

GOLDEN = [path.joinpath("expected").relative_to(ROOT).as_posix() for path in case_folders()]
TREES = ["generated", *GOLDEN]


def test_ruff_would_change_no_line() -> None:
    assert ruff("format", "--diff", *TREES, cwd=ROOT) == ""


def test_ruff_finds_nothing() -> None:
    assert ruff("check", "--output-format", "concise", *TREES, cwd=ROOT) == ""


def test_clang_format_would_change_no_line() -> None:
    assert clang_format(ROOT, *TREES) == ""


@pytest.mark.slow
def test_the_types_are_right() -> None:
    tool("mypy")
    command = [sys.executable, "-m", "mypy", "--no-incremental", *TREES]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_every_file_is_python_3_10() -> None:
    """The oldest Python that the project supports reads what is generated."""
    files = [path for tree in TREES for path in sorted((ROOT / tree).rglob("*.py"))]
    assert files
    for path in files:
        ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 10))
