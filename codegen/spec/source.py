# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""From a file to its text."""

from __future__ import annotations

import stat
from pathlib import Path

from ..diagnostics import Diagnostic, Source, Span, SpecError

MOST_BYTES = 1_000_000


def read_source(path: Path, shown: str) -> Source:
    """The text of a spec file; `shown` is the path in messages. SpecError HP001 or HP005 if it cannot be read."""
    nowhere = Span(Source(shown, ""), 0, 0)
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe, a folder or a device: reading it might never end
            raise SpecError(Diagnostic("HP001", nowhere, "is not a file", "a spec is a text file"))
        with path.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise SpecError(Diagnostic("HP001", nowhere, f"cannot be read: {error.strerror or error}")) from None
    if len(data) > MOST_BYTES:
        raise SpecError(Diagnostic("HP005", nowhere, f"larger than {MOST_BYTES} bytes"))
    try:
        return Source(shown, data.decode("utf-8"))
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", errors="replace")
        line = before.count("\n") + 1
        place = Span(Source(shown, before), line, len(before) - (before.rfind("\n") + 1) + 1)
        raise SpecError(Diagnostic("HP001", place, "not UTF-8 text", "save the file as UTF-8")) from None
