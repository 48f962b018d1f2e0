# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The kernels with sanitizers: the tests of compiled kernels once more, and what many calls leave behind.

The last file by name, since the last of its tests wait for what runs beside the others.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from hyper_parallel import library

from .fresh_memory import FILLED
from .sanitized import CALLS, MOST_SECONDS, counting_bytes, in_python, instruction_sets, output_of, run_tests

TABLE = ("tests/native_kernels/test_plain.py", "tests/native_kernels/test_sharded.py")

pytestmark = [pytest.mark.usefixtures("compiled"), pytest.mark.timeout(2 * MOST_SECONDS)]


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


def assert_nothing_is_left(printed: str) -> None:
    """Python's own objects are counted too: less than a byte for each call is what it keeps at times."""
    found = json.loads(printed)
    assert {name.removesuffix(" refused") for name in found} == kernels()
    assert {name: left for name, left in found.items() if abs(left) >= 1} == {}


def test_calls_on_three_threads_leave_nothing_behind() -> None:
    arguments = ("-m", "tests.sanitizers.leaks", "pieces", "100")
    assert_nothing_is_left(output_of(*arguments, environment=counting_bytes(threads=3)))


def test_outputs_do_not_depend_on_what_memory_held() -> None:
    first, second = (
        json.loads(output_of("-m", "tests.sanitizers.fresh_memory", environment=in_python(filled))) for filled in FILLED
    )
    assert first.keys() == kernels()
    assert first == second


def test_kernels_without_a_framework(kernel_tests: str, said: Callable[[str], None]) -> None:
    """Odd shapes, threads, NaN, wrong arguments, on each instruction set; here what is not freed is found at the end."""
    said(f"kernels by themselves, {', '.join(instruction_sets())}: {kernel_tests}")


def test_many_calls_leave_nothing_behind(many_calls: str, said: Callable[[str], None]) -> None:
    assert_nothing_is_left(many_calls)
    said(f"{CALLS} calls of each of {len(kernels())} kernels: no byte left behind")
