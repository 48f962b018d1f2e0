# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Time of `hpgen ops` in cold processes: generating, regenerating unchanged, checking.

Run: python benchmarks/codegen.py [--specs 1 10 100] [--runs 5]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SPECS = Path(__file__).resolve().parents[1] / "specs"


def copies(folder: Path, count: int) -> None:
    """Put `count` specs into a folder: the real ones in turn, renamed."""
    real = sorted(SPECS.glob("*.yaml"))
    for number in range(count):
        source = real[number % len(real)]
        name = f"{source.stem}_{number}x"
        (folder / f"{name}.yaml").write_text(source.read_text().replace(f"op: {source.stem}", f"op: {name}", 1))


def seconds(*arguments: str, runs: int, before: object = None) -> float:
    """Median wall time of the command; `before` is called before each run."""
    times = []
    for _ in range(runs):
        if callable(before):
            before()
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "hpgen", *arguments], check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--specs", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    print(f"start-up (hpgen --version): {seconds('--version', runs=options.runs):.2f} s")
    print(
        f"{'specs':>6} {'files':>6} {'generate':>9} {'unchanged':>10} {'check':>7}   median seconds of {options.runs}"
    )
    for count in options.specs:
        with tempfile.TemporaryDirectory() as name:
            specs, made = Path(name) / "specs", Path(name) / "made"
            specs.mkdir()
            copies(specs, count)
            fresh = [str(specs), "-o"]
            number = iter(range(options.runs))
            generate = statistics.median(
                seconds("ops", *fresh, f"{made}{next(number)}", runs=1) for _ in range(options.runs)
            )
            unchanged = seconds("ops", *fresh, f"{made}0", runs=options.runs)
            check = seconds("ops", *fresh, f"{made}0", "--check", runs=options.runs)
            files = sum(path.is_file() for path in Path(f"{made}0").rglob("*"))
            print(f"{count:>6} {files:>6} {generate:>9.2f} {unchanged:>10.2f} {check:>7.2f}")


if __name__ == "__main__":
    main()
