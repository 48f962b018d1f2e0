# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""How long `hpgen verify` takes, and how much memory.

Run: python benchmarks/verify.py [--rounds 3] [--quick] [SPECS]

Each operator alone with the default budget and, unless --quick is given, with --thorough; then all of them at once on
all processors. Seconds from start to end of the command, best of several rounds, and the largest memory of any process.
Nothing is taken from the cache.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

SPECS = Path(__file__).parents[1] / "specs"


def run(*words: str) -> tuple[float, float]:
    """Seconds, and megabytes of the largest process."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "hpgen", "verify", "--no-cache", *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with exit code {process.returncode}")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def best(rounds: int, *words: str) -> str:
    found = [run(*words) for _ in range(rounds)]
    return f"{min(seconds for seconds, _ in found):>8.2f} s {max(memory for _, memory in found):>6.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("specs", nargs="?", type=Path, default=SPECS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    print(f"{'operator':<45}{'default':>20}{'' if given.quick else 'thorough':>20}")
    for path in sorted(given.specs.glob("*.yaml")):
        thorough = "" if given.quick else best(1, str(path), "--thorough")
        print(f"{path.stem:<45}{best(given.rounds, str(path)):>20}{thorough:>20}", flush=True)
    print(f"{'all at once':<45}{best(given.rounds, str(given.specs)):>20}")


if __name__ == "__main__":
    main()
