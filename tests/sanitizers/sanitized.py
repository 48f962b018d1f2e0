# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Processes whose kernels are compiled with sanitizers, and what the sanitizers say of them.

A sanitizer ends the process in which it finds something, and pytest with it. So what is tested runs in a process of its
own, and the test here fails with all that this process has printed, the sanitizer's report at the end.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hyper_parallel.native.compiler import needed_compiler

ROOT = Path(__file__).resolve().parents[2]

FLAGS = (
    # Beside what `undefined` has, a float that does not fit the integer it becomes. Not float-divide-by-zero: that is no
    # fault, it has a result, infinity or NaN.
    "-fsanitize=address,undefined,float-cast-overflow,bounds-strict",
    "-fno-sanitize-recover=all",
    "-D_GLIBCXX_ASSERTIONS",
    "-D_GLIBCXX_SANITIZE_VECTOR=1",  # memory behind the last element that a vector has reserved
    "-ftrivial-auto-var-init=pattern",  # a variable that is not set is a large negative number, not by chance zero
    "-O1",
    "-g1",
    "-fno-omit-frame-pointer",
)
INSTRUCTION_SETS = "INSTRUCTION_SETS"
"""The environment variable for the plugin that runs tests on each of them."""
BUILT_IN = "npu_mhc_post"
"""One of the operators of the built-in library."""
CALLS = 10_000
LINES_SHOWN = 120
MOST_SECONDS = 900.0


@functools.cache
def preloaded() -> str:
    """What a process without sanitizers, such as Python, has to load before all else for a library that has them.

    libstdc++ too: AddressSanitizer looks for its exceptions when the process starts, before an extension brings it.
    """
    return ":".join(_library_of_compiler(name) for name in ("libasan.so", "libstdc++.so"))


def _library_of_compiler(name: str) -> str:
    command = [*needed_compiler(), f"-print-file-name={name}"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.isabs(found):
        raise RuntimeError(
            f"the compiler {command[0]} has no {name}: the sanitizers need GCC 12 or later with its own; set CXX to it"
        )
    return os.path.realpath(found)


@functools.cache
def instruction_sets() -> tuple[str, ...]:
    """The values of HYPER_PARALLEL_CPU_INSTRUCTIONS that this processor has, as the kernels see it."""
    source = """
#include <cstdio>
#include "csrc/cpu/instruction_sets.h"
int main() {
  using namespace hyper_parallel::cpu;
  for (const NamedInstructionSet& known : kInstructionSets) {
    if (known.set <= detail::BestInstructionSet()) {
      std::puts(known.name);
    }
  }
}
"""
    with tempfile.TemporaryDirectory() as folder:
        path, binary = Path(folder, "sets.cc"), Path(folder, "sets")
        path.write_text(source)
        subprocess.run([*needed_compiler(), "-std=c++17", f"-I{ROOT}", str(path), "-o", str(binary)], check=True)
        return tuple(subprocess.run([binary], capture_output=True, text=True, check=True).stdout.split())


def compiling(**others: str | Path) -> dict[str, str]:
    """The environment in which kernels are compiled with sanitizers, and programs run that have them from the start."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("HYPER_PARALLEL", "PYTEST"))}
    variables |= {
        "HYPER_PARALLEL_PLATFORM": "numpy",
        "HYPER_PARALLEL_KERNELS": "native",
        "HYPER_PARALLEL_CXXFLAGS": " ".join([*FLAGS, os.environ.get("HYPER_PARALLEL_CXXFLAGS", "")]).strip(),
        "ASAN_OPTIONS": "detect_stack_use_after_return=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    return variables | {name: str(value) for name, value in others.items()}


def in_python(*asan_options: str, **others: str | Path) -> dict[str, str]:
    """The environment for Python with such kernels. What Python itself leaves behind at its end is no leak."""
    variables = compiling(LD_PRELOAD=preloaded(), **others)
    variables["ASAN_OPTIONS"] = ":".join([variables["ASAN_OPTIONS"], "detect_leaks=0", *asan_options])
    return variables


def counting_bytes(threads: int) -> dict[str, str]:
    """The environment in which AddressSanitizer counts what Python allocates too, and is quick about it."""
    options = ("malloc_context_size=1", "quarantine_size_mb=4")
    return in_python(*options, PYTHONMALLOC="malloc", HYPER_PARALLEL_CPU_THREADS=str(threads))


def build(op: str, environment: dict[str, str]) -> None:
    """Compile the library that has the operator. Without loading it: that takes `in_python`, which the compiler does not."""
    script = f"""
from hyper_parallel.library import operator
from hyper_parallel.native.flavours import HostFlavour
from hyper_parallel.native.library_cache import native_library
from hyper_parallel.native.translation_unit import unit_of

native_library(unit_of(operator({op!r}).library), HostFlavour()).build()
"""
    output_of("-c", script, environment=environment)


def python(*arguments: str | Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A Python process; what it and a sanitizer say is in `stdout`, in order."""
    command = [sys.executable, *map(str, arguments)]
    streams: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.run(command, cwd=ROOT, env=environment, timeout=MOST_SECONDS, check=False, **streams)


def output_of(*arguments: str | Path, environment: dict[str, str]) -> str:
    """What a Python process says. AssertionError with that if it fails."""
    done = python(*arguments, environment=environment)
    assert done.returncode == 0, done.stdout
    return done.stdout


def run_tests(*arguments: str | Path, environment: dict[str, str]) -> str:
    """pytest in a process of its own; returns its last line.

    AssertionError with the end of all that was said, which names the test and has the sanitizer's report, unless every
    test has run and passed.
    """
    # Nothing is captured, which would be lost; faults of memory are reported by the sanitizer, not by Python.
    options = ("-v", "--capture=no", "-p", "no:faulthandler", "-p", "no:cacheprovider")
    done = python("-m", "pytest", *options, *arguments, environment=environment)
    lines = done.stdout.strip().splitlines() or [""]
    ended = re.search(r"\d+ (passed|failed|error|skipped)", lines[-1])
    if done.returncode == 0 and ended and ended[1] == "passed":
        return lines[-1].strip(" =")
    # A process that a sanitizer has ended says first what is wrong, then for more than a page who has called whom.
    first = len(lines) - LINES_SHOWN if ended else max(n for n, line in enumerate(lines) if not n or ".py::" in line)
    shown = "\n".join(lines[max(0, first) :][:LINES_SHOWN])
    raise AssertionError(f"pytest {' '.join(map(str, arguments))} ended with {done.returncode}, and said:\n{shown}")
