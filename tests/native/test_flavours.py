# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What a machine may lack, and which kernels a process takes."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path

import pytest

from hyper_parallel.native import compiler
from hyper_parallel.native.compiler import first_error
from hyper_parallel.native.errors import EnvironmentFault, KernelBuildError
from hyper_parallel.native.flavours import OWN_NAMESPACE, HostFlavour, MindSporeFlavour
from hyper_parallel.native.kernel_choice import NATIVE, REFERENCE, array_kernel, uses_reference
from hyper_parallel.native.kernels import native_kernel
from hyper_parallel.native.library_cache import native_library
from hyper_parallel.native.translation_unit import unit_of, units
from hyper_parallel.op_libraries import OperatorLibrary
from tests.compiler import needs_compiler


def test_a_word_that_is_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPER_PARALLEL_KERNELS", "fast")
    with pytest.raises(ValueError, match="HYPER_PARALLEL_KERNELS should be native or reference, but got 'fast'"):
        uses_reference(NATIVE)


@pytest.mark.parametrize(("word", "default", "expected"), [
    ("", NATIVE, False), ("", REFERENCE, True), ("native", REFERENCE, False), (" Reference ", NATIVE, True),
])  # fmt: skip
def test_the_platform_decides_if_nothing_is_said(
    word: str, default: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYPER_PARALLEL_KERNELS", word)
    assert uses_reference(default) is expected


def test_the_reference_is_never_taken_unasked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where kernels cannot be compiled, that is said."""
    monkeypatch.delenv("HYPER_PARALLEL_KERNELS")
    monkeypatch.setenv("HPGEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(KernelBuildError, match=r"no C\+\+ compiler.*set HYPER_PARALLEL_KERNELS=reference"):
        array_kernel("npu_dense_lightning_indexer_softmax_lse", NATIVE)


def test_without_ninja(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    fake = tmp_path / "g++"
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o755)
    with pytest.raises(
        EnvironmentFault, match="MindSpore builds with ninja, which is not installed: pip install ninja"
    ):
        MindSporeFlavour().command(tmp_path / "x.cc", (), "x")


def test_without_pybind11(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pybind11", None)
    with pytest.raises(EnvironmentFault, match="pybind11, which is not installed: pip install pybind11"):
        HostFlavour().command(tmp_path / "x.cc", (), "x")


def test_without_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    from hyper_parallel.native import translation_unit

    monkeypatch.setattr(translation_unit, "folder_of_package", lambda _name: None)
    with pytest.raises(EnvironmentFault, match=r"sources of hpgen .* are missing"):
        translation_unit.shared_sources()


@needs_compiler
def test_flags_are_part_of_the_content(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HPGEN_CACHE_DIR", str(tmp_path))
    (unit,) = units()
    plain = native_library(unit, HostFlavour())
    monkeypatch.setenv("HYPER_PARALLEL_CXXFLAGS", "-DX=1 '-DY=a b'")
    assert native_library(unit, HostFlavour()).module != plain.module
    assert "-DY=a b" in HostFlavour().command(tmp_path / "x.cc", (), "x")
    assert (
        native_library(unit, MindSporeFlavour("CPU")).module != native_library(unit, MindSporeFlavour("Ascend")).module
    )


def test_an_operator_without_a_kernel_is_refused_before_anything_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    from hyper_parallel import library

    entry = library.operator("npu_mhc_post")
    without = type(entry)(**{**vars(entry), "cpu_headers": ()})
    monkeypatch.setattr(library, "entry_of_kernel", lambda _kernel: without)
    with pytest.raises(KernelBuildError, match=r"npu_mhc_post_backward has no kernel for the CPU, .* \(kernel: cpu:\)"):
        native_kernel("npu_mhc_post_backward", HostFlavour())


def test_an_unknown_operator() -> None:
    with pytest.raises(LookupError, match="has no 'npu_none'"):
        native_kernel("npu_none", HostFlavour())


def test_a_library_from_outside_has_headers_of_its_own(tmp_path: Path) -> None:
    """Beside the folder of its generated files."""
    generated = tmp_path / "acme" / "generated"
    generated.mkdir(parents=True)
    outside = OperatorLibrary("acme", generated)
    assert tmp_path / "acme" not in unit_of(outside).includes
    (tmp_path / "acme" / "csrc").mkdir()
    assert unit_of(outside).includes[:2] == (generated, tmp_path / "acme")


def test_a_header_of_a_library_is_part_of_its_content(tmp_path: Path) -> None:
    generated, headers = tmp_path / "acme" / "generated", tmp_path / "acme" / "csrc" / "cpu"
    generated.mkdir(parents=True)
    headers.mkdir(parents=True)
    outside = OperatorLibrary("acme", generated)
    digests = [unit_of(outside).digest()]
    for text in ("// one", "// two"):
        (headers / "gated_add.h").write_text(text)
        digests.append(unit_of(outside).digest())
    (headers / "notes.txt").write_text("no source")
    assert len(set(digests)) == 3
    assert unit_of(outside).digest() == digests[-1]


def test_on_mindspore_each_module_has_a_namespace_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("hyper_parallel.native.flavours.shutil.which", lambda _name, path: "ninja")
    monkeypatch.setattr("hyper_parallel.native.flavours.needed_compiler", lambda: "g++")
    names = [
        json.loads(MindSporeFlavour().command(tmp_path / "x.cc", (), module)[-1])["cflags"].split()[0]
        for module in ("hp_a", "hp_b")
    ]
    assert names == ["-Dhyper_parallel=hyper_parallel_hp_a", "-Dhyper_parallel=hyper_parallel_hp_b"]


@needs_compiler
@pytest.mark.skipif(sys.platform != "linux", reason="symbols of one name are merged by Linux's loader")
@pytest.mark.parametrize(("own", "expected"), [(False, [1, 1]), (True, [1, 2])])
def test_what_a_namespace_of_its_own_is_for(tmp_path: Path, own: bool, expected: list[int]) -> None:
    """Two modules with a table of one name: without a namespace of its own the second one reads the first one's."""
    found = []
    for number in (1, 2):
        source, module = tmp_path / f"table{number}.cc", tmp_path / f"table{number}_{own}.so"
        source.write_text(
            "namespace hyper_parallel { inline int& Table() { static int table = "
            + str(number)
            + "; return table; } }\n"
            'extern "C" int read_table() { return hyper_parallel::Table(); }\n'
        )
        flags = [f"{OWN_NAMESPACE}{number}"] if own else []
        subprocess.run(["g++", "-std=c++17", "-fPIC", "-shared", *flags, source, "-o", module], check=True)
        found.append(ctypes.CDLL(str(module)).read_table())
    assert found == expected


@pytest.mark.parametrize(("log", "expected"), [
    ("In file x\nx.cc:1:2: error: no\n  1 | a\n    | ^\nx.cc:3: error: more", "x.cc:1:2: error: no\n  1 | a\n    | ^"),
    ("FAILED: x.o\ng++ -c x.cc\nx.cc:9:9: fatal error: y.h: No such file\n", "x.cc:9:9: fatal error: y.h: No such file"),
    ("ld: x.o: undefined reference to `f'\ncollect2: ...", "ld: x.o: undefined reference to `f'\ncollect2: ..."),
    ("g++: fatal error: Killed signal terminated program cc1plus", "g++: fatal error: Killed signal terminated program cc1plus"),
    ("one\ntwo\nthree\nfour", "two\nthree\nfour"),
    ("", "the compiler said nothing"),
])  # fmt: skip
def test_the_first_error_of_a_log(log: str, expected: str) -> None:
    assert first_error(log) == expected


def test_what_an_assertion_has_found_is_shown() -> None:
    log = "\n".join([
        "x.h:1:2: error: static assertion failed: f should take an integer",
        "    1 |   Right<T>::value",
        "      |             ^~~~~",
        "x.cc:3:4: note: in expansion of macro 'CHECK'",
        "x.h:1:2: note: 'Right<double>::value' evaluates to false",
        "x.h:9:2: error: static assertion failed: g should take an integer",
        "x.h:9:2: note: 'Right<char>::value' evaluates to false",
    ])  # fmt: skip
    lines = log.splitlines()
    assert first_error(log).splitlines() == [*lines[:3], lines[4]]
    assert first_error("\n".join([lines[0], *lines[5:]])).splitlines() == [lines[0], *lines[5:]]


def test_a_very_long_line_is_cut() -> None:
    assert len(first_error("x.cc:1: error: " + "y" * 10_000)) == compiler.MOST_SHOWN


@pytest.mark.parametrize(("flags", "stripped"), [("", True), ("-O1 -g0", True), ("-g", False), ("-O1 -g1", False)])
def test_symbols_are_kept_for_who_asks(
    flags: str, stripped: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HYPER_PARALLEL_CXXFLAGS", flags)
    assert ("-s" in HostFlavour().command(tmp_path / "x.cc", (), "x")) is stripped
