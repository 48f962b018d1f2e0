# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What the host kernels are made of: exponential, logarithm, rounding to 16 bits, and loops over threads."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from hyper_parallel.native.flavours import KERNEL_FLAGS, user_flags
from tests.compiler import needs_compiler

ROOT = Path(__file__).resolve().parents[2]
INSTRUCTIONS = ("baseline", "avx2", "avx512")

pytestmark = needs_compiler


class Driver:
    """lanes/driver.cc, compiled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.binary = folder / "driver"
        source = ROOT / "tests/cpp/lanes/driver.cc"
        includes = [f"-I{ROOT}", f"-I{ROOT / 'tests/cpp'}"]
        command = [
            "g++",
            "-std=c++17",
            *KERNEL_FLAGS,
            *user_flags(),
            "-pthread",
            "-Wall",
            "-Wextra",
            "-Werror",
            *includes,
            str(source),
        ]
        done = subprocess.run(
            [*command, "-o", str(self.binary)], capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stderr

    def run(self, part: str, values: NDArray[np.float32], dtype: Any = np.float32) -> NDArray[Any]:
        given, made = self.folder / "given.bin", self.folder / "made.bin"
        given.write_bytes(values.astype(np.float32).tobytes())
        command = [str(self.binary), part, str(given), str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        return np.frombuffer(made.read_bytes(), dtype=dtype)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    return Driver(tmp_path_factory.mktemp("lanes"))


@pytest.fixture(params=INSTRUCTIONS)
def vectors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, driver: Driver) -> Driver:
    """The driver on each instruction set that the processor has."""
    monkeypatch.setenv("HYPER_PARALLEL_CPU_INSTRUCTIONS", request.param)
    try:
        driver.run("exp", np.zeros(16, np.float32))
    except RuntimeError as error:
        if "this processor should have it" not in str(error):
            raise
        pytest.skip(f"this processor has no {request.param}")
    return driver


def units_in_the_last_place(got: NDArray[np.float32], exact: NDArray[np.float64]) -> NDArray[np.float64]:
    """The errors in distances of floats around the exact values; of subnormals, in steps of these."""
    spacing = np.spacing(np.maximum(np.abs(exact), float(np.finfo(np.float32).smallest_normal)).astype(np.float32))
    error: NDArray[np.float64] = np.abs(got - exact) / spacing
    return error


def test_exponential(vectors: Driver) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [np.linspace(-104, 88.72, 400_000), rng.uniform(-1, 1, 100_000), np.geomspace(1e-30, 1e-3, 1600)]
    )
    x = np.concatenate([x, -x[-1600:]]).astype(np.float32)
    got = vectors.run("exp", x)
    assert units_in_the_last_place(got, np.exp(x.astype(np.float64))).max() <= 1.0


def test_exponential_at_the_ends(vectors: Driver) -> None:
    x = np.array([0.0, -0.0, -np.inf, np.inf, np.nan, -104.1, -1e30, 88.73, 1e30, -np.nan, *[0.0] * 6])
    expected = [1, 1, 0, np.inf, np.nan, 0, 0, np.inf, np.inf, np.nan, *[1] * 6]
    np.testing.assert_array_equal(vectors.run("exp", x.astype(np.float32)), np.array(expected, np.float32))


def test_logarithm(vectors: Driver) -> None:
    x = np.concatenate([np.geomspace(1.2e-38, 3.4e38, 400_000), 1 + np.linspace(-0.3, 0.45, 400_000)]).astype(
        np.float32
    )
    assert units_in_the_last_place(vectors.run("log", x), np.log(x.astype(np.float64))).max() <= 2.0
    ends = np.array([1.0, np.inf, np.nan, *[1.0] * 13], np.float32)
    np.testing.assert_array_equal(vectors.run("log", ends), np.log(ends))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rounding_to_16_bits(driver: Driver, dtype: str) -> None:
    """All numbers of the type, what lies between neighbours, and both sides of that."""
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16)
    numbers = np.arange(2**16, dtype=np.uint16).view(kind).astype(np.float32)
    finite = np.sort(numbers[np.isfinite(numbers)])
    middles = ((finite[1:].astype(np.float64) + finite[:-1]) / 2).astype(np.float32)
    overflow = np.array([1, -1], np.float32) * np.float32(65520 if dtype == "float16" else 3.3961776e38)
    x = np.concatenate([numbers, middles, overflow])
    with np.errstate(invalid="ignore"):
        x = np.concatenate([x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-np.inf))])
    got = driver.run(dtype, x, kind)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = x.astype(kind)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(x))
    np.testing.assert_array_equal(got.view(np.uint16)[~np.isnan(x)], expected.view(np.uint16)[~np.isnan(x)])


@pytest.mark.parametrize("threads", ["1", "2", "3", "16"])
def test_loops_over_threads(driver: Driver, monkeypatch: pytest.MonkeyPatch, threads: str) -> None:
    monkeypatch.setenv("HYPER_PARALLEL_CPU_THREADS", threads)
    np.testing.assert_array_equal(driver.run("loops", np.zeros(0)), 1.0)
    assert driver.run("threads", np.zeros(0)) == [int(threads)]


@pytest.mark.parametrize("threads", ["0", "-1", "two", "2 ", "10000000000"])
def test_wrong_numbers_of_threads(driver: Driver, monkeypatch: pytest.MonkeyPatch, threads: str) -> None:
    monkeypatch.setenv("HYPER_PARALLEL_CPU_THREADS", threads)
    with pytest.raises(RuntimeError, match=f"HYPER_PARALLEL_CPU_THREADS should be .* 1024, but is '{threads}'"):
        driver.run("threads", np.zeros(0))


def test_unknown_instruction_set(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPER_PARALLEL_CPU_INSTRUCTIONS", "sse9")
    with pytest.raises(RuntimeError, match=r"HYPER_PARALLEL_CPU_INSTRUCTIONS should be .*, but is 'sse9'"):
        driver.run("exp", np.zeros(16))
