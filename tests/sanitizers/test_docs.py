# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/kernels.md for sanitizers, on a library that has been installed and its tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.operator_library import OP, TITLE

from .sanitized import ROOT

(COMMANDS,) = re.findall(
    r"^```sh\n(export HYPER_PARALLEL_PLATFORM=.*?)^```",
    (ROOT / "docs" / "kernels.md").read_text(),
    flags=re.DOTALL | re.MULTILINE,
)
TEST = f"""
import numpy as np
from hyper_parallel import custom_ops


def test_mine():
    tensor = np.ones((2, 3), np.float32)
    assert custom_ops.{OP}(tensor, tensor, np.zeros(3, np.float32)).sum() == 9
"""
REPORT = "AddressSanitizer: heap-buffer-overflow"


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(("fault", "expected"), [("", "1 passed"), ("written behind an output", REPORT)])
def test_the_commands_of_the_page(site: Path, tmp_path: Path, fault: str, expected: str) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_mine.py").write_text(TEST)
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("HYPER_PARALLEL", "PYTEST"))}
    variables |= {"PYTHONPATH": str(site), "SEEDED_FAULT": fault}
    variables["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euc", COMMANDS], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
    )
    said = done.stdout + done.stderr
    assert expected in said
    assert (done.returncode == 0) == (fault == ""), said
    # Compiled with the flags that the tests here use: nothing has been compiled again.
    assert "The built-in operator library, up to date: " in said
    assert f"{TITLE}, up to date: " in said
