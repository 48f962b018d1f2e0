# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Doubles become 16-bit floats by one rounding."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np

from hyper_parallel.native.flavours import user_flags
from tests.compiler import needs_compiler

ROOT = Path(__file__).resolve().parents[2]
SOURCE = """
#include "csrc/cpu/tensor_view.h"
extern "C" void round_to_float16(const double* values, int64_t count, void* rounded) {
  using namespace hyper_parallel::cpu;
  StoreElements(values, 0, count, {rounded, DType::kFloat16, {count}});
}
"""

pytestmark = needs_compiler


def test_doubles_are_rounded_to_float16_once(tmp_path: Path) -> None:
    """Beside a tie of float16, by less than float can tell: rounding to float first would make the tie of it."""
    source, library = tmp_path / "half.cc", tmp_path / "half.so"
    source.write_text(SOURCE)
    flags = ["-std=c++17", "-O3", "-shared", "-fPIC", f"-I{ROOT}", *user_flags()]
    subprocess.run(["g++", *flags, source, "-o", library], check=True)
    numbers = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    ties = (numbers[:-1] + numbers[1:]) / 2
    values = np.concatenate([sign * ties * (1 + near * 2.0**-40) for sign in (1, -1) for near in (-1, 0, 1)])
    values = np.append(values, [1e300, -np.inf, 65520 - 1e-9, 2.0**-25, 5e-324])
    rounded = np.empty(len(values), dtype=np.uint16)
    ctypes.CDLL(str(library)).round_to_float16(
        values.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(len(values)), rounded.ctypes.data_as(ctypes.c_void_p)
    )
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(rounded, values.astype(np.float16).view(np.uint16))
