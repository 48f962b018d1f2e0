# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""One function on many items, in several processes."""

from __future__ import annotations

import gc
import os
import pickle
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

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
    """The results with the numbers of their items, as they come.

    Raises:
        WorkerError: If a process was killed.
    """
    count = min(jobs, len(items) // FEWEST)
    if count < 2 or not hasattr(os, "fork"):
        yield from ((number, function(item)) for number, item in enumerate(items))
        return
    from multiprocessing import get_context  # imported here: most runs need no second process

    context = get_context("fork")
    pipes = [context.Pipe(duplex=False) for _ in range(count)]
    processes = [
        context.Process(target=work, args=(function, items, number, pipes), daemon=True) for number in range(count)
    ]
    for process in processes:
        process.start()
    for _, writer in pipes:
        writer.close()
    try:
        yield from results([reader for reader, _ in pipes], len(items))
    finally:
        for process in processes:
            process.kill()
            process.join()


def results(readers: Sequence[Connection], count: int) -> Iterator[tuple[int, R]]:
    """What the processes send, until there is all of it."""
    from multiprocessing import connection

    open_readers = list(readers)
    while count:
        for reader in connection.wait(open_readers):
            assert isinstance(reader, connection.Connection)
            try:
                number, result = pickle.loads(reader.recv_bytes())
            except (EOFError, OSError):
                open_readers.remove(reader)
                if not open_readers:
                    raise WorkerError("a process was killed while it rendered specs; is there enough memory?") from None
                continue
            count -= 1
            yield number, result


def work(
    function: Callable[[T], R],
    items: Sequence[T],
    first: int,
    pipes: Sequence[tuple[Connection, Connection]],
) -> None:
    """The body of one process: every item whose turn it is. It ends when nobody is left who wants the results."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # it lives for seconds
    for reader, _ in pipes:
        reader.close()
    mine = pipes[first][1]
    for _, writer in pipes:
        if writer is not mine:
            writer.close()
    try:
        for number in range(first, len(items), len(pipes)):
            mine.send_bytes(pickle.dumps((number, function(items[number]))))
    except BrokenPipeError:
        return
