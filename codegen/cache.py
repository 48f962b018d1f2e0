# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What earlier runs have rendered, kept in the user's cache folder and found again by what it was made from.

A key is the hash of everything that a result depends on: the generator's own files and the libraries that it uses
(`generator_digest`), and the texts that went in. So nothing is ever out of date: what has changed has another key. The
entries are one file each, written beside and renamed, and start with the hash of their key and the rest: one that is
damaged, half written or another's is as good as absent. Nothing here is needed: a folder that cannot be read or written
makes runs slower, no more.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from .package import library_files, package_files
from .user_cache import is_ours, make

DAY = 24 * 60 * 60
KEPT_DAYS = 30
STAMP = "pruned"
ENTRY = re.compile(r"(?:[0-9a-f]{64}|\.[0-9a-f]{64}-[0-9]+-[0-9a-f]{8})\Z")
STARTED = time.time_ns()


def generator_digest() -> bytes:
    """The hash of everything but the specs that the generated files depend on.

    Times of change count as well as contents: Python may take an old compiled file for a new source of the same second.
    """
    found = hashlib.sha256(sys.version.encode())
    for path in package_files():
        found.update(f"{path.name}\0{path.stat().st_mtime_ns}\0".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    for path in library_files():
        status = path.stat()
        found.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0".encode("utf-8", "surrogateescape"))
    return found.digest()


class Cache:
    """Values under keys, in a folder; without one nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder / "rendered" if folder and is_ours(folder / "rendered") else None
        self.digest = generator_digest() if self.folder else b""

    def confirm(self) -> None:
        """Once all code is loaded: keep nothing if what was loaded may not be what the digest is of."""
        if self.folder and (self.digest != generator_digest() or changed_since_start()):
            self.folder = None

    def key(self, *parts: str) -> str:
        """The key of what this generator makes from `parts`."""
        if not self.folder:
            return ""
        found = hashlib.sha256(self.digest)
        for part in parts:
            data = part.encode("utf-8", "surrogateescape")
            found.update(len(data).to_bytes(8, "big") + data)
        return found.hexdigest()

    def load(self, key: str) -> Any:
        """The value of JSON under a key; None if there is none."""
        data = self.load_bytes(key)
        return None if data is None else json.loads(data)

    def store(self, key: str, value: Any) -> None:
        if self.folder:
            self.store_bytes(key, json.dumps(value).encode())

    def load_bytes(self, key: str) -> bytes | None:
        if not self.folder:
            return None
        path = self.folder / key
        try:
            status = path.stat()
            data = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        except OSError:
            return None
        if time.time() - status.st_mtime > DAY:
            with suppress(OSError):
                os.utime(path)  # in use: not to be pruned
        digest, _, value = data.partition(b"\n")
        return value if digest == hash_of(key, value) else None

    def store_bytes(self, key: str, value: bytes) -> None:
        if not self.folder:
            return
        temporary = self.folder / f".{key}-{os.getpid()}-{os.urandom(4).hex()}"
        with suppress(OSError):
            make(self.folder)
            try:
                temporary.write_bytes(hash_of(key, value) + b"\n" + value)
                temporary.replace(self.folder / key)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise

    def prune(self) -> None:
        """Remove entries that have not been used for a month; looked for once a day. Other files are not touched."""
        if not self.folder:
            return
        stamp, now = self.folder / STAMP, time.time()
        with suppress(OSError):
            if stamp.exists() and abs(now - stamp.stat().st_mtime) < DAY:
                return
            stamp.touch()
            for entry in [entry for entry in os.scandir(self.folder) if ENTRY.match(entry.name)]:
                with suppress(OSError):  # another run may have been quicker
                    if now - entry.stat(follow_symlinks=False).st_mtime > KEPT_DAYS * DAY:
                        os.unlink(entry.path)


def changed_since_start() -> bool:
    return any(path.stat().st_mtime_ns > STARTED for path in package_files())


def hash_of(key: str, value: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\n" + value).hexdigest().encode()
