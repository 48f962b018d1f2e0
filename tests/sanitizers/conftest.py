# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What is compiled for all tests here, and what they have run, said at the end."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.operator_library import OP, install

from .sanitized import (
    BUILT_IN,
    CALLS,
    INSTRUCTION_SETS,
    build,
    compiling,
    counting_bytes,
    instruction_sets,
    output_of,
    run_tests,
)

KERNEL_TESTS = (
    "tests/cpp/test_lanes.py",
    "tests/cpp/test_mhc_post_kernel.py",
    "tests/cpp/test_mhc_pre_kernels.py",
    "tests/cpp/test_mhc_pre_backward_kernels.py",
    "tests/cpp/test_kl_loss.py",
    "tests/cpp/test_lightning_indexer_kernel.py",
)
FAULTS = Path(__file__).parent / "faults" / "seeded_faults.h"
# Lines of the example's header, with what is put before and behind them.
SEEDS = (
    ('#include "csrc/cpu/tensor_view.h"\n', '#include "csrc/cpu/seeded_faults.h"\n', ""),
    (
        '  const int64_t channels = CheckGatedAdd("x", x, branch, gate);\n',
        "",
        '  SeedFault(x, out);\n  if (IsSeeded("output not written")) return;\n',
    ),
)
LINES = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session", autouse=True)
def background(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[str]]]:
    """What takes minutes, by the name of the fixture that waits for it, if a test wants it: beside the other tests."""
    wanted = {name for item in request.session.items for name in item.fixturenames}
    with ThreadPoolExecutor(1) as one:
        long = {"kernel_tests": _kernel_tests, "many_calls": _many_calls}
        yield {name: one.submit(run) for name, run in long.items() if name in wanted}


def _kernel_tests() -> str:
    environment = compiling(HYPER_PARALLEL_KERNELS="reference", **{INSTRUCTION_SETS: " ".join(instruction_sets())})
    return run_tests("-p", "tests.sanitizers.on_each_instruction_set", *KERNEL_TESTS, environment=environment)


def _many_calls() -> str:
    build(BUILT_IN, compiling())  # or wait for who does
    return output_of("-m", "tests.sanitizers.leaks", "small", str(CALLS), environment=counting_bytes(threads=1))


@pytest.fixture
def kernel_tests(background: dict[str, Future[str]]) -> str:
    """The last line of the tests of kernels without a framework, once they have ended."""
    return background["kernel_tests"].result()


@pytest.fixture
def many_calls(background: dict[str, Future[str]]) -> str:
    """What `leaks` prints of CALLS small calls of each kernel, once they have been made."""
    return background["many_calls"].result()


@pytest.fixture(scope="session")
def compiled() -> None:
    """The built-in library with sanitizers."""
    build(BUILT_IN, compiling())


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example library, compiled, whose forward kernel commits the fault that SEEDED_FAULT names."""
    folder = tmp_path_factory.mktemp("faulty")
    headers = install(folder) / "csrc" / "cpu"
    shutil.copy(FAULTS, headers)
    text = (headers / "gated_add.h").read_text()
    for line, before, behind in SEEDS:
        assert text.count(line) == 1, line
        text = text.replace(line, f"{before}{line}{behind}")
    (headers / "gated_add.h").write_text(text)
    build(OP, compiling(PYTHONPATH=folder))
    return folder


@pytest.fixture
def said(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Takes a line that is shown at the end of the run."""
    return request.config.stash.setdefault(LINES, []).append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(LINES, []):
        terminalreporter.write_line(line)
