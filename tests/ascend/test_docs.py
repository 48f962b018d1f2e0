# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/ascend.md, and what it says of a toolkit that is missing."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.generator.spec_texts import hpgen

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "ascend.md").read_text()
COMMANDS = [
    shlex.split(line, comments=True)
    for block in re.findall(r"^ *```sh\n(.*?)^ *```", PAGE, flags=re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
]


def test_the_commands() -> None:
    build, make = COMMANDS
    assert build[0] == "hpgen"
    result = hpgen(*build[1:], cwd=ROOT)
    assert (result.returncode, result.stderr) == (0, "")
    assert "mindspore: 7 operators of The built-in operator library, up to date" in result.stdout
    assert make == ["make", "test-ascend"]  # which runs this
    assert re.search(r"^make .*\btest-ascend\b", (ROOT / ".ci" / "run").read_text(), flags=re.MULTILINE)


def test_a_script_of_ones_own(tmp_path: Path) -> None:
    assert "python -m tests.ascend.toolkit [--sanitize] python your_script.py" in PAGE
    script = tmp_path / "script.py"
    script.write_text("import mindspore as ms; print(ms.get_context('device_target'), ms.mint.zeros((2,)).asnumpy())")
    without = {name: value for name, value in os.environ.items() if name not in ("ASCEND_OPP_PATH", "LD_LIBRARY_PATH")}
    command = [sys.executable, "-m", "tests.ascend.toolkit", sys.executable, str(script)]
    done = subprocess.run(command, cwd=ROOT, env=without, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "Ascend [0. 0.]"


def test_a_toolkit_that_is_missing() -> None:
    """Before anything is compiled."""
    without = {name: value for name, value in os.environ.items() if name != "ASCEND_OPP_PATH"}
    command = [sys.executable, "-m", "hpgen", "build", "--platform", "mindspore", "--backend", "Ascend", "--again"]
    done = subprocess.run(command, env=without, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    said = "kernels for Ascend are compiled with the CANN toolkit, and ASCEND_OPP_PATH"
    assert said in done.stderr
    assert said in PAGE
