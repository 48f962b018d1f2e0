# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""hpgen build, on a library that is compiled in a moment."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hpgen.cli import main
from hyper_parallel.native import flavours, translation_unit
from tests.compiler import needs_compiler

from .small_flavour import SmallFlavour, small_library

pytestmark = needs_compiler


@pytest.fixture
def flavour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallFlavour:
    """Stands for that of the host; its only library is the small one."""
    monkeypatch.setenv("HPGEN_CACHE_DIR", str(tmp_path / "cache"))
    native = small_library(tmp_path)
    monkeypatch.setattr(flavours, "HostFlavour", lambda: native.flavour)
    monkeypatch.setattr(translation_unit, "units", lambda: [native.unit])
    assert isinstance(native.flavour, SmallFlavour)
    return native.flavour


def build(*options: str) -> Result:
    return CliRunner().invoke(main, ["build", *options])


def test_compiled_once(flavour: SmallFlavour) -> None:
    first, second = build("-p", "host"), build("-p", "host")
    assert first.output.startswith(
        "hyper_parallel: compiling the kernels of 2 operators for small; this takes about a moment"
    )
    assert "host: 2 operators of The library of the test, compiled in " in first.output
    assert second.output.startswith("host: 2 operators of The library of the test, up to date: ")
    assert (first.exit_code, second.exit_code, flavour.builds) == (0, 0, 1)


def test_again(flavour: SmallFlavour) -> None:
    build("-p", "host")
    assert "compiled in " in build("-p", "host", "--again").output
    assert flavour.builds == 2


def test_clean(flavour: SmallFlavour, tmp_path: Path) -> None:
    build("-p", "host")
    result = build("--clean")
    assert (result.exit_code, result.output) == (0, f"removed: {tmp_path / 'cache' / 'native'}\n")
    assert not (tmp_path / "cache" / "native").exists()
    assert build("--clean").exit_code == 0
    assert flavour.builds == 1


def test_what_is_missing_is_said(flavour: SmallFlavour, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    result = build("-p", "host")
    assert (result.exit_code, flavour.builds) == (2, 0)
    assert result.output.startswith("error: the kernels have to be compiled, and there is no C++ compiler no-such-comp")


def test_an_unknown_platform() -> None:
    result = build("-p", "jax")
    assert result.exit_code == 2
    assert "'jax' is not one of 'host', 'torch', 'numpy', 'mindspore'" in result.output
