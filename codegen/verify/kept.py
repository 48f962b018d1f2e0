# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Reports of earlier runs, found again by everything that they depend on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..cache import Cache
from ..package import CODE, folder_of
from .report import OperatorReport
from .task import NUMPY, Task

LIBRARIES = ("numpy", "autograd", "ml_dtypes")


class KeptReports:
    """The reports in a cache. Rules and references from the Python path are not kept: they may import anything."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self._shared = runtime_digest() if cache.folder else ""
        self._references: dict[Path, str] = {}

    def confirm(self) -> None:
        """Once all code is loaded: keep nothing if what was loaded may not be what the keys are of."""
        self.cache.confirm()
        if self.cache.folder and self._shared != runtime_digest():
            self.cache.folder = None

    def key(self, task: Task) -> str:
        """The key of a task's report; empty if it is not to be kept."""
        if not self.cache.folder or task.rule or task.reference or task.case:
            return ""
        if task.folder not in self._references:  # the operators of a library share it
            self._references[task.folder] = digest(task.folder / "reference")
        options = f"{task.thorough} {task.seed}"
        if task.platform != NUMPY:
            options += f" {installed(task.platform)} {task.nproc}"
        parts = (task.spec.op, task.spec.source.text, self._references[task.folder], self._shared, options)
        return self.cache.key("verify", *parts)

    def find(self, task: Task) -> OperatorReport | None:
        key = self.key(task)
        found = self.cache.load(key) if key else None
        if found is None:
            return None
        return replace(OperatorReport.from_json(found), spec=task.shown, cached=True)

    def keep(self, task: Task, report: OperatorReport) -> None:
        key = self.key(task)
        if key:
            self.cache.store(key, report.as_json())


def runtime_digest() -> str:
    """Of the runtime, of the references that come with it, and of the libraries that compute."""
    parts = [digest(folder_of("hyper_parallel")), digest(CODE.parent / "specs" / "reference")]
    return " ".join([*parts, *map(installed, LIBRARIES)])


def installed(library: str) -> str:
    try:
        return f"{library} {version(library)}"
    except PackageNotFoundError:
        return library


def digest(folder: Path) -> str:
    """Of every file below a folder."""
    found = hashlib.sha256()
    for path in files_below(folder):
        data = path.read_bytes()
        name = path.relative_to(folder).as_posix().encode("utf-8", "surrogateescape")
        found.update(b"%d %d " % (len(name), len(data)) + name + data)
    return found.hexdigest()


def files_below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if "__pycache__" not in path.parts and path.is_file():
            yield path
