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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import filelock

from hpgen.user_cache import default_folder
from hyper_parallel.native.compiler import compiler_identity, needed_compiler, run_build
from hyper_parallel.native.errors import KernelBuildError
from hyper_parallel.native.flavours import KERNEL_FLAGS
from tests.ascend import public_headers, unimplemented_entries

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "csrc" / "fake_cann"
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g", "-O1")
FLAGS = (
    "-std=c++17",
    "-fPIC",
    "-pthread",
    "-D_GLIBCXX_USE_CXX11_ABI=0",  # as MindSpore and CANN
    "-Dhyper_parallel=fake_cann_kernels",  # its kernels are not those of another library in the process
)
LIBRARY = "libascendcl.so"
OTHER_NAMES = (
    "libopapi libnnopbase libge_runner libgraph libmsprofiler libhccl libruntime libplatform libc_sec libascend_hal "
    "libacl_tdt_channel libacl_op_compiler driver/libascend_hal"
).split()
"""All of them are this library: whoever opens one finds what is there, and nothing else."""
# The public headers lack what MindSpore's name of the graph engine.
ALLOCATOR = """#pragma once
#include <memory>
namespace ge {
class Allocator;
using AllocatorPtr = std::shared_ptr<Allocator>;
}  // namespace ge
"""


@dataclass(frozen=True)
class Toolkit:
    """A toolkit in a folder; `sanitized` if it looks for errors of memory and undefined behaviour."""

    folder: Path
    sanitized: bool

    def environment(self) -> dict[str, str]:
        """The variables in which a process runs on it."""
        flags = ["-include", str(self.folder / "include" / "fake_cann_allocator.h")]
        found = {
            **os.environ,
            "ASCEND_OPP_PATH": str(self.folder / "opp"),
            "LD_LIBRARY_PATH": str(self.folder / "lib64"),
            # MindSpore misses CANN's Python packages, which only graphs need, and says so at every start.
            "GLOG_v": os.environ.get("GLOG_v", "4"),
        }
        if self.sanitized:
            flags += SANITIZERS
            found["LD_PRELOAD"] = " ".join(map(runtime_library, ("libasan.so", "libubsan.so", "libstdc++.so")))
            # What Python and MindSpore never free is no fault; what lives on is counted (tests/ascend/test_leaks.py).
            found["ASAN_OPTIONS"] = "detect_leaks=0:abort_on_error=1"
            found["UBSAN_OPTIONS"] = "print_stacktrace=1"
        found["HYPER_PARALLEL_CXXFLAGS"] = " ".join(flags)
        return found


def runtime_library(name: str) -> str:
    """The path of a library of the compiler."""
    command = [*needed_compiler(), f"-print-file-name={name}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def toolkit(sanitized: bool = False) -> Toolkit:
    """The toolkit, made if there is none of these sources."""
    base = default_folder()
    assert base is not None, "HPGEN_CACHE_DIR or a home folder"
    base = base.absolute() / "fake-cann"
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    digest = _digest(sanitized)
    # MindSpore takes only a folder of such a name for CANN's.
    found = Toolkit(base / digest / "Ascend" / "cann", sanitized)
    with filelock.FileLock(base / ".lock"):
        headers = base / f"torch-npu-{public_headers.version()}"
        if not headers.is_dir():
            _put(headers, public_headers.unpack)
        if not (base / digest).is_dir():
            _put(base / digest, lambda work: _make(work / "Ascend" / "cann", headers, sanitized))
    return found


def _put(folder: Path, make) -> None:
    """Make a folder as a whole, or not at all."""
    work = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".work-"))
    try:
        make(work)
        work.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _digest(sanitized: bool) -> str:
    found = hashlib.sha256()
    for part in (compiler_identity(needed_compiler()), metadata.version("mindspore"), public_headers.version()):
        found.update(f"{part}\0".encode())
    found.update(str(_flags(sanitized)).encode())
    here = Path(__file__).parent
    for path in sorted([*SOURCES.glob("*"), *(ROOT / "csrc" / "cpu").glob("*.h"), *here.glob("*.py")]):
        if path.parent != here or path.name in ("toolkit.py", "public_headers.py", "unimplemented_entries.py"):
            found.update(f"{path.name}\0".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def _flags(sanitized: bool) -> list[str]:
    return [*FLAGS, *KERNEL_FLAGS, *(SANITIZERS if sanitized else ())]


def _make(cann: Path, headers: Path, sanitized: bool) -> None:
    """CANN's folder: opp/, include/ and lib64/."""
    include, libraries = cann / "include", cann / "lib64"
    (cann / "opp").mkdir(parents=True)
    shutil.copytree(headers / "acl" / "inc", include)
    shutil.copytree(headers / "hccl" / "inc" / "hccl", include / "hccl")
    shutil.copytree(headers / "hccl", include / "third_party" / "hccl")
    (include / "fake_cann_allocator.h").write_text(ALLOCATOR)
    _write_prototypes(include / "aclnnop")
    (libraries / "driver").mkdir(parents=True)
    _compile(include, libraries / LIBRARY, sanitized)
    for name in OTHER_NAMES:
        link = libraries / f"{name}.so"
        link.symlink_to(os.path.relpath(libraries / LIBRARY, link.parent))


def _write_prototypes(folder: Path) -> None:
    """A header for each kernel, named as CANN names them: words in small letters, a run of capitals is one word."""
    folder.mkdir(parents=True)
    text = (SOURCES / "prototypes.h").read_text()
    (folder / "fake_cann_prototypes.h").write_text(text)
    for kernel in re.findall(r"aclnn(\w+)GetWorkspaceSize\(", text):
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kernel).lower()
        (folder / f"aclnn_{words}.h").write_text('#pragma once\n#include "aclnnop/fake_cann_prototypes.h"\n')


def _compile(include: Path, library: Path, sanitized: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="fake-cann-") as folder:
        work = Path(folder)
        (work / "entries.s").write_text(unimplemented_entries.assembly())
        sources = [*sorted(SOURCES.glob("*.cc")), work / "entries.s"]

        def compiled(source: Path) -> Path:
            target = work / f"{source.stem}.o"
            command = [*needed_compiler(), *_flags(sanitized), f"-I{ROOT}", f"-I{include}", "-c", str(source)]
            run_build(
                [*command, "-o", str(target)],
                f"compiling {source.name}",
                "a quarter of a minute",
                work / f"{source.stem}.log",
            )
            return target

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = list(pool.map(compiled, sources))
        command = [*needed_compiler(), *_flags(sanitized), "-shared", *map(str, objects), f"-Wl,-soname,{LIBRARY}"]
        run_build([*command, "-o", str(library)], f"linking {LIBRARY}", "a moment", work / "link.log")


def main(arguments: list[str]) -> None:
    sanitized = arguments[:1] == ["--sanitize"]
    command = arguments[sanitized:]
    if not command:
        sys.exit(__doc__)
    try:
        environment = toolkit(sanitized).environment()
    except KernelBuildError as error:
        sys.exit(str(error))
    os.execvpe(command[0], command, environment)


if __name__ == "__main__":
    main(sys.argv[1:])
