# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The shared C++ runner and the recorder, shown by a hand-written operator that has every kind of argument."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from recorder import Recorder, compile_recorder

from tests.compiler import needs_compiler

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXAMPLE = HERE / "example" / "npu_example.cc"
INCLUDES = [ROOT, HERE]

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def ascend(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    return compile_recorder(EXAMPLE, INCLUDES, "ascend", tmp_path_factory.mktemp("ascend"))


@pytest.fixture(scope="module")
def cpu(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    return compile_recorder(EXAMPLE, INCLUDES, "cpu", tmp_path_factory.mktemp("cpu"))


def test_every_kind_of_argument_arrives(ascend: Recorder) -> None:
    metadata, main = ascend.launches(
        ["tensor:bfloat16:2,3,5", "tensor:float32:1", "lengths:3,7", "str:BSN", "int:4", "float:1e-6", "bool:false"]
    )
    assert metadata.kernel == "aclnnExampleMetadata"
    assert metadata.arguments == ("ints [3, 7]", "int64 3", "int64 2", "str fixed", "temporary 0 int32 [64]")
    assert main.kernel == "aclnnExample"
    assert main.arguments == (
        "input 0",
        "input 1",
        "null tensor",
        "temporary 0 int32 [64]",
        "ints [3, 7]",
        "null ints",
        "ints [1, 2]",
        "int32 4",
        "double 9.9999999999999995e-07",
        "int64 -1",
        "double 0.5",
        "bool false",
        "bool true",
        "output 0 bfloat16 [2, 3, 5]",
        "output 1 float32 [8, 2, 3, 25]",
        "str BSN",
    )


def test_missing_arguments(ascend: Recorder) -> None:
    """A missing tensor is null, missing lengths are null or empty as the call says."""
    metadata, main = ascend.launches(
        ["tensor:float16:6,3", "none", "none", "str:TN", "int:1", "float:0.5", "bool:true"]
    )
    assert metadata.arguments[:2] == ("null ints", "int64 0")
    assert main.arguments[:6] == (
        "input 0",
        "null tensor",
        "null tensor",
        "temporary 0 int32 [64]",
        "ints []",
        "null ints",
    )
    assert main.arguments[-3:] == ("output 0 float16 [6, 3]", "output 1 float32 [2, 6, 9]", "str TN")


def test_views_are_made_contiguous(ascend: Recorder) -> None:
    _, main = ascend.launches(
        ["view:float16:6,3", "view:float16:6", "none", "str:TN", "int:1", "float:0.5", "bool:true"]
    )
    assert main.arguments[:2] == ("input 0", "input 1")


def test_second_operator_of_a_file(ascend: Recorder, cpu: Recorder) -> None:
    (launch,) = ascend.launches(["tensor:float32:4", "tensor:float32:4", "int:2"], op="npu_example_backward")
    assert launch.kernel == "aclnnExampleBackward"
    assert launch.arguments == ("input 0", "input 1", "int32 2", "output 0 float32 [4]")
    (grad_x,) = cpu.run([np.array([1, 2], np.float32), np.zeros(2, np.float32), 3], op="npu_example_backward")
    assert grad_x.tolist() == [3.0, 6.0]


def test_host_kernel_gets_the_same(cpu: Recorder) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    out, sums = cpu.run([x, x, [1, 2], "TN", 4, 0.25, False])
    np.testing.assert_array_equal(out, 2 * x)
    assert sums.ravel()[:15].tolist() == [2, 0, 1, 5, 0, 2, 0, 2, 4, 0.25, -1, 0.5, 0, 1, 2]
    out, sums = cpu.run([x[None], None, None, "BSN", 4, 0.25, True])
    np.testing.assert_array_equal(out, x[None])
    assert sums.ravel()[:15].tolist() == [-1, 2, 1, 5, 0, 0, 0, 2, 4, 0.25, -1, 0.5, 1, 1, 3]


X = "tensor:float32:6,3"
REST = ["float:1", "bool:true"]
FAILURES = {
    "unknown format": (
        [X, "none", "none", "str:NT", "int:1", *REST],
        "layout should be one of 'BSN', 'TN', but got 'NT'",
    ),
    "in the kernel": ([X, "none", "none", "str:TN", "int:101", *REST], "num_iters should be at most 100"),
    "too few": ([X], "has 7 arguments in C.., but 1 are given"),
    "wrong kind": ([X, "none", "none", "int:1", "int:1", *REST], "argument 3 is str in C"),
    "no tensor": (["none", "none", "none", "str:TN", "int:1", *REST], "argument 0 is a tensor in C"),
}


@pytest.mark.parametrize(("descriptions", "message"), FAILURES.values(), ids=FAILURES.keys())
def test_failures_carry_the_message(cpu: Recorder, descriptions: list[str], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        cpu.launches(descriptions)


BROKEN = {
    "a float, which no kernel takes": ("int64_t{-1},", "1.0f,", "deleted function|use of deleted"),
    "a literal string, which the framework copies wrongly": ('std::string("fixed")', '"fixed"', "std::string"),
    "an unused dim": (
        "const int64_t T = x.shape()[0];",
        "const int64_t T = 0, U = 0;",
        "unused variable",
    ),
    "a name that does not exist": ("    eps,\n", "    epsilon,\n", "epsilon"),
}


@pytest.mark.parametrize(("old", "new", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_mistakes_do_not_compile(tmp_path: Path, old: str, new: str, message: str) -> None:
    source = EXAMPLE.read_text()
    assert source.count(old) == 1
    broken = tmp_path / "npu_example.cc"
    broken.write_text(source.replace(old, new))
    with pytest.raises(RuntimeError, match=message):
        compile_recorder(broken, INCLUDES, "ascend", tmp_path)


def test_moved_argument_is_seen(tmp_path: Path) -> None:
    moved = tmp_path / "npu_example.cc"
    moved.write_text(
        EXAMPLE.read_text().replace("      eps,\n      int64_t{-1},\n", "      int64_t{-1},\n      eps,\n")
    )
    recorder = compile_recorder(moved, INCLUDES, "ascend", tmp_path)
    _, main = recorder.launches(["tensor:float16:6,3", "none", "none", "str:TN", "int:1", "float:0.5", "bool:true"])
    assert main.arguments[8:10] == ("int64 -1", "double 0.5")


def test_arithmetic_has_pythons_meaning(tmp_path: Path) -> None:
    """FloorDiv, FloorMod and CeilDiv against //, % and -(-a // b) for all signs; Factorial to its limit."""
    program = tmp_path / "arithmetic.cc"
    program.write_text(
        '#include <iostream>\n#include "csrc/arithmetic.h"\n'
        "using namespace hyper_parallel;\n"
        "int main() {\n"
        "  for (int64_t a = -7; a <= 7; ++a) for (int64_t b = -3; b <= 3; ++b) if (b != 0)\n"
        '    std::cout << FloorDiv(a, b) << " " << FloorMod(a, b) << " " << CeilDiv(a, b) << "\\n";\n'
        '  std::cout << Factorial(0) << " " << Factorial(20) << "\\n";\n'
        "  try { Factorial(21); } catch (const std::invalid_argument&) { return 0; }\n"
        "  return 1;\n"
        "}\n"
    )
    binary = tmp_path / "arithmetic"
    subprocess.run(["g++", "-std=c++17", "-Wall", "-Werror", f"-I{ROOT}", str(program), "-o", str(binary)], check=True)
    done = subprocess.run([str(binary)], capture_output=True, text=True, check=True)
    pairs = [(a, b) for a in range(-7, 8) for b in range(-3, 4) if b != 0]
    expected = [f"{a // b} {a % b} {-(-a // b)}" for a, b in pairs]
    assert done.stdout.splitlines() == [*expected, "1 2432902008176640000"]
