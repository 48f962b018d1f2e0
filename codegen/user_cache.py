# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The folder in which the user's caches lie, and whether what is found there may be trusted."""

from __future__ import annotations

import os
import stat
from pathlib import Path

VARIABLE = "HPGEN_CACHE_DIR"


def default_folder() -> Path | None:
    """`$HPGEN_CACHE_DIR`, else `hpgen` in the user's cache folder; None if the user has no home."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    caches = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(caches) if os.path.isabs(caches) else Path.home() / ".cache") / "hpgen"
    except RuntimeError:
        return None


def make(folder: Path) -> None:
    """The folder, and those above it that are missing, for this user alone."""
    if not folder.is_dir():
        for path in (folder.parent, folder):
            path.mkdir(parents=True, exist_ok=True, mode=0o700)


def is_open(folder: Path) -> bool:
    """Whether others may put another folder in the place of one in it."""
    try:
        mode = folder.stat().st_mode
    except OSError:
        return False
    return bool(mode & 0o022) and not mode & stat.S_ISVTX


def is_ours(folder: Path) -> bool:
    """Whether nobody else can have put anything there: what lies in it becomes code."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    if not stat.S_ISDIR(found.st_mode):
        return False
    return not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o022)
