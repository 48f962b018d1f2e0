# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What earlier runs have rendered, kept in the user's cache folder and found again by what it was made from.

A key is the hash of everything that a result depends on: the generator's own files and the libraries that it uses
(`generator_digest`), and the texts that went in. So nothing is ever out of date: what has changed has another key. The
entries are one file each, written beside and renamed, and start with the hash of the rest: one that is damaged, half
written or of another kind is as good as absent. Nothing here is needed: a folder that cannot be read or written makes
runs slower, no more.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
import time
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .package import package_files

VARIABLE = "HPGEN_CACHE_DIR"
DAY = 24 * 60 * 60
KEPT_DAYS = 30
STAMP = "pruned"


def default_folder() -> Path:
    """`$HPGEN_CACHE_DIR`, else `hpgen` in the user's cache folder."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hpgen"


@cache
def generator_digest() -> bytes:
    """The hash of everything but the specs that the generated files depend on."""
    found = hashlib.sha256(sys.version.encode())
    for path in package_files():
        found.update(f"{path.name}\0".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    for name in ("jinja2", "markupsafe", "yaml", "jsonschema_rs"):
        spec = find_spec(name)
        origin = Path(spec.origin) if spec and spec.origin else None
        found.update(f"{origin}\0{origin.stat().st_mtime_ns if origin else ''}\0".encode())
    return found.digest()


class Cache:
    """Values under keys, in a folder; without one nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder / "rendered" if folder and is_private(folder) else None

    def key(self, *parts: str) -> str:
        """The key of what this generator makes from `parts`."""
        if not self.folder:
            return ""
        found = hashlib.sha256(generator_digest())
        for part in parts:
            data = part.encode()
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
            data = path.read_bytes()
            if time.time() - path.stat().st_mtime > DAY:
                os.utime(path)  # in use: not to be pruned
        except OSError:
            return None
        digest, _, value = data.partition(b"\n")
        return value if digest == hash_of(value) else None

    def store_bytes(self, key: str, value: bytes) -> None:
        if not self.folder:
            return
        temporary = self.folder / f".{key}-{os.getpid()}-{os.urandom(4).hex()}"
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                temporary.write_bytes(hash_of(value) + b"\n" + value)
                temporary.replace(self.folder / key)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise

    def prune(self) -> None:
        """Remove what has not been used for a month; looked for once a day."""
        if not self.folder:
            return
        stamp, now = self.folder / STAMP, time.time()
        with suppress(OSError):
            if stamp.exists() and now - stamp.stat().st_mtime < DAY:
                return
            stamp.touch()
            for entry in os.scandir(self.folder):
                if now - entry.stat(follow_symlinks=False).st_mtime > KEPT_DAYS * DAY:
                    os.unlink(entry.path)


def is_private(folder: Path) -> bool:
    """Whether nobody else can have put anything there: what lies in it becomes code."""
    if not hasattr(os, "getuid"):
        return True
    for path in (folder, folder / "rendered"):
        try:
            found = path.stat()
        except FileNotFoundError:
            continue
        except OSError:
            return False
        if found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return False
    return True


def hash_of(value: bytes) -> bytes:
    return hashlib.sha256(value).hexdigest().encode()
