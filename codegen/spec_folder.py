# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The files of a library of specs: which belong to it, and their texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .diagnostics import Diagnostic, Source, Span, SpecError
from .spec.source import read_source


@dataclass(frozen=True)
class SpecFile:
    """One file; `fault` tells why its text cannot be had."""

    path: Path
    source: Source
    fault: SpecError | None = None


@dataclass(frozen=True)
class SpecFolder:
    """All specs of one folder. `selected` are those that were asked for; `whole` tells that it is all of them."""

    folder: Path
    files: tuple[SpecFile, ...]
    misnamed: tuple[Diagnostic, ...]  # of files that are no specs, but look like some
    selected: frozenset[str]
    whole: bool

    @property
    def shown(self) -> str:
        """The folder as the generated headers name it: relative to its parent."""
        return self.folder.resolve().name


def read_folder(arguments: Sequence[Path]) -> SpecFolder:
    """Read the specs of a folder, or of the folder around single files.

    Raises:
        SpecError: If the arguments are not those of one library. What is wrong with a file is kept with it.
    """
    folder, chosen = choose(arguments)
    paths = sorted(folder.glob("*.yaml"))
    if not folder.name.isprintable():
        raise SpecError(
            Diagnostic("HP503", Span(Source(repr(folder.name), ""), 0, 0), "a folder's name is one line of text")
        )
    given = next((path for path in arguments if path.is_dir()), arguments[0].parent)
    misnamed = tuple(wrong_ending(given / path.name) for path in sorted(folder.glob("*.yml")))
    if not paths and not misnamed:
        nowhere = Span(Source(str(given), ""), 0, 0)
        raise SpecError(Diagnostic("HP503", nowhere, "no spec (*.yaml) in this folder"))
    files = tuple(read_file(path, str(given / path.name)) for path in paths)
    selected = frozenset(path.stem for path in (paths if chosen is None else chosen))
    return SpecFolder(folder, files, misnamed, selected, chosen is None)


def read_file(path: Path, shown: str) -> SpecFile:
    try:
        return SpecFile(path, read_source(path, shown))
    except SpecError as error:
        return SpecFile(path, Source(shown, ""), error)


def wrong_ending(shown: Path) -> Diagnostic:
    nowhere = Span(Source(str(shown), ""), 0, 0)
    message = "a spec's file name ends in .yaml, not .yml"
    return Diagnostic("HP502", nowhere, message, f"rename it to {shown.stem}.yaml")


def choose(arguments: Sequence[Path]) -> tuple[Path, list[Path] | None]:
    """The library's folder, and the files chosen from it (None for all)."""
    folders = {(path if path.is_dir() else path.parent).resolve() for path in arguments}
    if len(folders) > 1:
        names = ", ".join(sorted(str(folder) for folder in folders))
        place = Span(Source(str(arguments[1]), ""), 0, 0)
        raise SpecError(Diagnostic("HP503", place, f"specs of one library lie in one folder, but these are: {names}"))
    folder = folders.pop()
    if any(path.is_dir() for path in arguments):
        return folder, None
    wrong = next((path for path in arguments if path.suffix != ".yaml"), None)
    if wrong is not None:
        place = Span(Source(str(wrong), ""), 0, 0)
        raise SpecError(Diagnostic("HP502", place, "a spec's file name ends in .yaml", "rename it"))
    return folder, list(arguments)
