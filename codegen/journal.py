# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Many files changed as one: either all of them are, or none is.

A run holds the folder's lock (folder_lock.py) from the comparison to the end, and changes the files like this:

1. *Stage.* In `<output>/.hpgen-<process>/` every new file is written as `new-<n>`, and every file that will be replaced
   or removed gets a second name there, `old-<n>` (a hard link; a copy where the file system has none). Whatever the
   disk or the permissions refuse, they mostly refuse here, where nothing has changed yet.
2. *Begin.* `journal`, which lists the changes with the hash of what each leaves behind, is renamed into place.
3. *Commit.* Each `new-<n>` is renamed over its file: operators first, then the index files that import them. Files of
   operators that are gone are removed last.
4. *End.* `journal` is removed. From this moment on the files are the new ones. The staging folder is removed.

Steps 2 to 4 take milliseconds, in a process of their own.

If a step fails, what has been done is taken back from `old-<n>`. If the run is killed the files are the old ones or,
since the process of steps 2 to 4 goes on and has the lock until it ends, the new ones. Only if that is killed as well,
as by a machine that stops, there are three cases, told apart by what is left, since the lock says that nobody is at
work:

* no staging folder: the files are the old ones or the new ones, complete;
* a staging folder without `journal`: the same, and the folder is rubbish (`--check`: "left over");
* a staging folder with `journal`: the run was interrupted in step 3; each file is the old or the new one, and the old
  ones are all still there (`--check`: "interrupted"). The next run that writes takes it back before it does anything
  else, so that it starts from the old files. A file that is not what the killed run left there belongs to somebody
  who has been here since, and stays as it is. A run killed while it takes something back has left the same case.

A power failure is not a kill: what is in memory only is lost. The files of a small change are therefore synced to the
disk before step 2. For the thousands of a whole library this would take longer than generating them: there a file may
be empty after a power failure, which `--check` reports as stale and a run mends.
"""

from __future__ import annotations

import errno
import hashlib
import os
import pickle
import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple, NoReturn

from .artifacts import operator_paths
from .folder_lock import STAGING, OutputError
from .progress import Track, untracked

INDEX = re.compile(r"(?:__init__\.py|build\.json|platform_[a-z]+\.py)\Z")
JOURNAL = "journal"
STAGED = re.compile(r"(?:(?:new|old)-[0-9]+|journal|journal-new)\Z")
ENTRY = re.compile(r"(?P<kind>create|replace|remove) (?P<left>[0-9a-f]{64}|-) (?P<path>[\w./-]+)\Z", re.ASCII)
ABSENT = "-"
SYNCED_FILES = 64


class Change(NamedTuple):
    """One file to be created, replaced or removed."""

    path: PurePosixPath
    kind: str
    data: bytes = b""


class Entry(NamedTuple):
    """A change as the journal has it: `left` is the hash of the file that it leaves behind."""

    kind: str
    left: str
    path: PurePosixPath


def apply(root: Path, changes: Sequence[Change], track: Track = untracked) -> None:
    """Make all changes or, if that fails, none. The folder must be locked for writing.

    Raises:
        OSError: If the system refuses; nothing has changed.
        OutputError: If it refuses to take back what had been done as well; the next run will try again.
    """
    staging = root / f".hpgen-{os.getpid()}"
    try:
        os.mkdir(staging)
        stage(root, staging, changes, track)
        replace_apart(root, staging, changes)
    except BaseException:
        recover(root)
        raise


def replace_all(root: Path, staging: Path, changes: Sequence[Change]) -> None:
    """Steps 2 to 4."""
    begin(staging, changes)
    commit(root, staging, changes)
    os.unlink(staging / JOURNAL)
    discard(staging)


def replace_apart(root: Path, staging: Path, changes: Sequence[Change]) -> None:
    """Steps 2 to 4 in a process of its own, which goes on if this one is killed. Signals wait for it here."""
    stopping = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, stopping)
    try:
        reading, writing = os.pipe()
        try:
            child = os.fork()
        except OSError:  # no more processes for this user: then in this one
            os.close(reading)
            os.close(writing)
            replace_all(root, staging, changes)
            return
        if child == 0:
            os.close(reading)
            finish(root, staging, changes, writing)
        os.close(writing)
        with os.fdopen(reading, "rb") as stream:
            told = stream.read()
        with suppress(ChildProcessError):  # whoever started this process may have asked not to be told of the end
            os.waitpid(child, 0)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    error = pickle.loads(told) if told else OSError(errno.EINTR, "the process that replaces the files was killed", root)
    if error is not None:
        raise error


def finish(root: Path, staging: Path, changes: Sequence[Change], writing: int) -> NoReturn:
    """The body of that process: what went wrong, or None, goes to `writing`; if nobody is there it is taken back."""
    try:
        os.setsid()  # a terminal's signals do not reach it
        error: Exception | None = None
        try:
            replace_all(root, staging, changes)
        except Exception as found:
            error = found
        try:
            os.write(writing, pickle.dumps(error))
        except BrokenPipeError:
            recover(root)
    finally:
        os._exit(0)


def stage(root: Path, staging: Path, changes: Sequence[Change], track: Track) -> None:
    for number, change in enumerate(track(changes, "writing files", len(changes))):
        if change.kind != "remove":
            put(staging / f"new-{number}", change.data)
        if change.kind != "create":
            keep(root / change.path, staging / f"old-{number}")
    if len(changes) <= SYNCED_FILES:
        for name in os.listdir(staging):
            sync(staging / name)


def put(path: Path, data: bytes) -> None:
    with path.open("xb") as stream:
        stream.write(data)


def keep(path: Path, second: Path) -> None:
    """Give a file a second name, so that it survives being replaced."""
    try:
        os.link(path, second, follow_symlinks=False)
    except OSError:  # no hard links here, or none to a file of somebody else
        put(second, path.read_bytes())


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def begin(staging: Path, changes: Sequence[Change]) -> None:
    lines = []
    for kind, left, path in ((change.kind, left_by(change), change.path) for change in changes):
        lines.append(f"{kind} {left} {path}\n")
    put(staging / f"{JOURNAL}-new", "".join(lines).encode())
    sync(staging / f"{JOURNAL}-new")
    os.rename(staging / f"{JOURNAL}-new", staging / JOURNAL)
    sync(staging)
    sync(staging.parent)


def left_by(change: Change) -> str:
    return ABSENT if change.kind == "remove" else hashlib.sha256(change.data).hexdigest()


def commit(root: Path, staging: Path, changes: Sequence[Change]) -> None:
    for folder in {change.path.parent for change in changes if change.kind == "create"}:
        os.makedirs(root / folder, exist_ok=True)
    for number, change in enumerate(changes):
        target = root / change.path
        if change.kind == "remove":
            os.unlink(target)
            remove_empty(root, change.path.parent)
        else:
            os.replace(staging / f"new-{number}", target)


def remove_empty(root: Path, folder: PurePosixPath) -> None:
    """Remove a folder that holds nothing any more, apart from Python's cache, and then its parents."""
    while folder != PurePosixPath("."):
        place = root / folder
        if not place.is_dir() or any(name != "__pycache__" for name in os.listdir(place)):
            return
        with suppress(OSError):  # something has come in meanwhile: then the folder stays
            for compiled in place.glob("__pycache__/*.pyc"):
                os.unlink(compiled)
            for emptied in (*place.glob("__pycache__"), place):
                os.rmdir(emptied)
        folder = folder.parent


def leftovers(root: Path) -> Iterator[Path]:
    """The staging folders of runs that were killed, if the folder is locked."""
    if root.is_dir():
        for name in sorted(os.listdir(root)):
            if STAGING.match(name) and not (root / name).is_symlink() and (root / name).is_dir():
                yield root / name


def interrupted(staging: Path) -> bool:
    return os.path.lexists(staging / JOURNAL)


def recover(root: Path) -> int:
    """Take back what interrupted runs have done, and remove what they left. The folder must be locked for writing.

    Returns: the number of runs that were interrupted.

    Raises:
        OutputError: If that is not possible; all that is needed to do it is still there.
    """
    count = 0
    for staging in list(leftovers(root)):
        if interrupted(staging):
            try:
                take_back(root, staging)
                os.unlink(staging / JOURNAL)
            except OSError as error:
                name = error.filename2 or error.filename or root
                raise OutputError(
                    f"{name} cannot be restored after an interrupted run: {error.strerror}; mend this and run again: "
                    f"the files as they were before are kept in {staging}"
                ) from None
            count += 1
        discard(staging)
    return count


def take_back(root: Path, staging: Path) -> None:
    for number, entry in reversed(list(enumerate(entries(staging)))):
        refuse_links(root, entry.path)
        target, old = root / entry.path, staging / f"old-{number}"
        if hash_of(target) != entry.left:
            continue
        if entry.kind == "create":
            os.unlink(target)
        elif old.is_file() and not old.is_symlink():
            os.makedirs(target.parent, exist_ok=True)
            os.replace(old, target)
    for entry in entries(staging):
        remove_empty(root, entry.path.parent)


def entries(staging: Path) -> Iterator[Entry]:
    """What the journal says. It lies where anybody may write, so it may name only what a library consists of."""
    journal = staging / JOURNAL
    if journal.is_symlink() or not journal.is_file():
        raise OutputError(f"{journal} is no file of hpgen's; look into {staging}, and remove it")
    for line in journal.read_text(encoding="utf-8", errors="replace").splitlines():
        match = ENTRY.match(line)
        path = PurePosixPath(match.group("path")) if match else PurePosixPath()
        if not match or not belongs(path):
            raise OutputError(f"{journal} is damaged at {line[:100]!r}; look into {staging}, and remove it")
        yield Entry(match.group("kind"), match.group("left"), path)


def belongs(path: PurePosixPath) -> bool:
    """Whether a library has a file of this name."""
    if len(path.parts) == 1:
        return bool(INDEX.match(path.name))
    return bool(path.parts) and path.parts[0].isidentifier() and path in operator_paths(path.parts[0])


def hash_of(path: Path) -> str:
    if not os.path.lexists(path):
        return ABSENT
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "not a file"


def refuse_links(root: Path, path: PurePosixPath) -> None:
    """No part of the way below the root may be a symbolic link: it could lead out of the folder."""
    for part in (path, *path.parents):
        if part != PurePosixPath(".") and (root / part).is_symlink():
            raise is_link(root / part)


def is_link(path: Path) -> OutputError:
    return OutputError(f"{path} is a symbolic link, and hpgen writes only inside the output folder; remove the link")


def discard(staging: Path) -> None:
    """Remove a staging folder: its own files only."""
    try:
        for name in os.listdir(staging):
            if STAGED.match(name):
                os.unlink(staging / name)
        os.rmdir(staging)
    except FileNotFoundError:
        return
    except OSError as error:
        raise OutputError(f"{staging} is not needed any more, but cannot be removed: {error.strerror}") from None
