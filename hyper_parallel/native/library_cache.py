# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Compiled libraries in the user's cache folder: found by content, built by one process while the others wait.

<cache>/native/<flavour>-<hash of sources, flags, framework, Python>/
    .lock                      held while something is built here
    failed/build.log           of the last build that failed
    <compiler>/                one folder per compiler; put there as a whole
        hp_<...>.so
        library.json           size and hash of the library: a damaged one is built again
        build.log
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hpgen.user_cache import VARIABLE, default_folder, is_open, is_ours
from hyper_parallel.native.compiler import compiler, compiler_identity, needed_compiler, run_build
from hyper_parallel.native.errors import REFERENCE_INSTEAD, EnvironmentFault, KernelBuildError
from hyper_parallel.native.flavours import Flavour
from hyper_parallel.native.translation_unit import TranslationUnit

INDEX = "library.json"
LOG = "build.log"
FAILED = "failed"
WORK = ".work-"
PATIENCE = 3600.0  # seconds for other processes that build
ANNOUNCE_AFTER = 2.0


@dataclass(frozen=True)
class NativeLibrary:
    """One library, compiled or to be compiled.

    Attributes:
        unit: What it is made from.
        flavour: What it is compiled into.
        folder: Its folder in the cache.
        module: The name of the Python module that it is.
    """

    unit: TranslationUnit
    flavour: Flavour
    folder: Path
    module: str

    def find(self) -> Path | None:
        """The compiled library of this machine's compiler, or without a compiler any; None if there is none."""
        found = compiler()
        if not found:
            return self.find_of_others()
        return self._library_in(self.folder / compiler_identity(found))

    def find_of_others(self) -> Path | None:
        """The library as any compiler has made it, the newest first: for a machine that cannot compile."""
        if not self.folder.is_dir():
            return None
        folders = [path for path in self.folder.iterdir() if path.is_dir() and not path.name.startswith((FAILED, WORK))]
        folders.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        return next((path for folder in folders if (path := self._library_in(folder))), None)

    def build(self, again: bool = False) -> Path:
        """Compile the library unless it is there; with `again` also if it is.

        Raises:
            KernelBuildError: If it cannot be compiled.
        """
        started = time.time()
        with self._locked():
            found = self.find()
            if found and not (again and found.stat().st_mtime < started):
                return found
            self._raise_if_failed_since(started)
            target = self.folder / compiler_identity(needed_compiler())
            self._remove_left_over()
            work = self.folder / f"{WORK}{os.getpid()}"
            work.mkdir()
            try:
                self._compile(work)
                shutil.rmtree(target, ignore_errors=True)
                work.rename(target)
                shutil.rmtree(self.folder / FAILED, ignore_errors=True)
            except KernelBuildError as error:
                raise self._kept(work, error) from None
            finally:
                shutil.rmtree(work, ignore_errors=True)
        return target / f"{self.module}.so"

    def _compile(self, work: Path) -> None:
        source = work / "operators.cc"
        source.write_text(self.unit.text, encoding="utf-8")
        operators = len(self.unit.sources)
        what = f"compiling the kernels of {operators} operator{'s' if operators != 1 else ''} for {self.flavour.name}"
        command = self.flavour.command(source, self.unit.includes, self.module)
        run_build(command, what, self.flavour.duration, work / LOG)
        built = work / f"{self.module}.so"
        if not built.is_file():
            raise KernelBuildError(f"the compiler has left no {built.name}")
        index = {"size": built.stat().st_size, "sha256": hashlib.sha256(built.read_bytes()).hexdigest()}
        (work / INDEX).write_text(json.dumps(index), encoding="utf-8")
        for path in work.iterdir():
            if path.name not in (built.name, INDEX, LOG):
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _library_in(self, folder: Path) -> Path | None:
        """The library in a folder, if it is the one that was put there."""
        path = folder / f"{self.module}.so"
        try:
            index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
            data = path.read_bytes()
        except (OSError, ValueError):
            return None
        return path if index == {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} else None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the folder. The system frees the lock when its holder ends, however it ends."""
        import filelock  # only by who builds: it takes longer to import than a library to load

        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = filelock.FileLock(self.folder / ".lock")
            try:
                lock.acquire(timeout=ANNOUNCE_AFTER)
            except filelock.Timeout:
                print(
                    "hyper_parallel: waiting for another process that compiles the kernels", file=sys.stderr, flush=True
                )
                lock.acquire(timeout=PATIENCE)
        except filelock.Timeout:
            raise KernelBuildError(
                f"another process has been compiling into {self.folder} for {PATIENCE / 60:.0f} minutes; end it, and "
                "run again"
            ) from None
        except OSError as error:
            raise unusable(self.folder, error) from None
        try:
            yield
        except OSError as error:
            raise unusable(self.folder, error) from error
        finally:
            lock.release()

    def _remove_left_over(self) -> None:
        """What a build that was killed has left behind."""
        for path in self.folder.glob(f"{WORK}*"):
            shutil.rmtree(path, ignore_errors=True)

    def _kept(self, work: Path, error: KernelBuildError) -> KernelBuildError:
        """The error with the place of the log, which is kept; other processes that waited read it there."""
        if isinstance(error, EnvironmentFault) or not (work / LOG).exists():
            return error
        failed = self.folder / FAILED
        message = (
            f"{self.unit.title} could not be compiled for {self.flavour.name}:\n{error}\nThe whole log: {failed / LOG}"
        )
        with suppress(OSError):
            shutil.rmtree(failed, ignore_errors=True)
            (work / "message.txt").write_text(message, encoding="utf-8")
            work.rename(failed)
        return KernelBuildError(message)

    def _raise_if_failed_since(self, started: float) -> None:
        """Whoever waited for a build that failed fails with it, rather than building for the same error again."""
        message = self.folder / FAILED / "message.txt"
        if message.exists() and message.stat().st_mtime >= started:
            raise KernelBuildError(message.read_text(encoding="utf-8"))


def native_library(unit: TranslationUnit, flavour: Flavour) -> NativeLibrary:
    """The library made from a translation unit.

    Raises:
        EnvironmentFault: If there is no folder for it that only this user can write.
    """
    digest = unit.digest(flavour.name, *flavour.fingerprint())[:16]
    return NativeLibrary(unit, flavour, native_folder() / f"{flavour.name}-{digest}", f"hp_{flavour.name}_{digest}")


def native_folder() -> Path:
    """The folder of all compiled libraries. EnvironmentFault if there is none that only this user can write."""
    folder = default_folder()
    if folder is None:
        raise EnvironmentFault(f"there is no home folder to keep compiled kernels in; set {VARIABLE} to a folder")
    native: Path = folder.absolute() / "native"
    if not is_ours(native) or is_open(native.parent):
        raise EnvironmentFault(
            f"{native} should be a folder, no link, and nobody else should be able to write to it or to the one around "
            f"it: what lies there is run; set {VARIABLE} to a folder of your own"
        )
    return native


def unusable(folder: Path, error: OSError) -> EnvironmentFault:
    return EnvironmentFault(
        f"compiled kernels cannot be kept: {error.filename or folder}: {error.strerror or error}; set {VARIABLE} to a "
        f"folder that can be written, or {REFERENCE_INSTEAD}"
    )
