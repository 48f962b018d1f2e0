# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What is compiled: one translation unit for all operators of a library, since most of the time goes into headers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hyper_parallel import library
from hyper_parallel.folder_packages import folder_of_package
from hyper_parallel.native.errors import EnvironmentFault, KernelBuildError
from hyper_parallel.op_libraries import OperatorLibrary

SUFFIXES = (".h", ".cc")
NOT_COMPILED = "fake_cann"
"""A folder of `csrc/` that only tests compile."""


@dataclass(frozen=True)
class TranslationUnit:
    """The C++ of one operator library.

    Attributes:
        title: How messages call the library.
        sources: The generated files, each with its path below an include folder.
        includes: The folders in which `csrc/...` and the sources are found, in order.
    """

    title: str
    sources: tuple[str, ...]
    includes: tuple[Path, ...]

    @property
    def text(self) -> str:
        """The file that the compiler reads."""
        return "".join(f'#include "{path}"\n' for path in ("csrc/module.cc", *self.sources))

    def digest(self, *others: str) -> str:
        """A hash of all that is compiled, and of what else the result depends on."""
        found = hashlib.sha256()
        for part in (self.text, *others):
            found.update(f"{len(part)}\0{part}".encode())
        for name, path in self._files():
            data = path.read_bytes()
            found.update(f"{name}\0{len(data)}\0".encode() + data)
        return found.hexdigest()

    def _files(self) -> Iterator[tuple[str, Path]]:
        for folder in self.includes:
            for name in self.sources:
                if (folder / name).is_file():
                    yield name, folder / name
            for path in sorted((folder / "csrc").rglob("*")):
                if path.suffix in SUFFIXES and path.parent.name != NOT_COMPILED:
                    yield path.relative_to(folder).as_posix(), path


def unit_of(of_library: OperatorLibrary) -> TranslationUnit:
    """The translation unit of a library: its operators, its own `csrc/` beside the folder if it has one, and ours.

    Raises:
        KernelBuildError: If a header that a spec names is missing.
    """
    found = library.catalogue().operators.values()
    entries = [entry for entry in found if entry.library == of_library]
    folder = of_library.folder.resolve()
    own = [folder, *([folder.parent] if (folder.parent / "csrc").is_dir() else [])]
    includes = tuple(dict.fromkeys([*own, shared_sources()]))
    for entry in entries:
        for header in entry.cpu_headers:
            if not any((place / "csrc" / "cpu" / header).is_file() for place in includes):
                raise KernelBuildError(
                    f"the spec of {entry.op} names the kernel's header {header!r} (kernel: cpu:), and there is no "
                    f"{folder.parent / 'csrc' / 'cpu' / header}"
                )
    return TranslationUnit(of_library.title, tuple(path for entry in entries for path in entry.sources), includes)


def units() -> list[TranslationUnit]:
    """The translation units of all libraries that have operators with kernels."""
    found = [unit_of(each) for each in library.catalogue().libraries]
    return [unit for unit in found if unit.sources]


def shared_sources() -> Path:
    """The folder that has `csrc/`. EnvironmentFault if the package was installed without it."""
    folder = folder_of_package("hpgen.csrc")
    if folder is None or folder.name != "csrc":
        raise EnvironmentFault("the C++ sources of hpgen (package hpgen.csrc) are missing; install hpgen again")
    return folder.resolve().parent
