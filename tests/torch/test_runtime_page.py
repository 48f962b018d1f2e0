# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The torch code in docs/runtime.md runs as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "runtime.md"


def test_the_torch_code_runs():
    blocks = re.findall(r"^```python torch\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert blocks
    result = subprocess.run([sys.executable, "-c", "\n".join(blocks)], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
