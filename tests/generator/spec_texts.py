# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Specs for the generator's tests: the real ones, copied and edited."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPECS = ROOT / "specs"
LSE = "npu_dense_lightning_indexer_softmax_lse"


def lse_text(*edits: tuple[str, str]) -> str:
    """The spec of the softmax-LSE operator with texts replaced; each must occur."""
    text = (SPECS / f"{LSE}.yaml").read_text()
    for old, new in edits:
        assert old in text, f"{old!r} is not in the spec: the test edits something that has changed"
        text = text.replace(old, new)
    return text


def write_spec(folder: Path, text: str, op: str = LSE) -> Path:
    """Put a spec into folder/specs; returns the specs folder."""
    specs = folder / "specs"
    specs.mkdir(parents=True, exist_ok=True)
    (specs / f"{op}.yaml").write_text(text)
    return specs


def hpgen(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does, in a process of its own."""
    command = [sys.executable, "-m", "hpgen", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its content."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
