# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The last step: files in memory against files on disk. Compare, then write, or show the difference."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from .artifacts import MARK, operator_paths
from .folder_lock import OutputError
from .journal import INDEX, Change, apply, interrupted, is_link, leftovers, refuse_links, sync
from .progress import Track, untracked

MARK_BYTES = 4096
HEADER = re.compile(rf"""(?:# |// |  "_generated": "){re.escape(MARK)}(?P<source>.+)\. DO NOT EDIT\.(?:",)?\Z""")


@dataclass(frozen=True)
class Comparison:
    """How the output folder differs from what the specs give. Paths are relative to it."""

    root: Path
    files: Mapping[PurePosixPath, str] = field(repr=False)
    stale: tuple[PurePosixPath, ...]
    missing: tuple[PurePosixPath, ...]
    orphaned: tuple[PurePosixPath, ...]
    foreign: tuple[PurePosixPath, ...]  # files without the generated header, in the way
    interrupted: tuple[PurePosixPath, ...] = ()  # what killed runs left: half done (the next run takes it back)
    left_over: tuple[PurePosixPath, ...] = ()  # ... and rubbish (the next run removes it)

    @property
    def clean(self) -> bool:
        return not (self.stale or self.missing or self.orphaned or self.foreign or self.interrupted or self.left_over)


def generated_from(data: bytes) -> str:
    """The source that a file's header names; empty for a file without the header.

    The header is the whole first line of a file, or the first entry of a JSON object.
    """
    lines = data[:MARK_BYTES].decode("utf-8", errors="replace").split("\n")
    for line in lines[:2]:
        match = HEADER.match(line)
        if match and (line is lines[0] or lines[0] == "{"):
            return match.group("source")
    return ""


def compare(
    root: Path, files: Mapping[PurePosixPath, str], partial: bool = False, track: Track = untracked
) -> Comparison:
    """Compare `files` with the folder. With `partial` other operators' files are nobody's business.

    The folder should be locked (`folder_lock.locked`): otherwise another run may be in the middle of its changes.

    Raises:
        OutputError: If the folder is none, leads out of itself, or cannot be read.
    """
    try:
        return compared(root, files, partial, track)
    except OSError as error:
        raise OutputError(f"{error.filename or root} cannot be read: {error.strerror}") from None


def compared(root: Path, files: Mapping[PurePosixPath, str], partial: bool, track: Track) -> Comparison:
    stale: list[PurePosixPath] = []
    missing: list[PurePosixPath] = []
    foreign: list[PurePosixPath] = []
    for folder in {PurePosixPath("."), *(path.parent for path in files)}:
        refuse_links(root, folder)
    in_order = sorted(files.items(), key=lambda item: item[0].parts)
    for path, text in track(in_order, "comparing files", len(files)):
        data = read_regular(root / path)
        if data is None:
            missing.append(path)
        elif data != text.encode():
            # An empty file holds nothing that could be lost, such as an __init__.py that made the folder importable.
            (stale if generated_from(data) or not data.strip() else foreign).append(path)
    orphaned = () if partial else tuple(sorted(orphans(root, files)))
    left = {PurePosixPath(staging.name): interrupted(staging) for staging in leftovers(root)}
    return Comparison(
        root,
        files,
        tuple(stale),
        tuple(missing),
        orphaned,
        tuple(foreign),
        interrupted=tuple(path for path, half_done in left.items() if half_done),
        left_over=tuple(path for path, half_done in left.items() if not half_done),
    )


def read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {error.strerror}") from None


def read_regular(path: Path) -> bytes | None:
    """What is where a generated file belongs; None if nothing is. It may be a file and nothing else."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(mode):
        raise is_link(path)
    if not stat.S_ISREG(mode):  # reading a pipe would never end
        kind = "a folder" if stat.S_ISDIR(mode) else "no regular file"
        raise OutputError(f"{path} is {kind}, but a generated file belongs there; move it away")
    return read(path)


def orphans(root: Path, files: Mapping[PurePosixPath, str]) -> Iterator[PurePosixPath]:
    """Generated files that no spec gives any more: only where a library has its files, and under its names."""
    if not root.is_dir():
        return
    for entry in sorted(root.iterdir()):
        if entry.is_symlink():
            continue
        if entry.is_file() and INDEX.match(entry.name):
            candidates, ending = [entry], "/"
        elif entry.is_dir():
            names = [entry / path.name for path in operator_paths(entry.name)]
            candidates, ending = names, f"/{entry.name}.yaml"
        else:
            continue
        for target in candidates:
            path = PurePosixPath(target.relative_to(root).as_posix())
            if path not in files and not target.is_symlink() and generated_from(head(target)).endswith(ending):
                yield path


def head(path: Path) -> bytes:
    with suppress(OSError), path.open("rb") as stream:
        return stream.read(MARK_BYTES)
    return b""


def write(comparison: Comparison, track: Track = untracked) -> None:
    """Bring the folder up to date: everything or nothing. It must be locked since before the comparison.

    Raises:
        OutputError: If a foreign file is in the way, or the system refuses a write; nothing has changed then.
    """
    root, files = comparison.root, comparison.files
    if comparison.foreign:
        listed = ", ".join(str(root / path) for path in comparison.foreign)
        raise OutputError(f"not generated by hpgen, so not overwritten: {listed}; move it away and run again")
    changes = [Change(path, "create", files[path].encode()) for path in comparison.missing]
    changes += [Change(path, "replace", files[path].encode()) for path in comparison.stale]
    changes.sort(key=lambda change: (len(change.path.parts) == 1, change.path))  # the index imports the operators
    changes += [Change(path, "remove") for path in comparison.orphaned]
    try:
        if changes:
            apply(root, changes, track)
    except OSError as error:
        # What hpgen prepares in a folder of its own is nothing that the user has heard of.
        names = [name for name in (error.filename2, error.filename) if name and "/.hpgen-" not in str(name)]
        name = names[0] if names else root
        raise OutputError(f"{name} cannot be written: {error.strerror}; nothing has changed") from None


def replace(target: Path, data: bytes) -> None:
    """Write one file beside the target, then rename it over it: a reader, or a crash, sees the old file or the new."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.parent / f".hpgen-{target.name}-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        with temporary.open("xb") as stream:
            stream.write(data)
        sync(temporary)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def diff(comparison: Comparison) -> Iterator[str]:
    """The differences as one unified diff, lines without their ends."""
    import difflib  # imported here: most runs show no difference

    for path in sorted((*comparison.missing, *comparison.stale, *comparison.foreign, *comparison.orphaned)):
        old = (read(comparison.root / path) or b"").decode("utf-8", errors="replace").splitlines()
        new = comparison.files.get(path, "").splitlines()
        before = f"a/{path}" if path not in comparison.missing else "/dev/null"
        after = f"b/{path}" if path in comparison.files else "/dev/null"
        yield from difflib.unified_diff(old, new, before, after, lineterm="")
