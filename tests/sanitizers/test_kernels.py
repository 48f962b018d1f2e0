# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The kernels with sanitizers: the tests of compiled kernels once more, and what many calls leave behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from hyper_parallel import library

from .fresh_memory import FILLED
from .sanitized import MOST_SECONDS, in_python, instruction_sets, python, run_tests

TABLE = ("tests/native_kernels/test_plain.py", "tests/native_kernels/test_sharded.py")
CALLS = 10_000

pytestmark = [pytest.mark.usefixtures("compiled"), pytest.mark.timeout(MOST_SECONDS)]


def kernels() -> set[str]:
    """Forward and backward, of the operators that have a kernel for the CPU."""
    entries = [entry for entry in library.operators().values() if entry.library.is_built_in and entry.cpu_headers]
    backward = {f"{entry.op}_backward" for entry in entries if entry.backward_reference}
    return {entry.op for entry in entries} | backward


@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("instructions", instruction_sets())
def test_the_whole_table(instructions: str, threads: str, said: Callable[[str], None]) -> None:
    environment = in_python(HYPER_PARALLEL_CPU_INSTRUCTIONS=instructions, HYPER_PARALLEL_CPU_THREADS=threads)
    last = run_tests(*TABLE, environment=environment)
    said(f"plain and sharded calls, {instructions}, {threads} threads: {last}")


def test_rounding_of_doubles(said: Callable[[str], None]) -> None:
    said(f"rounding to float16: {run_tests('tests/cpp/test_half.py', environment=in_python())}")


@pytest.mark.parametrize(("calls", "count", "threads"), [("small", CALLS, "1"), ("pieces", 100, "3")])
def test_calls_leave_nothing_behind(calls: str, count: int, threads: str, said: Callable[[str], None]) -> None:
    """Bytes that are allocated, counted exactly: each of Python's objects too, so that less than one byte for each call
    is what Python keeps at times."""
    environment = in_python(
        "malloc_context_size=1", "quarantine_size_mb=4", PYTHONMALLOC="malloc", HYPER_PARALLEL_CPU_THREADS=threads
    )
    done = python("-m", "tests.sanitizers.leaks", calls, str(count), environment=environment)
    assert done.returncode == 0, done.stdout
    found = json.loads(done.stdout)
    assert {name.removesuffix(" refused") for name in found} == kernels()
    assert {name: left for name, left in found.items() if abs(left) >= 1} == {}
    said(f"bytes left behind by a call, {count} of each kernel, {threads} threads: {max(found.values()):.2f}")


def test_outputs_do_not_depend_on_what_memory_held() -> None:
    found = []
    for filled in FILLED:
        done = python("-m", "tests.sanitizers.fresh_memory", environment=in_python(filled))
        assert done.returncode == 0, done.stdout
        found.append(json.loads(done.stdout))
    assert found[0].keys() == kernels()
    assert found[0] == found[1]


def test_kernels_without_a_framework(kernel_tests: Future[str], said: Callable[[str], None]) -> None:
    """Odd shapes, threads, NaN, wrong arguments, on each instruction set; here what is not freed is found at the end."""
    said(f"kernels by themselves, {', '.join(instruction_sets())}: {kernel_tests.result()}")
