# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""One function on many items, in several processes."""

from __future__ import annotations

import gc
import os
import pickle
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

T = TypeVar("T")
R = TypeVar("R")

FEWEST = 12
"""Items that are worth a process of their own: starting one costs about as much as they do."""


class WorkerError(Exception):
    """A process ended before its work was done."""


def processors() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spread(function: Callable[[T], R], items: Sequence[T], jobs: int) -> Iterator[tuple[int, R]]:
    """The results with the numbers of their items, as they come. Without further processes if the system has none.

    Raises:
        WorkerError: If a process was killed.
    """
    count = min(jobs, len(items) // FEWEST)
    if count < 2 or not hasattr(os, "fork"):
        yield from ((number, function(item)) for number, item in enumerate(items))
        return
    processes: list[Any] = []
    readers: list[Connection] = []
    try:
        try:
            start(function, items, count, processes, readers)
        except OSError:  # no more processes or open files for this user
            stop(processes, readers)
            yield from ((number, function(item)) for number, item in enumerate(items))
            return
        yield from results(readers, len(items))
    finally:
        stop(processes, readers)


def start(
    function: Callable[[T], R], items: Sequence[T], count: int, processes: list[Any], readers: list[Connection]
) -> None:
    """Start the processes. A key that interrupts is held back until each of them has its own way to end."""
    from multiprocessing import get_context  # imported here: most runs need no second process

    context = get_context("fork")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        for first in range(count):
            reader, writer = context.Pipe(duplex=False)
            readers.append(reader)
            with writer:
                share = range(first, len(items), count)
                arguments = (function, items, share, writer, list(readers))
                process = context.Process(target=work, args=arguments, daemon=True)
                process.start()
            processes.append(process)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def stop(processes: list[Any], readers: list[Connection]) -> None:
    for process in processes:
        process.kill()
        process.join()
    for reader in readers:
        reader.close()
    processes.clear()
    readers.clear()


def results(readers: Sequence[Connection], count: int) -> Iterator[tuple[int, Any]]:
    """What the processes send, until there is all of it; an error of the function is raised as if it ran here."""
    from multiprocessing import connection

    due = {reader: len(range(first, count, len(readers))) for first, reader in enumerate(readers)}
    while due:
        for reader in connection.wait(list(due)):
            assert isinstance(reader, connection.Connection)
            try:
                number, result, error = pickle.loads(reader.recv_bytes())
            except (EOFError, OSError):
                raise WorkerError(
                    "a process was killed while it rendered specs; is there enough memory? "
                    "--jobs 1 takes one process and the least of it"
                ) from None
            if error is not None:
                raise error
            due[reader] -= 1
            if not due[reader]:
                del due[reader]
            yield number, result


def work(
    function: Callable[[T], R], items: Sequence[T], share: Sequence[int], writer: Connection, readers: Sequence[Any]
) -> None:
    """The body of one process: its share of the items. It ends when nobody is left who wants the results."""
    for stopping in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stopping, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    gc.disable()  # it lives for seconds
    for reader in readers:  # else nobody would notice that the parent is gone
        reader.close()
    try:
        for number in share:
            writer.send_bytes(pickle.dumps(outcome(function, items[number], number)))
    except BrokenPipeError:
        return


def outcome(function: Callable[[T], R], item: T, number: int) -> tuple[int, R | None, Exception | None]:
    try:
        return number, function(item), None
    except Exception as error:
        return number, None, error
