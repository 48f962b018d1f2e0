# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A process for each operator: one that dies, hangs or prints does so for itself."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection, get_all_start_methods, get_context
from typing import Any

from .task import Outcome, Task, perform

TICK = "tick"


@dataclass(frozen=True)
class Running:
    number: int
    process: Any
    deadline: float


def outcomes(tasks: Sequence[Task], jobs: int, limit: float) -> Iterator[tuple[int, Outcome | None]]:
    """The outcome of each task with its number, as they come; None each time when a case has been run.

    Args:
        jobs: How many run at once.
        limit: Seconds that each may take.
    """
    # Forked: NumPy and the runtime are imported once for all.
    context: Any = get_context("fork" if "fork" in get_all_start_methods() else "spawn")
    waiting = deque(enumerate(tasks))
    running: dict[connection.Connection, Running] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                number, task = waiting.popleft()
                reader, writer = context.Pipe(duplex=False)
                with writer:
                    process = context.Process(target=work, args=(task, writer, [*running, reader]))
                    process.start()
                running[reader] = Running(number, process, time.monotonic() + limit)
            first = min(one.deadline for one in running.values())
            for ready in connection.wait(list(running), max(0.0, first - time.monotonic())):
                assert isinstance(ready, connection.Connection)
                reader = ready
                outcome = received(reader, running[reader])
                yield running[reader].number, outcome
                if outcome is not None:
                    end(running.pop(reader), reader)
            for reader, one in list(running.items()):
                if time.monotonic() > one.deadline:
                    yield one.number, Outcome("failed", overdue(limit))
                    end(running.pop(reader), reader)
    finally:
        for reader, one in running.items():
            end(one, reader)


def received(reader: connection.Connection, running: Running) -> Outcome | None:
    try:
        kind, value = json.loads(reader.recv_bytes())
    except (EOFError, OSError):
        running.process.join()
        return died(running.process.exitcode)
    return None if kind == TICK else Outcome(kind, value)


def end(running: Running, reader: connection.Connection) -> None:
    running.process.kill()
    running.process.join()
    reader.close()


def overdue(limit: float) -> str:
    return (
        f"it was not done within {limit:g} s, and was stopped. A reference that never returns is the usual reason; "
        "--timeout SECONDS gives more time."
    )


def died(code: int) -> Outcome:
    """Of a process that has answered nothing."""
    if code == -signal.SIGKILL:
        text = "its process was killed; is there enough memory? --jobs 1 runs one operator at a time."
        return Outcome("environment", text)
    if code < 0:
        return Outcome("failed", f"its process died of {signal.Signals(-code).name}: the reference or the rule did it.")
    return Outcome("failed", f"its process ended with exit code {code}: the reference or the rule did it.")


def work(task: Task, writer: connection.Connection, readers: Sequence[connection.Connection]) -> None:
    """The body of a process. It ends when nobody is left who wants the answer."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for reader in readers:  # else nobody would notice that the parent is gone
        reader.close()
    with suppress(OSError):
        os.dup2(2, 1)  # what a reference prints is no part of the report

    def send(kind: str, value: Any = None) -> None:
        writer.send_bytes(json.dumps([kind, value]).encode())

    outcome = perform(task, lambda: send(TICK))
    with suppress(BrokenPipeError):
        send(outcome.kind, outcome.value)
