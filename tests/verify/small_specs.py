# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""`hpgen verify` in a process of its own, and a small library of specs without kernels for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs" / "verify_example"

SPEC = """
op: {op}
summary: Sum over a window.
format: BSD
dims: {{B: batch, S: sequence, D: hidden size}}
args:
  x: {{dtype: float32, dims: B S D}}
outputs:
  out: {{dtype: x, dims: B S}}
{require}sharding:
  shard: [{shard}]
{reference}
"""

WINDOW = """
import numpy as np

def window(x):
    out = x.sum(-1)
    out[:, 1:] += x.sum(-1)[:, :-1]
    return out
"""
"""Each token and the one before it: wrong if the sequence is sharded."""


def small_spec(op: str, shard: str = "B", reference: str = "window:window", require: str = "") -> str:
    named = f"reference: {reference}" if reference else ""
    needed = f"require:\n  - {require}\n" if require else ""
    return SPEC.format(op=op, shard=shard, reference=named, require=needed).lstrip()


def write_small(folder: Path, specs: dict[str, str], references: dict[str, str]) -> Path:
    """A folder of specs with references; returns it."""
    specs_folder = folder / "specs"
    (specs_folder / "reference").mkdir(parents=True, exist_ok=True)
    for op, text in specs.items():
        (specs_folder / f"{op}.yaml").write_text(text)
    for module, text in references.items():
        (specs_folder / "reference" / f"{module}.py").write_text(text)
    return specs_folder


def verify(*arguments: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hpgen", "verify", *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, timeout=280, check=False
    )
