# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Time and memory of `hpgen ops` in cold processes: generating, regenerating unchanged, checking.

Run: python benchmarks/codegen.py [--specs 10 100 1000] [--runs 3] [--profile] [--torchgen]

The specs are the repository's own, in turn and renamed. Columns, in seconds of wall time:

  new        nothing is known of any spec: the cache holds the compiled templates only, as after any earlier run
  one        one spec has changed since the last run
  unchanged  no spec has changed
  check      --check where nothing has changed
  no cache   --check --no-cache: every operator is rendered again and compared

With --torchgen, PyTorch's operator generator runs on its own YAML in the same run (it comes with the torch wheel).
"""

from __future__ import annotations

import argparse
import os
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

SPECS = Path(__file__).resolve().parents[1] / "specs"
TITLES = ("new", "one", "unchanged", "check", "no cache")


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


def median(runs: int, once: Callable[[], Cost]) -> Cost:
    """The median time and the highest peak of several runs."""
    costs = [once() for _ in range(runs)]
    return Cost(statistics.median(cost.seconds for cost in costs), max(cost.megabytes for cost in costs))


class Size(NamedTuple):
    files: int
    lines: int


def size(folder: Path) -> Size:
    """What a generator has written."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return Size(len(files), sum(path.read_bytes().count(b"\n") for path in files))


class Library:
    """A folder of specs, and the runs of hpgen on it."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder, self.specs, self.made = folder, folder / "specs", folder / "generated"
        self.edits = self.fresh = 0
        copies(self.specs, count)

    def hpgen(self, *options: str, specs: Path | None = None, made: Path | None = None) -> Cost:
        command = [sys.executable, "-m", "hpgen", "ops", str(specs or self.specs), "-o", str(made or self.made)]
        return run([*command, *options])

    def new(self) -> Cost:
        """The output folder and the cache are empty, but for the templates.

        They are new folders: where much has just been deleted, some file systems take long to create files.
        """
        self.fresh += 1
        self.made = self.folder / f"generated{self.fresh}"
        os.environ["HPGEN_CACHE_DIR"] = str(self.folder / f"cache{self.fresh}")
        self.hpgen(specs=SPECS, made=self.folder / f"other{self.fresh}")
        return self.hpgen()

    def one(self) -> Cost:
        path = sorted(self.specs.iterdir())[0]
        self.edits += 1
        path.write_text(path.read_text() + f"# edit {self.edits}\n")
        return self.hpgen()

    def measure(self, runs: int) -> list[Cost]:
        """The costs of TITLES."""
        return [
            median(runs, self.new),
            median(runs, self.one),
            median(runs, self.hpgen),
            median(runs, lambda: self.hpgen("--check")),
            median(runs, lambda: self.hpgen("--check", "--no-cache")),
        ]


STAGES = {
    "YAML to nodes": ("yaml_nodes.py", "read_nodes"),
    "nodes against the schema": ("schema.py", "check_schema"),
    "nodes to model": ("load.py", "load"),
    "checks of the model": ("check.py", "check_spec"),
    "model to plan": ("derive.py", "derive_operator"),
    "plan to texts": ("render.py", "render_operator"),
    "index files": ("render.py", "render_index"),
    "comparing": ("output.py", "compare"),
    "writing": ("output.py", "write"),
}


def profile(folder: Path, count: int) -> None:
    """Print the share of each stage in a run of one process."""
    library = Library(folder, count)
    arguments = ["ops", str(library.specs), "-o", str(library.made), "--no-cache", "--jobs", "1"]
    run([sys.executable, "-m", "cProfile", "-o", str(folder / "profile"), "-m", "hpgen", *arguments])
    found = pstats.Stats(str(folder / "profile"))
    entries: dict[tuple[str, int, str], tuple[int, int, float, float, object]] = found.stats  # type: ignore[attr-defined]
    total, rest = float(found.total_tt), float(found.total_tt)  # type: ignore[attr-defined]
    print(f"profile of {count} specs in one process: {total:.1f} s with the profiler")
    for title, (file, function) in STAGES.items():
        seconds = sum(
            entry[3] for (path, _, name), entry in entries.items() if Path(path).name == file and name == function
        )
        rest -= seconds
        print(f"  {seconds / total:>4.0%}  {title}")
    print(f"  {max(rest, 0) / total:>4.0%}  start of Python, imports, templates, the rest")


def torchgen(folder: Path, options: Sequence[str]) -> tuple[Cost, Size]:
    """PyTorch's generator on its own YAML."""
    found = find_spec("torchgen")
    if found is None or not found.submodule_search_locations:
        sys.exit("torchgen comes with torch: pip install torch==2.13.0")
    source = Path(found.submodule_search_locations[0]) / "packaged" / "ATen"
    command = [sys.executable, "-m", "torchgen.gen", "--source-path", str(source), "--install-dir", str(folder)]
    cost = run([*command, *options], cwd=folder)  # it also writes below the working directory
    return cost, size(folder)


def memory_folder() -> str:
    """Where creating a file costs the same every time: on a disk that depends on what was there before."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--specs", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder", default=memory_folder(), help="where to generate (default: in memory if possible)")
    parser.add_argument("--profile", action="store_true", help="also show what a run spends its time on")
    parser.add_argument("--torchgen", action="store_true", help="also time PyTorch's generator")
    options = parser.parse_args()
    tempfile.tempdir = options.folder
    with tempfile.TemporaryDirectory() as folder:
        version = median(options.runs, lambda: run([sys.executable, "-m", "hpgen", "--version"]))
        print(f"start-up (hpgen --version): {version.seconds:.2f} s, {version.megabytes:.0f} MB")
        print(f"{os.cpu_count()} processors, files in {options.folder}; median seconds of {options.runs} cold runs")
        titles = "".join(f"{title:>11}" for title in TITLES)
        print(f"{'specs':>6} {'files':>6}{titles}{'peak MB':>9}{'files/s':>9}{'lines/s':>10}", flush=True)
        best = Size(1, 1)
        for count in options.specs:
            library = Library(Path(folder) / str(count), count)
            costs = library.measure(options.runs)
            made, new = size(library.made), costs[0].seconds
            times = "".join(f"{cost.seconds:>11.2f}" for cost in costs)
            speed = Size(int(made.files / new), int(made.lines / new))
            best = max(best, speed)
            peak = max(cost.megabytes for cost in costs)
            print(f"{count:>6} {made.files:>6}{times}{peak:>9.0f}{speed.files:>9}{speed.lines:>10}", flush=True)
        if options.profile:
            profile(Path(folder) / "profile", max(options.specs))
    if options.torchgen:
        for words in ([], ["--per-operator-headers"]):
            with tempfile.TemporaryDirectory() as name:
                first, made = torchgen(Path(name), words)
                again, _ = torchgen(Path(name), words)
            speed = Size(int(made.files / first.seconds), int(made.lines / first.seconds))
            print(f"torchgen {' '.join(words)}: {made.files} files of {made.lines} lines in {first.seconds:.1f} s")
            print(f"  again, unchanged: {again.seconds:.1f} s; {first.megabytes:.0f} MB")
            print(
                f"  {speed.files} files/s and {speed.lines} lines/s: hpgen does {best.files / speed.files:.1f} times",
                end="",
            )
            print(f" the files and {best.lines / speed.lines:.1f} times the lines", flush=True)


if __name__ == "__main__":
    main()
