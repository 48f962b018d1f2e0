# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""One run at a time in an output folder.

The lock is the system's advisory lock (flock) on the folder itself. There is no lock file, so none is left behind or
committed; the system frees the lock when its holder ends, however it ends, so that it is never stale; and a folder
that may not be written can still be locked for reading. A run that writes excludes all others, runs that only read
share. It holds among the processes of one machine, containers included, not among machines that share a file system.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

STAGING = re.compile(r"\.hpgen-(?P<process>[0-9]{1,10})\Z")
"""The folder in which a run puts new files together; see journal.py."""

PATIENCE = 120.0  # seconds
ANNOUNCE_AFTER = 1.0
POLL = 0.02


class OutputError(Exception):
    """The output folder cannot be used as asked; the message says what to do."""


@contextmanager
def locked(root: Path, *, writing: bool) -> Iterator[None]:
    """Hold the folder while its files are compared and written. To write it is made, and removed again if left empty.

    Raises:
        OutputError: If it is no folder, cannot be made or opened, or another run does not end in time.
    """
    made: list[Path] = []
    descriptor: int | None = None
    try:
        try:
            deadline = time.monotonic() + PATIENCE
            while descriptor is None and (writing or root.exists()):
                if writing:
                    make(root, made)
                descriptor = open_locked(root, writing, deadline)
        except OSError as error:
            raise OutputError(f"{error.filename or root} cannot be used: {error.strerror}") from None
        yield
    finally:
        # Still locked: whoever waits for this folder sees that it is gone, and makes it again.
        for folder in reversed(made):
            with suppress(OSError):  # not empty: the usual case
                folder.rmdir()
        if descriptor is not None:
            os.close(descriptor)


def make(root: Path, made: list[Path]) -> None:
    """Make the folder and those above it; `made` gets the ones that were not there."""
    if root.is_symlink() and not root.exists():
        raise OutputError(f"{root} is a symbolic link that leads nowhere; give the output folder with -o")
    for folder in reversed([path for path in (root, *root.parents) if not path.exists()]):
        with suppress(FileExistsError):  # another run was quicker
            folder.mkdir()
            made.append(folder)


def open_locked(root: Path, writing: bool, deadline: float) -> int | None:
    """The folder, opened and locked; None if the run that had the lock removed it."""
    if sys.platform == "win32":
        raise OutputError("hpgen ops needs file locks that Windows does not have; run it in WSL")
    import fcntl

    if root.exists() and not root.is_dir():
        raise OutputError(f"{root} is not a folder; give the output folder with -o")
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return None
    operation = fcntl.LOCK_EX if writing else fcntl.LOCK_SH
    announce = time.monotonic() + ANNOUNCE_AFTER
    try:
        while True:
            try:
                fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                announce = wait(root, announce, deadline)
        if root.is_dir() and os.path.samestat(os.fstat(descriptor), os.stat(root)):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def wait(root: Path, announce: float, deadline: float) -> float:
    """Wait a moment for the other run; when to say so (once)."""
    now = time.monotonic()
    if now > deadline:
        raise OutputError(
            f"another hpgen{holder(root)} has been using {root} for {PATIENCE:.0f} s; "
            "wait for it, or end it, and run again"
        )
    if now > announce:
        print(f"waiting for another hpgen{holder(root)} that is using {root}", file=sys.stderr, flush=True)
        announce = float("inf")
    time.sleep(POLL)
    return announce


def holder(root: Path) -> str:
    """The process that is writing, if it has got so far."""
    with suppress(OSError):  # the folder may be gone by now
        numbers = [match.group("process") for match in map(STAGING.match, os.listdir(root)) if match]
        return f" (process {numbers[0]})" if len(numbers) == 1 else ""
    return ""
