# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The torch code of docs/modules.md runs, on two ranks, and prints what the page shows."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from ranks import ROOT, run_gloo_ranks

PAGE = (ROOT / "docs" / "modules.md").read_text()
CODE = "\n".join(re.findall(r"^```python torch\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE))
SHOWN = "".join(re.findall(r"^```text\n(For module .*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE))


def printed_by(code: str) -> str:
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        exec(compile(code, "docs/modules.md", "exec"), {"__name__": "page"})
    return written.getvalue()


def test_the_code_runs_and_prints_what_is_shown():
    assert SHOWN.count("For module") == 2
    assert run_gloo_ranks(printed_by, 2, CODE) == [SHOWN] * 2


@pytest.mark.slow
def test_the_command_runs_it(tmp_path: Path):
    (line,) = re.findall(r"^```text\n(.* torchrun .*)\n^```", PAGE, flags=re.MULTILINE)
    setting, command, *options = shlex.split(line)
    assert (setting, command, options[-1]) == ("HYPER_PARALLEL_PLATFORM=torch", "torchrun", "feed.py")
    (tmp_path / "feed.py").write_text(f"{CODE}\ntorch.distributed.destroy_process_group()\n")
    result = subprocess.run(
        # What the script torchrun does; standalone chooses a free port.
        [sys.executable, "-m", "torch.distributed.run", "--standalone", *options],
        cwd=tmp_path,
        env=os.environ | {"HYPER_PARALLEL_PLATFORM": "torch", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    for line in SHOWN.splitlines():  # of both ranks, in any order, with their ends of lines where they fell
        assert result.stdout.count(line) == 2 * SHOWN.count(line), result.stdout
