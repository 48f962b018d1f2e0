# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Virtual ranks: the same function run by several threads that communicate like the processes of a cluster."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

Result = TypeVar("Result")

DEFAULT_TIMEOUT = 60.0


class PeerFailedError(RuntimeError):
    """Another virtual rank has failed, ended or not come, so that a collective cannot be completed."""


@dataclass
class _Meeting:
    """One collective of one group: what the ranks have brought so far."""

    brought: dict[int, Any] = field(default_factory=dict)
    read: int = 0


class World:
    """The virtual ranks of one ``run_ranks``."""

    def __init__(self, size: int, timeout: float) -> None:
        self.size = size
        self._timeout = timeout
        self._changed = threading.Condition()
        self._meetings: dict[tuple[tuple[int, ...], int], _Meeting] = {}
        self._meetings_of_rank: dict[tuple[tuple[int, ...], int], int] = {}
        self._ended: set[int] = set()
        self.failure: tuple[int | None, BaseException] | None = None

    def exchange(self, ranks: tuple[int, ...], rank: int, value: Any, what: str) -> list[Any]:
        """Bring ``value``, wait for the others of ``ranks``, and return what everybody has brought, in their order.

        Values are shared, not copied. ``what`` names the collective in messages.

        Raises:
            PeerFailedError: one of the ranks has failed or ended, or has not come in time.
        """
        with self._changed:
            # Numbered per group and rank: a fast rank may already bring its value for the next meeting.
            number = self._meetings_of_rank.get((ranks, rank), 0)
            self._meetings_of_rank[ranks, rank] = number + 1
            meeting = self._meetings.setdefault((ranks, number), _Meeting())
            meeting.brought[rank] = value
            self._changed.notify_all()
            self._wait_for_all(meeting, ranks, rank, what)
            meeting.read += 1
            if meeting.read == len(ranks):
                del self._meetings[ranks, number]
            return [meeting.brought[member] for member in ranks]

    def _wait_for_all(self, meeting: _Meeting, ranks: tuple[int, ...], rank: int, what: str) -> None:
        deadline = time.monotonic() + self._timeout
        while len(meeting.brought) < len(ranks):
            missing = [member for member in ranks if member not in meeting.brought]
            if self.failure is not None:
                failed, error = self.failure
                who = "the run" if failed is None else f"rank {failed}"
                raise PeerFailedError(f"rank {rank} waits in {what}, but {who} has failed: {error!r}")
            if self._ended.intersection(missing):
                raise PeerFailedError(
                    f"rank {rank} waits in {what}, but rank {min(self._ended.intersection(missing))} has ended without "
                    "calling it; every rank should call the same collectives in the same order"
                )
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise PeerFailedError(
                    f"rank {rank} has waited {self._timeout:g} s in {what} for the ranks {missing}; every rank should "
                    "call the same collectives in the same order (or give run_ranks a longer timeout)"
                )
            self._changed.wait(remaining)

    def fail(self, rank: int | None, error: BaseException) -> None:
        """Record that a rank (None: the caller of run_ranks) has failed, and wake all that wait."""
        with self._changed:
            if self.failure is None:
                self.failure = (rank, error)
            self._changed.notify_all()

    def end(self, rank: int) -> None:
        """Record that a rank has returned, and wake all that wait for it."""
        with self._changed:
            self._ended.add(rank)
            self._changed.notify_all()


_current: contextvars.ContextVar[tuple[World, int] | None] = contextvars.ContextVar("virtual_rank", default=None)
_ALONE = World(1, DEFAULT_TIMEOUT)


def current_world() -> tuple[World, int]:
    """Return the world of this thread and its rank; outside of ``run_ranks`` a world of one rank."""
    return _current.get() or (_ALONE, 0)


def run_ranks(
    function: Callable[..., Result], world_size: int, *args: Any, timeout: float = DEFAULT_TIMEOUT, **kwargs: Any
) -> list[Result]:
    """Run ``function(*args, **kwargs)`` on virtual ranks 0 .. world_size-1, each in a thread of its own.

    Inside, ``get_platform().rank`` is the number of the rank. A rank that fails makes the ranks that wait for it
    fail too.

    Args:
        timeout: for how many seconds a rank waits for the others in one collective.

    Returns:
        What the ranks returned, in the order of the ranks.

    Raises:
        The first failure of a rank, as it was raised, with the rank in a note, after all threads have ended.
    """
    if not isinstance(world_size, int) or isinstance(world_size, bool):
        raise TypeError(f"world_size should be an int, but got {world_size!r}")
    if world_size < 1:
        raise ValueError(f"world_size should be at least 1, but got {world_size}")
    world = World(world_size, timeout)
    results: dict[int, Result] = {}

    def run(rank: int) -> None:
        _current.set((world, rank))
        try:
            results[rank] = function(*args, **kwargs)
        except BaseException as error:  # re-raised below, in the caller's thread
            world.fail(rank, error)
        finally:
            world.end(rank)

    _run_threads(world, run)
    if world.failure is not None:
        rank, error = world.failure
        _add_note(error, f"raised on virtual rank {rank} of {world_size}")
        raise error
    return [results[rank] for rank in range(world_size)]


def _run_threads(world: World, run: Callable[[int], None]) -> None:
    # Every rank starts from the caller's context variables, as a process starts from its environment.
    threads = [
        threading.Thread(target=contextvars.copy_context().run, args=(run, rank), name=f"rank {rank}", daemon=True)
        for rank in range(world.size)
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException as error:
        world.fail(None, error)
        raise


def _add_note(error: BaseException, note: str) -> None:
    if hasattr(error, "add_note"):
        error.add_note(note)
    elif len(error.args) == 1 and isinstance(error.args[0], str):  # Python 3.10 has no notes
        error.args = (f"{error.args[0]} ({note})",)
