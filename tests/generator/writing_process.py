# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""hpgen in processes that are killed, or whose system calls fail, at a chosen place.

Starting Python takes longer than generating two operators. So one process loads hpgen, and for each run forks a child,
which does what a fresh process would do. Faults come from outside of the product: an audit hook sees every change that
Python makes in the file system (and may refuse it or kill the process there), a trace function sees every line.

As a script: requests on standard input, one JSON object a line, answers on standard output.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import mmap
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[2]
CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link")
WRITERS = ("folder_lock.py", "journal.py")
NOBODY = 65534


@dataclass(frozen=True)
class Result:
    code: int
    """The exit code; negative is the signal that ended the process."""
    out: str
    err: str
    steps: int
    """Changes in the file system, or lines of the writing modules, depending on what was counted."""

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL


class Forks:
    """The loaded process, and runs in children of it."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.generator.writing_process"]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, *arguments: str, cwd: Path, **fault: Any) -> Result:
        """Run hpgen. Faults:

        kill_at=n: killed before the n-th change in the file system; refuse_at=n, error=errno: this change fails,
        refuse_from=n: all changes from this one on; line=n: killed at the n-th line of the modules that write;
        after=seconds: killed then; largest=bytes: no file may grow longer; nobody=True: without the rights of root.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"arguments": arguments, "cwd": str(cwd), **fault}) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, "the process that runs hpgen has ended"
        return Result(**json.loads(answer))

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=10)


def serve() -> None:
    from hpgen.cli import main

    with tempfile.TemporaryDirectory() as warm, contextlib.redirect_stdout(io.StringIO()):
        for option in ("--no-cache", "--cache"):  # all that either imports
            main(["ops", str(ROOT / "specs"), "-o", warm, option], standalone_mode=False)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()


def answer(request: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as steps:
        process = os.fork()
        if process == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            run(request, lambda count: os.pwrite(steps.fileno(), str(count).encode(), 0))
        if "after" in request:
            time.sleep(request["after"])
            os.kill(process, signal.SIGKILL)
        status = os.waitpid(process, 0)[1]
        texts = []
        for stream in (out, err, steps):
            stream.seek(0)
            texts.append(stream.read().decode())
        code = os.waitstatus_to_exitcode(status)
        return {"code": code, "out": texts[0], "err": texts[1], "steps": int(texts[2] or 0)}


def run(request: dict[str, Any], count: Callable[[int], object]) -> NoReturn:
    """In the child: arm the fault, then do what `python -m hpgen` does."""
    from hpgen.cli import main

    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False)
    os.chdir(request["cwd"])
    if request.get("nobody") and os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    if "largest" in request:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["largest"], request["largest"]))
    if "line" in request:
        trace_lines(request["line"], count)
    else:
        watch_changes(request, count)
    code = 1
    try:
        main(request["arguments"], prog_name="hpgen")
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.settrace(None)
        os._exit(code)


def watch_changes(request: dict[str, Any], count: Callable[[int], object]) -> None:
    kill_at, refuse_at, refuse_from = (request.get(key, 0) for key in ("kill_at", "refuse_at", "refuse_from"))
    error = request.get("error", errno.ENOSPC)
    folder = os.getcwd()
    counter = Counter()

    def hook(event: str, values: tuple[Any, ...]) -> None:
        if event not in CHANGES and not (event == "open" and values[2] & (os.O_WRONLY | os.O_RDWR)):
            return
        if isinstance(values[0], int) or not os.path.abspath(os.fsdecode(values[0])).startswith(folder):
            return
        seen = counter.next()
        count(seen)
        if seen == kill_at:
            counter.kill()
        if seen == refuse_at or 0 < refuse_from <= seen:
            raise OSError(error, os.strerror(error), values[0])

    sys.addaudithook(hook)


class Counter:
    """Counts in a process and in those that it forks, and kills all of them: as a machine that stops."""

    def __init__(self) -> None:
        self.main = os.getpid()
        self.memory = mmap.mmap(-1, 8)

    def next(self) -> int:
        number = int.from_bytes(self.memory[:8], "big") + 1
        self.memory[:8] = number.to_bytes(8, "big")
        return number

    def kill(self) -> None:
        for process in dict.fromkeys((self.main, os.getpid())):
            os.kill(process, signal.SIGKILL)


def trace_lines(kill_at: int, count: Callable[[int], object]) -> None:
    counter = Counter()

    def lines(frame: Any, event: str, argument: object) -> Any:
        if event == "line":
            seen = counter.next()
            if seen == kill_at:
                counter.kill()
            if not kill_at:
                count(seen)
        return lines

    def calls(frame: Any, event: str, argument: object) -> Any:
        return lines if os.path.basename(frame.f_code.co_filename) in WRITERS else None

    sys.settrace(calls)


if __name__ == "__main__":
    assert threading.active_count() == 1, "a fork takes only one thread along"
    serve()
