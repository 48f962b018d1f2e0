# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What compiled kernels give on NumPy for every plain call, for processes of other platforms to compare with.

A process has one platform, so that this is one of its own: `calls_on_numpy()` starts it.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.operators.plain_table import observed, plain_calls
from tests.operators.sharded_calls import NUMPY, Call

ROOT = Path(__file__).resolve().parents[2]


def calls_on_numpy() -> dict[str, Call]:
    """Every plain call by name, with outputs and gradients as NumPy has them instead of the oracle's."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "observed.pickle")
        command = [sys.executable, "-m", "tests.native_kernels.on_numpy", str(path)]
        environment = {**os.environ, "HYPER_PARALLEL_PLATFORM": "numpy", "HYPER_PARALLEL_KERNELS": "native"}
        subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=240)
        found = pickle.loads(path.read_bytes())
    return {name: call._replace(outputs=found[name][0], gradients=found[name][1]) for name, call in plain_calls()}


def main() -> None:
    from .no_reference import forbid_references

    forbid_references()
    found = {name: observed(call, NUMPY) for name, call in plain_calls()}
    Path(sys.argv[1]).write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    main()
