# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The script of docs/runtime.md under the command of docs/runtime.md: two ranks started by msrun itself."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hyper_parallel.reference.mhc import post
from tests.rank_processes import ROOT, free_port, is_running

PAGE = (ROOT / "docs" / "runtime.md").read_text()
LEAVES = """
import os
from pathlib import Path
Path(f"{mesh.rank}.pid").write_text(str(os.getpid()))
np.savez(f"{mesh.rank}.npz", *[tensor.asnumpy() for tensor in whole], out=out.full_tensor().asnumpy(), part=out.to_local())
"""
FAILS = """
if mesh.rank == 1:
    raise ArithmeticError("one of us is wrong")
out.full_tensor()
"""


def shown(start: str) -> str:
    (block,) = [text for text in re.findall(r"^```text\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE) if start in text]
    return block


def msrun(folder: Path, script: str) -> tuple[int, str]:
    """Run the page's command on a script in a folder; its exit code, and what it and the ranks have printed."""
    (folder / "train.py").write_text(script)
    (setting, *command) = shlex.split(shown("msrun --"))
    assert setting == "HYPER_PARALLEL_PLATFORM=mindspore"
    assert command[0] == "msrun"
    options = [f"--master_port={free_port()}" if word.startswith("--master_port=") else word for word in command[1:]]
    launched = subprocess.Popen(
        [sys.executable, "-m", "mindspore.parallel.cluster.run", *options],  # what the script msrun does
        cwd=folder,
        env={
            **os.environ,
            "GLOG_v": "3",
            "HYPER_PARALLEL_PLATFORM": "mindspore",
            "MS_CPU_COMM_OP_TIMEOUT": "30",
            "MS_RETRY_INTERVAL_LOWER": "1",
            "MS_RETRY_INTERVAL_UPPER": "1",
            "OMP_NUM_THREADS": "1",
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": str(ROOT),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        printed, _ = launched.communicate(timeout=180)
    except subprocess.TimeoutExpired:
        launched.send_signal(signal.SIGINT)  # it ends its ranks
        printed, _ = launched.communicate(timeout=60)
        pytest.fail(f"msrun has not ended in time:\n{printed}")
    return launched.returncode, printed


@pytest.mark.slow
def test_two_ranks_compute_what_one_does(tmp_path):
    code, printed = msrun(tmp_path, shown("import mindspore as ms") + LEAVES)
    assert code == 0, printed
    for rank in range(2):
        found = np.load(tmp_path / f"{rank}.npz")
        x, h_res, h_out, h_post = (found[f"arr_{index}"] for index in range(4))
        (expected,) = post(x, h_res, h_out, h_post)
        np.testing.assert_array_equal(found["out"], expected)
        np.testing.assert_array_equal(found["part"], expected[2 * rank : 2 * rank + 2])
        assert not is_running(int((tmp_path / f"{rank}.pid").read_text()))


@pytest.mark.slow
def test_a_rank_that_fails_ends_all(tmp_path):
    code, printed = msrun(tmp_path, shown("import mindspore as ms") + LEAVES + FAILS)
    assert code != 0
    assert "ArithmeticError: one of us is wrong" in (tmp_path / "worker_1.log").read_text(), printed
    assert not any(is_running(int((tmp_path / f"{rank}.pid").read_text())) for rank in range(2))
