# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""How far a run is, for somebody who waits for it."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

T = TypeVar("T")


class Track(Protocol):
    """Passes items on and shows how far they are."""

    def __call__(self, items: Iterable[T], what: str, count: int) -> Iterator[T]: ...


PATIENCE = 2.0
"""Seconds after which a run says what it is doing."""
PACE = 0.1
"""Seconds between two drawings."""


class Progress:
    """Passes items on; on a terminal, and once the run has taken a while, one line says how far they are.

    The line is drawn over itself, no wider than the terminal, and erased at the end: nothing but carriage returns and
    spaces, so that any terminal can show it and a run that is killed leaves the terminal as it was.
    """

    def __init__(self) -> None:
        self.next = time.monotonic() + PATIENCE
        self.width = 0
        self.is_shown = sys.stderr is not None and sys.stderr.isatty()

    def track(self, items: Iterable[T], what: str, count: int) -> Iterator[T]:
        """The items, of which there will be `count`; `what` is being done with them."""
        if not self.is_shown:
            yield from items
            return
        try:
            for done, item in enumerate(items):
                if time.monotonic() >= self.next:
                    self.draw(f"{what}: {done} of {count}")
                    self.next = time.monotonic() + PACE
                yield item
        finally:
            self.draw("")

    def draw(self, line: str) -> None:
        """Put a line in the place of the one before."""
        shown = line[: max(0, shutil.get_terminal_size().columns - 1)]
        if shown or self.width:
            sys.stderr.write("\r" + shown.ljust(self.width) + ("" if shown else "\r"))
            sys.stderr.flush()
        self.width = len(shown)


def untracked(items: Iterable[T], what: str, count: int) -> Iterator[T]:  # noqa: ARG001
    """The items, with nobody to wait for them."""
    yield from items
