# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What the sanitizers see: faults in a kernel of the example library, each of which has to be reported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.generator.test_fixture_launches import load_recorder
from tests.reference.mhc_cases import draw_post

from .fresh_memory import FILLED
from .sanitized import ROOT, compiling, in_python, instruction_sets, python, run_tests

# NumPy keeps the memory of small arrays and hands it out again; the fault comes once it has some.
CALLS = """
import os
import numpy as np
from hyper_parallel import custom_ops

x, branch, gate = np.ones((2, 3), np.float32), np.ones((2, 3), np.float32), np.ones(3, np.float32)
for _ in range(20):
    custom_ops.acme_gated_add(x, branch, gate)
os.environ["SEEDED_FAULT"] = os.environ.pop("LATER")
custom_ops.acme_gated_add(x, branch, gate)
print("ended")
"""

HEAP = "ERROR: AddressSanitizer: heap-buffer-overflow"
REPORTS = {
    "written behind an output": HEAP,
    "byte written behind an output": HEAP,
    "written behind an output by a thread": HEAP,
    "read before a row": HEAP,
    "read behind a scratch buffer": HEAP,
    "buffer used after it is freed": "ERROR: AddressSanitizer: heap-use-after-free",
    "variable used after its scope": "ERROR: AddressSanitizer: stack-use-after-scope",
    "index behind a vector": "Assertion '__n < this->size()' failed",
    "read behind a vector that has reserved more": "ERROR: AddressSanitizer: container-overflow",
    "freed twice": "ERROR: AddressSanitizer: attempting double-free",
    "overflow": "runtime error: signed integer overflow",
    "shift": "runtime error: shift exponent 64 is too large",
    "division by zero": "runtime error: division by zero",
    "float that fits no integer": "runtime error: 1e+300 is outside the range of representable values",
    "misaligned load": "to misaligned address",
    "null pointer": "to null pointer",
}
OF_VECTORS = {
    "vector behind a buffer": HEAP,
    "vector half behind a buffer": HEAP,
    "misaligned vector": "to misaligned address",
}


def said_of(site: Path, fault: str, **environment: str) -> str:
    done = python("-c", CALLS, environment=in_python(LATER=fault, PYTHONPATH=site, **environment))
    assert (done.returncode == 0) == ("ended" in done.stdout), done.stdout
    return done.stdout


def test_no_fault(site: Path) -> None:
    assert said_of(site, "") == "ended\n"


@pytest.mark.parametrize("fault", REPORTS)
def test_reported(site: Path, fault: str) -> None:
    said = said_of(site, fault, HYPER_PARALLEL_CPU_THREADS="3")
    assert REPORTS[fault] in said
    assert "ended" not in said


@pytest.mark.parametrize("instructions", instruction_sets())
@pytest.mark.parametrize("fault", OF_VECTORS)
def test_reported_in_vectors(site: Path, fault: str, instructions: str) -> None:
    said = said_of(site, fault, HYPER_PARALLEL_CPU_INSTRUCTIONS=instructions)
    assert OF_VECTORS[fault] in said
    assert f"hyper_parallel::cpu::{instructions}::LoadVector" in said


A_CALL = """
import numpy as np
from hyper_parallel.native.flavours import HostFlavour
from hyper_parallel.native.kernels import native_kernel
from tests.sanitizers import fresh_memory, leaks

kernel = native_kernel("acme_gated_add", HostFlavour())
tensors = np.ones((2, 3), np.float32), np.ones((2, 3), np.float32), np.ones(3, np.float32)
"""


@pytest.mark.parametrize(("fault", "left"), [("", 0), ("leak", 24)])
def test_a_leak_is_counted(site: Path, fault: str, left: int) -> None:
    script = f"{A_CALL}\nprint(leaks.bytes_per_call(leaks.repeated(leaks.Kernel(kernel, [tensors])), 1000))"
    done = python("-c", script, environment=in_python(SEEDED_FAULT=fault, PYTHONPATH=site))
    assert done.stdout == f"{left:.1f}\n"


@pytest.mark.parametrize("fault", ["", "output not written"])
def test_what_nobody_has_written_differs(site: Path, fault: str) -> None:
    script = f"{A_CALL}\nprint(fresh_memory.in_fresh_memory(kernel, tensors)[0].tobytes().hex())"
    found = [
        python("-c", script, environment=in_python(filled, SEEDED_FAULT=fault, PYTHONPATH=site)).stdout
        for filled in FILLED
    ]
    assert all(re.fullmatch(r"[0-9a-f]{48}\n", each) for each in found), found
    assert (found[0] == found[1]) == (fault == "")


def test_a_run_of_tests_fails_with_the_report(site: Path, tmp_path: Path) -> None:
    """Neither the sanitizer's report is lost nor the name of the test that was running."""
    tests = tmp_path / "test_it.py"
    lines = CALLS.strip().replace('os.environ.pop("LATER")', '"shift"').splitlines()
    tests.write_text(
        "def test_before():\n    pass\n\n\ndef test_faulty():\n" + "".join(f"    {line}\n" for line in lines)
    )
    with pytest.raises(AssertionError) as error:
        run_tests(tests, "--confcutdir", tmp_path, environment=in_python(PYTHONPATH=site))
    message = str(error.value)
    assert "test_it.py::test_faulty" in message
    assert "seeded_faults.h" in message
    assert REPORTS["shift"] in message


def test_a_run_in_which_a_test_fails_shows_it(tmp_path: Path) -> None:
    tests = tmp_path / "test_it.py"
    tests.write_text("def test_right():\n    pass\n\n\ndef test_wrong():\n    assert 2 + 2 == 5\n")
    with pytest.raises(AssertionError, match=r"(?s)ended with 1, and said.*assert \(2 \+ 2\) == 5.*1 failed, 1 passed"):
        run_tests(tests, "--confcutdir", tmp_path, environment=in_python())
    with pytest.raises(AssertionError, match="ended with 5, and said"):
        run_tests(tests, "--confcutdir", tmp_path, "-k", "nothing", environment=in_python())


# What our own kernels rely on: the line of a header, and what takes its place.
CHANGES = {
    "rows read behind scratch memory": (
        "matrix_product.h",
        "kRowsBehind = baseline::kTileRows - 1;",
        "kRowsBehind = 0;",
        HEAP,
    ),
    "scratch memory too short": (
        "aligned_buffer.h",
        "std::max<int64_t>(count, 1)) * sizeof(T)",
        "std::max<int64_t>(count, 1)) * sizeof(T) - 1",
        HEAP,
    ),
}


@pytest.mark.parametrize(("header", "text", "instead", "report"), CHANGES.values(), ids=CHANGES.keys())
def test_seen_by_the_tests_of_kernels(
    tmp_path: Path, header: str, text: str, instead: str, report: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A header of ours is changed in a copy, and tests of a kernel run with it on each instruction set."""
    original = (ROOT / "csrc" / "cpu" / header).read_text()
    assert original.count(text) == 1
    changed = tmp_path / "csrc" / "cpu" / header
    changed.parent.mkdir(parents=True)
    changed.write_text(original.replace(text, instead))
    recorder = load_recorder()
    for name, value in compiling().items():
        monkeypatch.setenv(name, value)
    source = ROOT / "generated" / "npu_mhc_post" / "npu_mhc_post.cc"
    kernel = recorder.compile_recorder(source, [tmp_path, ROOT], "cpu", tmp_path)
    for instructions in instruction_sets():
        monkeypatch.setenv("HYPER_PARALLEL_CPU_INSTRUCTIONS", instructions)
        with pytest.raises(RuntimeError, match=report):
            kernel.run(list(draw_post((3,), "float32", 3, 5).values()))
