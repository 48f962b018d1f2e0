# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Compiled libraries in the cache: found by content, built once, whatever happens on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import filelock
import pytest

from hyper_parallel.native import compiler as compiler_module
from hyper_parallel.native import kernels
from hyper_parallel.native.errors import EnvironmentFault, KernelBuildError
from hyper_parallel.native.library_cache import INDEX, WORK, NativeLibrary
from tests.compiler import needs_compiler
from tests.rank_processes import is_running

from .small_flavour import small_library

pytestmark = needs_compiler
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for sources, and a cache of this test's own."""
    monkeypatch.setenv("HPGEN_CACHE_DIR", str(tmp_path / "cache"))
    made = tmp_path / "sources"
    made.mkdir()
    return made


def answer(native: NativeLibrary) -> int:
    return kernels._loaded(native).answer()


def in_process(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A process that builds the small library and prints its path, or the error."""
    code = (
        "import sys; from pathlib import Path\n"
        "from tests.native.small_flavour import small_library\n"
        "from hyper_parallel.native.errors import KernelBuildError\n"
        "try: print(small_library(Path(sys.argv[1]), *sys.argv[2:]).build())\n"
        "except KernelBuildError as error: sys.exit(f'refused: {error}')\n"
    )
    command = [sys.executable, "-c", code, str(folder), *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_built_once_and_then_found(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    native = small_library(folder)
    assert native.find() is None
    assert answer(native) == 42
    assert "compiling the kernels of 2 operators for small" in capfd.readouterr().err
    assert answer(small_library(folder)) == 42
    assert native.build() == native.find()
    assert native.flavour.builds == 1
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("changed", ["npu_a.cc", "csrc/shared.h"])
def test_another_content_is_another_library(folder: Path, changed: str) -> None:
    before = small_library(folder)
    before.build()
    original = (folder / changed).read_text()
    (folder / changed).write_text(original + "int x;\n")
    after = small_library(folder)
    assert after.module != before.module
    assert after.find() is None
    (folder / changed).write_text(original)
    os.utime(folder / changed, (1, 1))  # the time does not count
    assert small_library(folder).find() == before.find()


def test_another_flag_is_another_library(folder: Path) -> None:
    assert small_library(folder, extra="int y;").module != small_library(folder).module


def test_another_compiler_is_another_build(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    native = small_library(folder)
    first = native.build()
    other = tmp_path / "other-g++"
    other.write_text('#!/bin/sh\nexec g++ "$@"\n')
    other.chmod(0o755)
    monkeypatch.setenv("CXX", str(other))
    assert native.find() is None
    assert native.build() != first
    monkeypatch.delenv("CXX")
    assert native.find() == first


def test_without_a_compiler_a_library_that_is_there_will_do(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One built ahead, on another machine."""
    native = small_library(folder)
    path = native.build()
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert small_library(folder).find() == path
    assert answer(small_library(folder)) == 42


def test_without_a_compiler(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    message = r"no C\+\+ compiler no-such-compiler \(\$CXX\): install one .* or set HYPER_PARALLEL_KERNELS=reference"
    with pytest.raises(EnvironmentFault, match=message):
        small_library(folder).build()


def test_a_compiler_that_does_not_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(EnvironmentFault, match=r"false does not run \(.*exit status 1\)"):
        small_library(folder).build()


def test_processes_at_once_build_once(folder: Path) -> None:
    started = [in_process(folder, "sleep 1") for _ in range(4)]
    found = {process.communicate(timeout=60)[0] for process in started}
    assert [process.returncode for process in started] == [0] * 4
    assert len(found) == 1
    assert small_library(folder, "sleep 1").flavour.builds == 1


def test_threads_at_once_build_once(folder: Path) -> None:
    native = small_library(folder, "sleep 0.3")
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(lambda _: native.build(), range(4)))) == 1
    assert native.flavour.builds == 1


def test_those_who_waited_fail_with_the_build(folder: Path) -> None:
    native = small_library(folder, "sleep 1; exit 1")
    started = [in_process(folder, "sleep 1; exit 1") for _ in range(3)]
    said = [process.communicate(timeout=60)[1] for process in started]
    assert [process.returncode for process in started] == [1] * 3
    assert all("refused: The library of the test could not be compiled for small" in text for text in said)
    assert native.flavour.builds == 1
    with pytest.raises(KernelBuildError):  # but whoever comes later tries again
        native.build()
    assert native.flavour.builds == 2


def test_a_compiler_error_shows_the_first_error_and_the_log(folder: Path) -> None:
    native = small_library(folder, extra="".join(f"int x{i} = nonsense{i};\n" for i in range(200)))
    with pytest.raises(KernelBuildError) as raised:
        native.build()
    lines = str(raised.value).splitlines()
    assert lines[0] == "The library of the test could not be compiled for small:"
    assert "error: 'nonsense0' undeclared" in lines[1]
    assert len(lines) <= 5
    log = Path(lines[-1].removeprefix("The whole log: "))
    assert log.read_text().count("error:") == 200
    assert native.find() is None
    assert not list(native.folder.glob(f"{WORK}*"))


def test_a_killed_build_leaves_nothing_in_the_way(folder: Path) -> None:
    native = small_library(folder, "sleep 60")
    process = in_process(folder, "sleep 60")
    deadline = time.monotonic() + 30
    while not native.flavour.builds:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    compiler = int(native.flavour.counter.read_text())
    process.kill()
    process.wait()
    os.killpg(os.getpgid(compiler), signal.SIGKILL)
    assert list(native.folder.glob(f"{WORK}*"))
    assert native.find() is None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler_module, "MOST_SECONDS", 1.0)
        with pytest.raises(KernelBuildError, match="has not ended within"):  # the lock is free, so it is tried
            native.build()
    assert native.flavour.builds == 2
    assert not list(native.folder.glob(f"{WORK}*"))


def test_a_build_that_takes_too_long_is_ended_with_all_it_started(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler_module, "MOST_SECONDS", 0.5)
    child = folder / "child.txt"
    native = small_library(folder, f"sleep 600 & echo $! > {child}; sleep 600")
    with pytest.raises(KernelBuildError, match="has not ended within"):
        native.build()
    deadline = time.monotonic() + 10
    while any(is_running(int(path.read_text())) for path in (child, native.flavour.counter)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("damage", ["half", "empty", "gone", "index"])
def test_a_damaged_library_is_built_again(folder: Path, damage: str) -> None:
    native = small_library(folder)
    path = native.build()
    if damage == "gone":
        path.unlink()
    elif damage == "index":
        path.with_name(INDEX).write_text("{")
    else:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 if damage == "half" else 0])
    assert native.find() is None
    assert answer(native) == 42
    assert native.flavour.builds == 2


def test_a_library_that_does_not_load_is_built_again(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As one copied from another machine, or made for another framework: whole, but of another ABI."""
    native = small_library(folder)
    _replace(native, b"\x7fELF of another machine")
    assert answer(native) == 42
    assert "cannot be loaded" in capfd.readouterr().err
    assert native.flavour.builds == 2


def test_a_new_library_that_does_not_load_is_an_error(folder: Path) -> None:
    native = small_library(folder, extra="void missing(void); __attribute__((constructor)) void f(void) { missing(); }")
    with pytest.raises(KernelBuildError, match=r"have been compiled but cannot be loaded: .*undefined symbol: missing"):
        answer(native)


def test_a_cache_that_cannot_be_written(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HPGEN_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(EnvironmentFault, match=r"cannot be kept|should be a folder") as raised:
        small_library(folder).build()
    assert "HPGEN_CACHE_DIR" in str(raised.value)


def test_a_cache_that_others_may_write_is_refused(folder: Path, tmp_path: Path) -> None:
    shared = tmp_path / "cache" / "native"
    shared.mkdir(parents=True)
    shared.chmod(0o777)
    with pytest.raises(EnvironmentFault, match="nobody else should be able to write to it"):
        small_library(folder)


def test_without_a_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HPGEN_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", staticmethod(nowhere))
    with pytest.raises(EnvironmentFault, match=r"no home folder .* set HPGEN_CACHE_DIR"):
        small_library(folder)


def _replace(native: NativeLibrary, data: bytes) -> None:
    """Put other bytes in the place of a library, under an index that agrees with them."""
    import hashlib
    import json

    path = native.build()
    path.write_bytes(data)
    os.utime(path, (1, 1))
    index = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    path.with_name(INDEX).write_text(json.dumps(index))


def test_a_compiler_with_arguments(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = small_library(folder).build()
    monkeypatch.setenv("CXX", "env 'g++'")
    native = small_library(folder)
    assert native.find() is None
    assert native.build() != plain
    assert answer(native) == 42


def test_quotes_that_do_not_match(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "g++ '-Wall")
    with pytest.raises(EnvironmentFault, match="CXX should be words, as in a shell: No closing quotation"):
        small_library(folder).build()


@pytest.mark.parametrize("compiler", ["no-such-compiler", "false", "other"])
def test_a_machine_that_cannot_compile_takes_what_is_there(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: str
) -> None:
    """As from an image that was built elsewhere: the cache may not be written, and the compiler is another one."""
    path = small_library(folder).build()
    other = tmp_path / "other"
    other.write_text('#!/bin/sh\nexec g++ "$@"\n')
    other.chmod(0o755)
    monkeypatch.setenv("CXX", str(other) if compiler == "other" else compiler)
    native = small_library(folder)

    def refuse(*_arguments: object, **_keywords: object) -> None:
        raise OSError(30, "Read-only file system", str(native.folder / ".lock"))

    monkeypatch.setattr(filelock, "FileLock", refuse)
    if compiler == "false":
        with pytest.raises(EnvironmentFault):  # asked for by name, it should run
            native.find()
        return
    assert answer(native) == 42
    assert (native.find() or native.find_of_others()) == path
    assert native.flavour.builds == 1


def test_a_folder_around_the_cache_that_others_may_write_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    with pytest.raises(EnvironmentFault, match="or to the one around it"):
        small_library(folder)
    (tmp_path / "cache").chmod(0o1777)  # as /tmp: what is there stays its owner's
    assert small_library(folder).build()


def test_what_failed_is_forgotten_once_it_compiles(folder: Path, tmp_path: Path) -> None:
    switch = tmp_path / "switch"
    native = small_library(folder, f"test -e {switch} || exit 1")
    with pytest.raises(KernelBuildError):
        native.build()
    assert (native.folder / "failed").exists()
    switch.touch()
    native.build()
    assert not (native.folder / "failed").exists()
