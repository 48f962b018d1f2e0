# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""However long or short the names are and however many there are of them, formatters and linters have nothing to say."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from hpgen.plan import derive_library
from hpgen.render import render_library

from .formatters import clang_format, lint_config, ruff
from .spec_sizes import Size, sizes
from .spec_sweep import build, load


def write_generated(folder: Path, chosen: Iterable[Size]) -> Path:
    """Generate a library for every size below folder/generated/, where the linters know that files are generated."""
    root = folder / "generated"
    for number, size in enumerate(chosen):
        library = derive_library([load(build(size), f"size {number}")], "specs")
        for path, text in render_library(library).items():
            target = root / f"size_{number}" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    lint_config(folder)
    return root


def check(folder: Path, chosen: Iterable[Size]) -> None:
    write_generated(folder, chosen)
    assert ruff("format", "--diff", ".", cwd=folder) == ""
    assert ruff("check", "--output-format", "concise", ".", cwd=folder) == ""
    assert clang_format(folder) == ""


def test_a_sample_of_all_sizes(tmp_path: Path) -> None:
    everything = list(sizes(mixtures=500))
    check(tmp_path, random.Random(1).sample(everything, 300))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_size(tmp_path: Path) -> None:
    check(tmp_path, sizes(mixtures=1000))
