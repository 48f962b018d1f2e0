# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A CANN toolkit without an NPU: `csrc/fake_cann`, compiled, in a folder laid out as CANN's.

Run:  python -m tests.ascend.toolkit [--sanitize] COMMAND [ARGUMENT...]

runs the command with the environment in which MindSpore finds the toolkit: its default device is then Ascend, and all
of it is MindSpore's own code but for the device. The toolkit is made when it is needed, and kept by its contents.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import filelock

from hpgen.user_cache import default_folder
from hyper_parallel.native.compiler import compiler_identity, needed_compiler
from hyper_parallel.native.errors import KernelBuildError
from hyper_parallel.native.flavours import KERNEL_FLAGS
from tests.ascend import public_headers, unimplemented_entries
from tests.sanitizers import sanitized

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "csrc" / "fake_cann"
FLAGS = (
    "-std=c++17",
    "-fPIC",
    "-pthread",
    "-D_GLIBCXX_USE_CXX11_ABI=0",  # as MindSpore and CANN
    "-Dhyper_parallel=fake_cann_kernels",  # its kernels are not those of another library in the process
)
LOG_LEVEL = "GLOG_v"
PROTOTYPES = ("prototypes.h", "example_prototypes.h")
LIBRARY = "libascendcl.so"
OTHER_NAMES = (
    "libopapi libnnopbase libge_runner libgraph libmsprofiler libhccl libruntime libplatform libc_sec libascend_hal "
    "libacl_tdt_channel libacl_op_compiler driver/libascend_hal"
).split()
"""All of them are this library: whoever opens one finds what is there, and nothing else."""
ALLOCATOR = """
#include <memory>
namespace ge {
class Allocator;
using AllocatorPtr = std::shared_ptr<Allocator>;
}  // namespace ge
"""
"""A name of the graph engine that MindSpore's headers use and the public ones do not declare."""


@dataclass(frozen=True)
class Toolkit:
    """A toolkit in two folders, so that what is compiled with the headers does not depend on the device.

    Attributes:
        headers: CANN's folder, as `ASCEND_OPP_PATH` names it: include/, opp/, and what is linked with.
        libraries: The folder of the device.
        sanitized: Whether it looks for errors of memory and for undefined behaviour.
    """

    headers: Path
    libraries: Path
    sanitized: bool

    def environment(self) -> dict[str, str]:
        """The variables in which a process runs on it."""
        found = {
            **os.environ,
            "ASCEND_OPP_PATH": str(self.headers / "opp"),
            "LD_LIBRARY_PATH": str(self.libraries),
            # MindSpore says at every start which of CANN's Python packages, for graphs, it misses: less with this.
            LOG_LEVEL: os.environ.get(LOG_LEVEL, "4"),
        }
        if self.sanitized:
            sanitizing = sanitized.in_python()
            found |= {name: sanitizing[name] for name in ("LD_PRELOAD", "ASAN_OPTIONS", "UBSAN_OPTIONS")}
            # A Python tuple's items are an array of one element that is longer, which the strict check does not forgive.
            found["HYPER_PARALLEL_CXXFLAGS"] = " ".join([*sanitized.FLAGS, "-fno-sanitize=bounds-strict"])
        return found


def toolkit(with_sanitizers: bool = False) -> Toolkit:
    """The toolkit, made if there is none of these sources."""
    base = default_folder()
    if base is None:
        raise KernelBuildError("there is no home folder to keep the toolkit in; set HPGEN_CACHE_DIR to a folder")
    base = base.absolute() / "fake-cann"
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    public = base / f"torch-npu-{public_headers.version()}"
    headers = base / f"headers-{_digest(*(SOURCES / name for name in PROTOTYPES))}" / "Ascend" / "cann"
    flags = [*FLAGS, *KERNEL_FLAGS, *(sanitized.FLAGS if with_sanitizers else ())]
    sources = [*SOURCES.glob("*"), *(ROOT / "csrc" / "cpu").glob("*.h")]
    # MindSpore takes only a folder of such a name for CANN's.
    libraries = base / f"device-{_digest(*sources, others=flags)}" / "Ascend" / "cann" / "lib64"
    lock = filelock.FileLock(base / ".lock")
    try:
        lock.acquire(timeout=2)
    except filelock.Timeout:
        print("waiting for another process that makes the fake CANN", file=sys.stderr, flush=True)
        lock.acquire()
    with lock:
        lock.release()  # once for the two times that it has been acquired
        for left in base.glob(".work-*"):  # by a process that was ended
            shutil.rmtree(left, ignore_errors=True)
        if not public.is_dir():
            _put(public, public_headers.unpack)
        if not headers.is_dir():
            _put(headers.parents[1], lambda work: _make_headers(work / "Ascend" / "cann", public))
        if not libraries.is_dir():
            _put(
                libraries.parents[2],
                lambda work: _compile(work / libraries.relative_to(libraries.parents[2]), headers / "include", flags),
            )
        linked = headers / "lib64" / LIBRARY
        linked.unlink(missing_ok=True)
        linked.symlink_to(libraries / LIBRARY)
    return Toolkit(headers, libraries, with_sanitizers)


def _put(folder: Path, make: Callable[[Path], None]) -> None:
    """Make a folder as a whole, or not at all."""
    work = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".work-"))
    try:
        make(work)
        work.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _digest(*sources: Path, others: Iterable[str] = ()) -> str:
    """A hash of the sources, of how they are compiled, and of what makes a toolkit of them."""
    found = hashlib.sha256()
    versions = (compiler_identity(needed_compiler()), metadata.version("mindspore"), public_headers.version())
    for part in (*versions, *others):
        found.update(f"{part}\0".encode())
    for path in (
        *sorted(sources),
        *(Path(module.__file__) for module in (public_headers, unimplemented_entries)),
        Path(__file__),
    ):
        found.update(f"{path.name}\0".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def _make_headers(cann: Path, public: Path) -> None:
    """CANN's folder without its libraries."""
    include = cann / "include"
    (cann / "opp").mkdir(parents=True)
    (cann / "lib64").mkdir()
    shutil.copytree(public / "acl" / "inc", include)
    shutil.copytree(public / "hccl" / "inc" / "hccl", include / "hccl")
    shutil.copytree(public / "hccl", include / "third_party" / "hccl")
    with (include / "graph" / "types.h").open("a") as declarations:
        declarations.write(ALLOCATOR)
    _write_prototypes(include / "aclnnop")


def _write_prototypes(folder: Path) -> None:
    """A header for each kernel, named as CANN names them: words in small letters, a run of capitals is one word."""
    folder.mkdir(parents=True)
    for name in PROTOTYPES:
        text = (SOURCES / name).read_text()
        (folder / name).write_text(text)
        for kernel in re.findall(r"aclnn(\w+)GetWorkspaceSize\(", text):
            words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kernel).lower()
            (folder / f"aclnn_{words}.h").write_text(f'#pragma once\n#include "aclnnop/{name}"\n')


def _compile(libraries: Path, include: Path, flags: list[str]) -> None:
    """The device, under all the names that CANN's libraries have."""
    (libraries / "driver").mkdir(parents=True)
    command = [*needed_compiler(), *flags, f"-I{ROOT}", f"-I{include}"]
    print("compiling the fake CANN; this takes about half a minute, once", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="fake-cann-") as folder:
        work = Path(folder)
        (work / "entries.s").write_text(unimplemented_entries.assembly())

        def compiled(source: Path) -> str:
            target = str(work / f"{source.stem}.o")
            _run([*command, "-c", str(source), "-o", target])
            return target

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = list(pool.map(compiled, [*sorted(SOURCES.glob("*.cc")), work / "entries.s"]))
        _run([*command, "-shared", f"-Wl,-soname,{LIBRARY}", *objects, "-o", str(libraries / LIBRARY)])
    for name in OTHER_NAMES:
        link = libraries / f"{name}.so"
        link.symlink_to(os.path.relpath(libraries / LIBRARY, link.parent))


def _run(command: list[str]) -> None:
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode:
        raise KernelBuildError(result.stderr)


def environment(with_sanitizers: bool = False) -> dict[str, str]:
    """The variables in which a process runs on the toolkit; what it needs has been compiled.

    Raises:
        KernelBuildError: If something cannot be compiled.
    """
    found = toolkit(with_sanitizers).environment()
    # Ahead, in a process without the sanitizers and the device, which has them too.
    build = [sys.executable, "-m", "hpgen", "build", "--backend", "Ascend"]
    without = {**found, "LD_PRELOAD": "", "LD_LIBRARY_PATH": ""}
    done = subprocess.run(build, check=False, env=without, stdout=subprocess.DEVNULL)
    if done.returncode:
        raise KernelBuildError("the kernels for Ascend cannot be compiled")
    return found


def main(arguments: list[str]) -> None:
    with_sanitizers = arguments[:1] == ["--sanitize"]
    command = arguments[with_sanitizers:]
    if not command or command[0].startswith("-"):
        sys.exit(__doc__)
    if shutil.which(command[0]) is None:
        sys.exit(f"there is no command {command[0]}")
    try:
        variables = environment(with_sanitizers)
    except (KernelBuildError, metadata.PackageNotFoundError, OSError) as error:
        sys.exit(f"error: {error}")
    os.execvpe(command[0], command, variables)


if __name__ == "__main__":
    main(sys.argv[1:])
