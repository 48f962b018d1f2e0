# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Verification on ranks that are processes, for the tests of torch and MindSpore.

The one who verifies has the NumPy platform, and these tests have another: they start `python -m tests.verify.on_processes`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.rank_processes import is_running
from tests.verify.small_specs import ROOT, small_spec

PAGE = ROOT / "docs" / "verify.md"
RANK = 'os.environ.get("RANK", os.environ.get("MS_NODE_ID"))'
ON_RANK_1 = f'{RANK} == "1"'
AT_ALL = "import os, signal, time\n\n\ndef window(x):\n    {what}\n    return x.sum(-1)\n"
FAILURES = {
    "raises": f'if {ON_RANK_1}: raise KeyError("no such row")',
    "dies": f"if {ON_RANK_1}: os.kill(os.getpid(), signal.SIGKILL)",
    "hangs": f"if {ON_RANK_1}: time.sleep(600)",
    "leaves": f"if {ON_RANK_1}: os._exit(7)",
    "leaves the other alone": f'if {ON_RANK_1}: raise KeyError("no such row")\n    if {RANK} == "0": time.sleep(600)',
}
"""What a reference does on one rank."""
BROKEN_COLLECTIVE = """
import numpy as np
from hyper_parallel import get_platform


def window(x):
    platform = get_platform()
    if platform.name != "numpy":
        platform.all_gather = lambda tensor, dim, mesh, axis: platform.concatenate([tensor] * mesh.mesh_shape[axis], dim)
    return x.sum(-1)
"""
"""Every rank gathers its own part, as often as there are ranks."""


def failing_spec(what: str) -> tuple[str, str]:
    """A spec, and the reference that does this."""
    return small_spec("acme_sum"), AT_ALL.format(what=FAILURES[what])


def commands_of_page(platform: str) -> list[list[str]]:
    """The commands of docs/verify.md that use this platform, without `hpgen verify`."""
    found = re.findall(rf"^hpgen verify (.*--platform {platform}\b.*)$", PAGE.read_text(), flags=re.MULTILINE)
    assert found
    return [shlex.split(line, comments=True) for line in found]


def check_end_with_starter(platform: str, count: int, spec: Path) -> None:
    """Kill the process that has started ranks, and see that the `count` processes which it has started end, too."""
    process, ranks = started("wait", platform, 2, spec)
    assert len(ranks) == count
    assert all(map(is_running, ranks))
    process.kill()
    process.wait()
    deadline = time.monotonic() + 30
    while any(map(is_running, ranks)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_running, ranks))


def verified(*arguments: Any, timeout: float = 280) -> dict[str, Any]:
    """The report of `main` with these arguments, in a process with the NumPy platform."""
    result = subprocess.run(
        [sys.executable, "-m", "tests.verify.on_processes", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "HYPER_PARALLEL_PLATFORM": "numpy"},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def started(*arguments: Any) -> tuple[subprocess.Popen[str], list[int]]:
    """A process that has ranks and waits, and theirs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.verify.on_processes", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "HYPER_PARALLEL_PLATFORM": "numpy"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def main(what: str, platform: str, nproc: str, path: str, timeout: str = "60") -> None:
    """Print a report as JSON, or start ranks, print which processes they are, and wait.

    Args:
        what: `mutant`, where `path` is its number; `spec`; or `wait`.
    """
    from hpgen.library import load_library
    from hpgen.verify.platforms import started, verify_on_processes
    from hpgen.verify.subject import load_subject
    from tests.verify.mutants.every import EVERY
    from tests.verify.mutants.model import SPECS, subject_of

    if what == "mutant":
        mutant = next(one for one in EVERY if str(one) == path)
        report = verify_on_processes(subject_of(mutant), SPECS, platform, int(nproc), timeout=float(timeout))
        print(json.dumps(report.as_json()))
        return
    library = load_library((Path(path),))
    spec = next(one for one in library.specs if one.op in library.selected)
    subject = load_subject(spec, library.folder)
    if what == "spec":
        report = verify_on_processes(subject, library.folder, platform, int(nproc), timeout=float(timeout))
        print(json.dumps(report.as_json()))
        return
    with started(subject, library.folder, platform, int(nproc)) as ranks:
        print(json.dumps(ranks.pids), flush=True)
        time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
