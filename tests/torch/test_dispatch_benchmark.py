# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""benchmarks/dispatch.py runs and prints its table. What it measures is nobody's assertion."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_it_prints_a_line_for_each_operator_with_and_without_gradients() -> None:
    command = [sys.executable, "benchmarks/dispatch.py", "--calls", "5", "--rounds", "1"]
    lines = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    ).stdout.splitlines()
    assert lines[1].split() == "op grad kernel Function plain DTensor miss library torch DT ratio".split()
    rows = [line.split() for line in lines[2:6]]
    assert [row[:2] for row in rows] == [["lse", "off"], ["lse", "on"], ["add", "off"], ["add", "on"]]
    assert all(float(figure) > 0 for row in rows for figure in row[2:9])
    assert lines[6].startswith("import: torch ")
