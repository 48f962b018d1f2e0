# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What the generated sources are compiled into: a module for arrays on the host, or one for MindSpore."""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import sys
import sysconfig
from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import ClassVar

from hyper_parallel.native.compiler import needed_compiler, search_path, words_of
from hyper_parallel.native.errors import REFERENCE_INSTEAD, EnvironmentFault
from hyper_parallel.native.translation_unit import shared_sources

CANN_VARIABLE = "ASCEND_OPP_PATH"
FLAGS_VARIABLE = "HYPER_PARALLEL_CXXFLAGS"
# The same for every flavour, so that one kernel gives the same bits in all of them. Kernels never read errno.
KERNEL_FLAGS = ("-O3", "-fno-math-errno")
# The system merges inline globals and static locals of one name over all modules of a process. MindSpore's have to be
# merged, so that symbols cannot be hidden as on the host; those of kernels must not be: two libraries may differ there.
OWN_NAMESPACE = "-Dhyper_parallel=hyper_parallel_"


def user_flags() -> tuple[str, ...]:
    """More flags for the compiler, from the environment."""
    return tuple(words_of(FLAGS_VARIABLE))


class Flavour(ABC):
    """One way to compile a translation unit."""

    name: ClassVar[str]
    duration: ClassVar[str]
    """About how long it takes to compile all operators."""

    @property
    def is_host(self) -> bool:
        """Whether its kernels are those of `csrc/cpu`."""
        return True

    @abstractmethod
    def fingerprint(self) -> tuple[str, ...]:
        """What the result depends on besides the sources and the compiler."""

    @abstractmethod
    def command(self, source: Path, includes: tuple[Path, ...], module: str) -> list[str]:
        """The command that makes `<module>.so` beside the source.

        Raises:
            EnvironmentFault: If the machine lacks something that is needed.
        """


@dataclass(frozen=True)
class HostFlavour(Flavour):
    """A module for NumPy arrays, and for torch tensors on the host."""

    name: ClassVar[str] = "host"
    duration: ClassVar[str] = "half a minute"

    def fingerprint(self) -> tuple[str, ...]:
        return (
            str(sysconfig.get_config_var("EXT_SUFFIX")),
            platform.machine(),
            _version("pybind11"),
            *KERNEL_FLAGS,
            *user_flags(),
        )

    def command(self, source: Path, includes: tuple[Path, ...], module: str) -> list[str]:
        try:
            import pybind11
        except ModuleNotFoundError:
            raise EnvironmentFault(
                f"kernels on the host are compiled with pybind11, which is not installed: pip install pybind11, or "
                f"{REFERENCE_INSTEAD}"
            ) from None
        headers = [shared_sources() / "csrc" / "host", *includes, Path(pybind11.get_include())]
        return [
            *needed_compiler(),
            "-std=c++17",
            "-fPIC",
            "-shared",
            "-pthread",
            "-fvisibility=hidden",
            *_without_symbols(),
            f"-DMS_EXTENSION_NAME={module}",
            *(f"-I{folder}" for folder in headers),
            f"-isystem{sysconfig.get_paths()['include']}",
            *KERNEL_FLAGS,
            *user_flags(),
            str(source),
            "-o",
            str(source.with_name(f"{module}.so")),
        ]


@dataclass(frozen=True)
class MindSporeFlavour(Flavour):
    """A module for MindSpore, built by its `CustomOpBuilder`; `backend` is "CPU" or "Ascend"."""

    backend: str = "CPU"
    name: ClassVar[str] = "mindspore"
    duration: ClassVar[str] = "a minute"

    @property
    def is_host(self) -> bool:
        return self.backend == "CPU"

    def fingerprint(self) -> tuple[str, ...]:
        return (
            self.backend,
            *(_cann_version() if self.backend == "Ascend" else ()),
            str(sysconfig.get_config_var("EXT_SUFFIX")),
            platform.machine(),
            _version("mindspore"),
            OWN_NAMESPACE,
            *KERNEL_FLAGS,
            *user_flags(),
        )

    def command(self, source: Path, includes: tuple[Path, ...], module: str) -> list[str]:
        needed_compiler()
        if self.backend == "Ascend":
            _check_cann()
        if shutil.which("ninja", path=search_path()) is None:
            raise EnvironmentFault(
                f"MindSpore builds with ninja, which is not installed: pip install ninja, or {REFERENCE_INSTEAD}"
            )
        wanted = {
            "name": module,
            "sources": [str(source)],
            "backend": self.backend,
            "include_paths": [str(folder) for folder in includes],
            "cflags": shlex.join([f"{OWN_NAMESPACE}{module}", *KERNEL_FLAGS, *user_flags()]),
            "ldflags": "-pthread",
            "build_dir": str(source.parent),
        }
        return [sys.executable, "-m", "hyper_parallel.native.mindspore_build", json.dumps(wanted)]


def cann_folder() -> Path | None:
    """The CANN toolkit that the environment names; None if there is none."""
    opp = os.environ.get(CANN_VARIABLE)
    folder = Path(os.path.realpath(opp)).parent if opp else None
    return folder if folder is not None and folder.is_dir() else None


def _check_cann() -> None:
    """EnvironmentFault if the toolkit's headers are not where the environment says."""
    folder = cann_folder()
    if folder is None:
        raise EnvironmentFault(
            f"kernels for Ascend are compiled with the CANN toolkit, and {CANN_VARIABLE} does not say where its folder "
            "opp is: source the toolkit's set_env.sh"
        )
    if not (folder / "include" / "acl").is_dir():
        raise EnvironmentFault(
            f"{CANN_VARIABLE} should name the folder opp of a CANN toolkit, but got {os.environ[CANN_VARIABLE]}, and "
            f"there is no {folder / 'include' / 'acl'}: source the toolkit's set_env.sh"
        )


def _cann_version() -> tuple[str, ...]:
    """What a toolkit is told from others by: its folder, whose name has the version, and what it says of itself."""
    folder = cann_folder()
    if folder is None:
        return ()
    notes = (folder / name for name in ("version.cfg", "version.info"))
    return (str(folder), *(note.read_text(encoding="utf-8", errors="replace") for note in notes if note.is_file()))


def _without_symbols() -> tuple[str, ...]:
    """Half the size, unless the user's flags ask for what debuggers and sanitizers name places by."""
    return () if any(flag.startswith("-g") and flag != "-g0" for flag in user_flags()) else ("-s",)


def _version(package: str) -> str:
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return f"no {package}"
