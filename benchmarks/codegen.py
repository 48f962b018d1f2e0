# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Time and memory of `hpgen ops` in cold processes: generating, regenerating unchanged, checking.

Run: python benchmarks/codegen.py [--specs 10 100 1000] [--runs 3] [--torchgen]

The specs are the repository's own, in turn and renamed. With --torchgen, PyTorch's operator generator runs on its own
YAML in the same run (it comes with the torch wheel), and both are given as files per second.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

SPECS = Path(__file__).resolve().parents[1] / "specs"


class Cost(NamedTuple):
    """Wall time in seconds and peak resident memory in MB of one process."""

    seconds: float
    megabytes: float


def copies(folder: Path, count: int) -> None:
    """Put `count` specs into a folder: the real ones in turn, renamed."""
    folder.mkdir(parents=True)
    real = sorted(SPECS.glob("*.yaml"))
    for number in range(count):
        source = real[number % len(real)]
        name = f"{source.stem}_{number}x"
        (folder / f"{name}.yaml").write_text(source.read_text().replace(f"op: {source.stem}", f"op: {name}", 1))


def run(command: Sequence[str], cwd: Path | None = None) -> Cost:
    """One cold process; its output is shown if it fails."""
    start = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=cwd)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            sys.exit(f"{' '.join(command)} failed:\n{output.read().decode()}")
    return Cost(seconds, usage.ru_maxrss / 1024)


def median(costs: Sequence[Cost]) -> Cost:
    return Cost(statistics.median(cost.seconds for cost in costs), max(cost.megabytes for cost in costs))


def files_below(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*"))


def measure(count: int, runs: int, folder: Path) -> float:
    """Print one line of the table; the files per second when everything is generated."""
    specs = folder / "specs"
    copies(specs, count)
    hpgen = [sys.executable, "-m", "hpgen", "ops", str(specs), "-o"]
    generate = median([run([*hpgen, str(folder / f"made{number}")]) for number in range(runs)])
    made = str(folder / "made0")
    unchanged = median([run([*hpgen, made]) for _ in range(runs)])
    check = median([run([*hpgen, made, "--check"]) for _ in range(runs)])
    files = files_below(Path(made))
    peak = max(generate.megabytes, unchanged.megabytes, check.megabytes)
    times = f"{generate.seconds:>9.2f} {unchanged.seconds:>10.2f} {check.seconds:>7.2f}"
    print(f"{count:>6} {files:>6} {times} {peak:>8.0f} {files / generate.seconds:>9.0f}", flush=True)
    return files / generate.seconds


def torchgen(folder: Path) -> float:
    """The files per second of PyTorch's generator on its own YAML."""
    found = find_spec("torchgen")
    if found is None or not found.submodule_search_locations:
        sys.exit("torchgen comes with torch: pip install torch==2.13.0")
    source = Path(found.submodule_search_locations[0]) / "packaged" / "ATen"
    command = [sys.executable, "-m", "torchgen.gen", "--source-path", str(source), "--install-dir", str(folder)]
    command.append("--per-operator-headers")  # as PyTorch's own build runs it
    cost = run(command, cwd=folder)  # it also writes below the working directory
    files = files_below(folder)
    speed = files / cost.seconds
    print(f"torchgen: {files} files in {cost.seconds:.1f} s, {cost.megabytes:.0f} MB, {speed:.0f} files/s")
    return speed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--specs", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--torchgen", action="store_true", help="also time PyTorch's generator")
    options = parser.parse_args()
    version = median([run([sys.executable, "-m", "hpgen", "--version"]) for _ in range(options.runs)])
    print(f"start-up (hpgen --version): {version.seconds:.2f} s, {version.megabytes:.0f} MB")
    print(f"median seconds of {options.runs} cold runs")
    titles = f"{'generate':>9} {'unchanged':>10} {'check':>7} {'peak MB':>8} {'files/s':>9}"
    print(f"{'specs':>6} {'files':>6} {titles}", flush=True)
    speeds = []
    for count in options.specs:
        with tempfile.TemporaryDirectory() as name:
            speeds.append(measure(count, options.runs, Path(name)))
    if options.torchgen:
        with tempfile.TemporaryDirectory() as name:
            print(f"ratio to torchgen in files per second: {max(speeds) / torchgen(Path(name)):.1f}")


if __name__ == "__main__":
    main()
