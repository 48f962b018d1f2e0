# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A flavour that compiles in a moment: an extension module in C, of one function, that counts how often it is built."""

from __future__ import annotations

import shlex
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hyper_parallel.native.compiler import needed_compiler
from hyper_parallel.native.flavours import Flavour
from hyper_parallel.native.library_cache import NativeLibrary, native_library
from hyper_parallel.native.translation_unit import TranslationUnit

MODULE = """
#include <Python.h>
#define PASTE(a, b) a##b
#define INIT(name) PASTE(PyInit_, name)
static PyObject* answer(PyObject* self, PyObject* args) { return PyLong_FromLong(42); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, ""}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "small", "", -1, methods};
PyMODINIT_FUNC INIT(NAME)(void) { return PyModule_Create(&module); }
"""


@dataclass(frozen=True)
class SmallFlavour(Flavour):
    """`before` is a shell command that runs first; `counter` gets a line for every build."""

    folder: str
    before: str = "true"
    extra: str = ""
    name: ClassVar[str] = "small"
    duration: ClassVar[str] = "a moment"

    @property
    def counter(self) -> Path:
        return Path(self.folder, "builds.txt")

    @property
    def builds(self) -> int:
        return len(self.counter.read_text().splitlines()) if self.counter.exists() else 0

    def fingerprint(self) -> tuple[str, ...]:
        return (self.before, self.extra)

    def command(self, source: Path, includes: tuple[Path, ...], module: str) -> list[str]:
        code = source.with_name("small.c")
        code.write_text(MODULE + self.extra)
        compile_it = [
            *needed_compiler(),
            *("-x", "c", "-shared", "-fPIC", f"-DNAME={module}", f"-I{sysconfig.get_paths()['include']}", str(code)),
            *("-o", str(source.with_name(f"{module}.so"))),
        ]
        counted = f"echo $$ >> {shlex.quote(str(self.counter))}"
        return ["sh", "-c", f"{counted}; {self.before}; exec {shlex.join(compile_it)}"]


def small_library(folder: Path, before: str = "true", extra: str = "") -> NativeLibrary:
    """The library of two made-up operators whose sources lie in the folder."""
    (folder / "csrc").mkdir(exist_ok=True)
    for name in ("npu_a.cc", "npu_b.cc", "csrc/shared.h"):
        if not (folder / name).exists():
            (folder / name).write_text(f"// {name}\n")
    unit = TranslationUnit("The library of the test", ("npu_a.cc", "npu_b.cc"), (folder,))
    return native_library(unit, SmallFlavour(str(folder), before, extra))
