# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Compile a generated .cc file against the recording stand-in and see what it launches.

Needs g++ only and takes seconds; the generated file and csrc/ are compiled unchanged.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from hyper_parallel.native.flavours import KERNEL_FLAGS, user_flags

Flavour = Literal["ascend", "cpu"]
RECORDING = Path(__file__).resolve().parent / "recording"


@dataclass(frozen=True)
class Launch:
    """One kernel call, its arguments in order and in words.

    ``input 0`` (by position in the API; ``input 0 strided`` if it is not contiguous), ``output 1 float32 [2, 1, 4]``,
    ``temporary 0 int32 [64]``, ``null tensor``, ``ints [3, 7]``, ``ints []``, ``null ints``, ``str TND``, ``int64 3``,
    ``int32 3``, ``double 0.5``, ``bool true``, ``dtype float32``.
    """

    kernel: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Call:
    """What one call of the operator did: its launches (Ascend flavour only) and its outputs."""

    launches: list[Launch]
    outputs: list[str]
    contents: list[NDArray[Any]]


@dataclass(frozen=True)
class Recorder:
    """A compiled operator, ready to be called. The descriptions of arguments are listed in recording/module.h."""

    binary: Path
    op: str

    def launches(self, descriptions: Sequence[str], op: str | None = None) -> list[Launch]:
        """The kernel launches of one call; ``op`` names another operator of the same file, such as a backward.

        RuntimeError with the operator's message if it fails.
        """
        return self.call(descriptions, op).launches

    def run(self, arguments: Sequence[Any], op: str | None = None) -> list[NDArray[Any]]:
        """The outputs for actual arguments: arrays, None, lists of lengths, str, int, float, bool (CPU flavour)."""
        with tempfile.TemporaryDirectory() as folder:
            descriptions = [describe(value, Path(folder) / f"{i}.bin") for i, value in enumerate(arguments)]
            return self.call(descriptions, op).contents

    def call(self, descriptions: Sequence[str], op: str | None = None) -> Call:
        with tempfile.TemporaryDirectory() as folder:
            command = [str(self.binary), op or self.op, folder, *descriptions]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
            if done.returncode != 0:
                raise RuntimeError(done.stderr.strip() or f"{self.binary.name} ended with {done.returncode}")
            record = json.loads(done.stdout)
            contents = [read(Path(folder) / f"output{i}.bin", text) for i, text in enumerate(record["outputs"])]
        launches = [Launch(launch["kernel"], tuple(launch["arguments"])) for launch in record["launches"]]
        return Call(launches, record["outputs"], contents)


def compile_recorder(cc_path: Path, include_dirs: Sequence[Path], flavour: Flavour, build_dir: Path) -> Recorder:
    """Compile ``cc_path`` (named after its operator) with warnings as errors.

    ``include_dirs`` holds the folder that contains csrc/. RuntimeError with the compiler's output if it fails.
    """
    csrc = next((folder / "csrc" for folder in include_dirs if (folder / "csrc" / "module.cc").is_file()), None)
    if csrc is None:
        raise ValueError(f"none of the include folders contains csrc/module.cc: {[str(p) for p in include_dirs]}")
    build_dir.mkdir(parents=True, exist_ok=True)
    binary = build_dir / f"{cc_path.stem}_{flavour}"
    command = [
        "g++",
        "-std=c++17",
        "-pthread",
        # At -O3 g++ 12 takes the copy of an empty vector for one from a null pointer.
        *(["-O1", "-DCUSTOM_ASCEND_OP"] if flavour == "ascend" else [*KERNEL_FLAGS, "-Wno-nonnull", *user_flags()]),
        "-Wall",
        "-Wextra",
        "-Werror",
        "-DMS_EXTENSION_NAME=recorded",
        *(f"-I{folder}" for folder in (RECORDING, *include_dirs)),
        str(cc_path),
        str(csrc / "module.cc"),
        str(RECORDING / "driver.cc"),
        "-o",
        str(binary),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"{cc_path.name} does not compile in the {flavour} flavour:\n{done.stderr}")
    return Recorder(binary, cc_path.stem)


def compile_object(source: Path, include_dirs: Sequence[Path], *flags: str) -> str:
    """What the compiler says of a source in the Ascend flavour, warnings as errors; empty if it takes it."""
    command = [
        "g++",
        "-std=c++17",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-DCUSTOM_ASCEND_OP",
        "-DMS_EXTENSION_NAME=recorded",
        *flags,
        *(f"-I{folder}" for folder in (RECORDING, *include_dirs)),
        "-c",  # not -fsyntax-only, which leaves templates out
        str(source),
        "-o",
        os.devnull,
    ]
    environment = {**os.environ, "LC_ALL": "C"}  # plain quotes
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)
    return done.stderr


def describe(value: Any, path: Path) -> str:
    """An actual argument in the driver's words; an array's bytes are written to ``path``."""
    if value is None:
        return "none"
    if isinstance(value, np.ndarray):
        path.write_bytes(np.ascontiguousarray(value).tobytes())
        return f"tensor:{value.dtype}:{','.join(map(str, value.shape))}@{path}"
    if isinstance(value, (list, tuple)):
        return f"lengths:{','.join(map(str, value))}"
    if isinstance(value, bool):
        return f"bool:{str(value).lower()}"
    for kind, word in ((str, "str"), (int, "int"), (float, "float")):
        if isinstance(value, kind):
            return f"{word}:{value}"
    raise TypeError(f"an operator takes no {type(value).__name__}")


def read(path: Path, description: str) -> NDArray[Any]:
    """The array in ``path``, described as ``float32 [2, 1, 4]``."""
    dtype, extents = description.split(" ", 1)
    element = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    return np.frombuffer(path.read_bytes(), dtype=element).reshape(json.loads(extents))
