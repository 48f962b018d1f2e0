# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""How far a run is, for somebody who waits for it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

import click

T = TypeVar("T")


class Track(Protocol):
    """Passes items on and shows how far they are."""

    def __call__(self, items: Iterable[T], what: str, count: int) -> Iterator[T]: ...


PATIENCE = 2.0
"""Seconds after which a run says what it is doing."""


class Progress:
    """Passes items on; on a terminal, and once the run has taken a while, it draws a bar for them."""

    def __init__(self) -> None:
        self.started = time.monotonic()

    def track(self, items: Iterable[T], what: str, count: int) -> Iterator[T]:
        """The items, of which there will be `count`; `what` is being done with them."""
        if not sys.stderr.isatty():
            yield from items
            return
        done, iterator = 0, iter(items)
        while time.monotonic() - self.started < PATIENCE:
            try:
                item = next(iterator)
            except StopIteration:
                return
            yield item
            done += 1
        steps = max(1, count // 100)
        with click.progressbar(length=count, label=what, file=sys.stderr, update_min_steps=steps) as bar:
            bar.update(done)
            for item in iterator:
                yield item
                bar.update(1)


def untracked(items: Iterable[T], what: str, count: int) -> Iterator[T]:  # noqa: ARG001
    """The items, with nobody to wait for them."""
    yield from items
