# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The kernels that libraries from outside bring: each is compiled with its own headers, and again when they change."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from hyper_parallel.native.flavours import HostFlavour
from hyper_parallel.native.translation_unit import shared_sources
from tests.operator_library import ON_NUMPY, ON_TORCH, OP, WITHOUT_REFERENCES, install, rename, run_with

NATIVE = {"HYPER_PARALLEL_KERNELS": "native"}
HEADER = Path("csrc", "cpu", "gated_add.h")


@pytest.mark.parametrize(("platform", "script"), [("numpy", ON_NUMPY), ("torch", ON_TORCH)])
def test_plain_and_sharded_and_gradients(tmp_path: Path, platform: str, script: str) -> None:
    install(tmp_path)
    assert run_with(tmp_path, script=WITHOUT_REFERENCES + script, platform=platform, **NATIVE) == "right\n"


def test_every_type_and_every_number_of_threads(tmp_path: Path) -> None:
    """More channels than a thread takes at a time. Computed in double, so that only the last rounding may differ."""
    install(tmp_path)
    script = """
import ml_dtypes
import numpy as np
from hyper_parallel.native.flavours import HostFlavour
from hyper_parallel.native.kernels import native_kernel

from acme_ops.specs.reference.gated_add import backward, forward

rng = np.random.default_rng(0)
for shape in (3, 5, 600), (7, 1), (0, 4), (2, 0):
    for dtype in (ml_dtypes.bfloat16, np.float16, np.float32, np.float64):
        x, branch = (rng.normal(size=shape).astype(dtype) for _ in range(2))
        gate = rng.normal(size=shape[-1:]).astype(np.float64 if dtype is np.float64 else np.float32)
        for name, reference in (("acme_gated_add", forward), ("acme_gated_add_backward", backward)):
            found, wanted = native_kernel(name, HostFlavour())(x, branch, gate), reference(x, branch, gate)
            for value, expected in zip(found, wanted, strict=True):
                assert (value.shape, value.dtype) == (expected.shape, expected.dtype)
                eps = float(ml_dtypes.finfo(expected.dtype).eps)
                wide = value.astype(np.float64), expected.astype(np.float64)
                np.testing.assert_allclose(*wide, rtol=8 * eps, atol=8 * eps)
            print(name, *(value.tobytes().hex() for value in found))
"""
    one, three = (run_with(tmp_path, script=script, HYPER_PARALLEL_CPU_THREADS=count) for count in ("1", "3"))
    assert one == three
    assert len(one.splitlines()) == 32


def test_what_the_kernel_cannot_compute(tmp_path: Path) -> None:
    """Called past the checks of the public function: an error that names operator and argument, no wrong numbers."""
    install(tmp_path)
    script = """
import numpy as np
from hyper_parallel.native.flavours import HostFlavour
from hyper_parallel.native.kernels import native_kernel
for name, gate in ("acme_gated_add", np.ones(4)), ("acme_gated_add_backward", np.ones(3, int)):
    try:
        native_kernel(name, HostFlavour())(np.ones((2, 3)), np.ones((2, 3)), gate)
    except (TypeError, ValueError) as error:
        print(error)
"""
    shape, dtype = run_with(tmp_path, script=script).splitlines()
    assert re.match(r"For acme_gated_add, D \(dim 0\) of gate should be 3, but ", shape), shape
    assert re.match(r"For acme_gated_add_backward, gate should .* int64\.$", dtype), dtype


def test_two_libraries_with_headers_of_one_name(tmp_path: Path) -> None:
    """The other one subtracts; its functions have the names of the first one's but for the operator's own."""
    install(tmp_path)
    other = install(tmp_path, "other_ops")
    rename(other, "other_gated_add")
    text = (other / HEADER).read_text()
    assert text.count("stream[d] += opening[d]") == 1
    text = text.replace(OP, "other_gated_add").replace("stream[d] += opening[d]", "stream[d] -= opening[d]")
    (other / HEADER).write_text(text)
    script = (
        WITHOUT_REFERENCES
        + """
import numpy as np
from hyper_parallel import custom_ops, library
from hyper_parallel.native.flavours import HostFlavour
from hyper_parallel.native.kernels import native_module

x, branch, gate = np.full((2, 3), 5.0), np.full((2, 3), 2.0), np.zeros(3)
for _ in range(2):
    assert np.array_equal(custom_ops.acme_gated_add(x, branch, gate), np.full((2, 3), 6.0))
    assert np.array_equal(custom_ops.other_gated_add(x, branch, gate), np.full((2, 3), 4.0))
_, acme, other = library.catalogue().libraries
for each, op in (acme, "acme_gated_add"), (other, "other_gated_add"):
    found = vars(native_module(each, HostFlavour()))
    assert sorted(name for name in found if not name.startswith("_")) == [op, op + "_backward"], found
print("apart")
"""
    )
    assert run_with(tmp_path, script=script, **NATIVE) == "apart\n"


CALL = f"""
import numpy as np
from hyper_parallel import custom_ops
from hyper_parallel.native.errors import KernelBuildError
try:
    custom_ops.{OP}(np.ones((2, 3)), np.ones((2, 3)), np.ones(3))
except KernelBuildError as error:
    print(error)
"""


def test_a_header_that_is_missing(tmp_path: Path) -> None:
    package = install(tmp_path)
    (package / HEADER).unlink()
    said = run_with(tmp_path, script=CALL, HPGEN_CACHE_DIR=tmp_path / "cache", **NATIVE)
    assert said == (
        f"the spec of {OP} names the kernel's header 'gated_add.h' (kernel: cpu:), and there is no {package / HEADER}\n"
    )


@pytest.mark.parametrize(
    "parameters",
    [
        "const TensorView&, double, const TensorView&, const TensorView&",
        "const TensorView&, const TensorView&, const TensorView&",
        "TensorView*, const TensorView&, const TensorView&, const TensorView&",
    ],
    ids=["type", "count", "pointer"],
)
def test_a_kernel_that_takes_other_arguments(tmp_path: Path, parameters: str) -> None:
    header = install(tmp_path) / HEADER
    text = header.read_text()
    first = text.index(f"inline void {OP}(")
    last = text.index("\n}\n", first) + len("\n}\n")
    header.write_text(f"{text[:first]}inline void {OP}({parameters}) {{}}\n{text[last:]}")
    said = run_with(tmp_path, script=CALL, HPGEN_CACHE_DIR=tmp_path / "cache", **NATIVE)
    assert f"cpu::{OP} should take the arguments of the kernel call in their order, each by its own type" in said


def test_a_number_is_not_taken_as_another_one(tmp_path: Path) -> None:
    """C++ would make an integer of a double without a word."""
    source = tmp_path / "number.cc"
    source.write_text(
        '#include "csrc/runner.h"\n'
        "inline void f(int64_t) {}\n"
        "void g() { HP_CPU_KERNEL(f)(int64_t{1}); }\n"
        "#ifdef WRONG\nvoid h() { HP_CPU_KERNEL(f)(0.9); }\n#endif\n"
    )
    command = HostFlavour().command(source, (shared_sources(),), "number")
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    refused = subprocess.run([*command, "-DWRONG"], check=False, capture_output=True, text=True)
    assert "f should take the arguments of the kernel call in their order, each by its own type" in refused.stderr


def test_a_kernel_by_another_name(tmp_path: Path) -> None:
    header = install(tmp_path) / HEADER
    header.write_text(header.read_text().replace(f"inline void {OP}(", "inline void gated_add("))
    said = run_with(tmp_path, script=CALL, HPGEN_CACHE_DIR=tmp_path / "cache", **NATIVE)
    first, second, *_ = said.splitlines()
    assert first == "The operator library 'acme' (acme-ops 1.0.0) could not be compiled for host:"
    assert f"'{OP}' is not a member of 'hyper_parallel::cpu'" in second
    assert "The whole log: " in said
