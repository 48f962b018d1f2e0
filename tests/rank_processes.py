# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a function on ranks that are processes of their own, whichever framework connects them.

``run_processes`` in a test; every rank runs a script that calls ``run_rank``.
"""

from __future__ import annotations

import faulthandler
import importlib.util
import inspect
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FAREWELL = 0.1  # seconds in which peers read what this rank has sent last
GRACE = 3.0


class RankError(RuntimeError):
    """A rank has failed; the message holds its number and its traceback."""


class FrameworkCrashError(RankError):
    """A signal has ended a rank that had none of this project's compiled code loaded."""


def run_processes(
    script: str,
    ranks: Sequence[Mapping[str, str]],
    target: str | Callable[..., Any],
    args: tuple[Any, ...],
    timeout: float,
    server: Mapping[str, str] | None = None,
    grace: float = GRACE,
) -> list[Any]:
    """Run a function on as many processes as there are environments and return their results in that order.

    Args:
        script: the file that every process runs, with a folder as its argument.
        ranks: what the environment of each rank has besides that of this process.
        target: a function at the top level of a test module, or "path/to/module.py:function".
        args: arguments of the function; they and the result are pickled.
        timeout: seconds for everything together, from the start of the processes.
        server: the environment of one more process, through which the ranks find each other and which is not waited for.
        grace: seconds in which peers of a failed rank may still report their own failure.

    Raises:
        RankError: the first rank that failed, with its traceback.
        TimeoutError: not all ranks have ended in time; the message holds what they wrote.
    """
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        Path(folder, "call.pickle").write_bytes(pickle.dumps((_location(target), args)))
        started: list[subprocess.Popen[bytes]] = []
        try:
            if server is not None:
                started.append(_start(script, folder, "server", server))
            processes = []
            for rank, environment in enumerate(ranks):
                processes.append(_start(script, folder, str(rank), environment))
                started.append(processes[-1])
            _wait(processes, folder, timeout, grace)
        finally:
            _kill(started)
        return [pickle.loads(_file(folder, rank, "result").read_bytes()) for rank in range(len(ranks))]


def _location(target: str | Callable[..., Any]) -> tuple[str, str]:
    if isinstance(target, str):
        path, _, name = target.rpartition(":")
        return str(Path(path).resolve()), name
    if "<" in target.__qualname__ or "." in target.__qualname__:
        raise ValueError(f"a rank imports its function, so it should be at the top level of a module: {target!r}")
    return str(Path(inspect.getfile(target)).resolve()), target.__name__


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _file(folder: str, rank: int | str, kind: str) -> Path:
    return Path(folder, f"{rank}.{kind}")


def _start(script: str, folder: str, rank: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    places = [str(ROOT), str(Path(script).parent), str(ROOT / "tests/runtime"), os.environ.get("PYTHONPATH", "")]
    inherited = {**os.environ, "PYTHONPATH": os.pathsep.join(place for place in places if place)}
    with _file(folder, rank, "output").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, str(Path(script).resolve()), folder],
            cwd=folder,  # for what a framework leaves behind
            env={**inherited, "OMP_NUM_THREADS": "1", **environment},
            stdin=subprocess.PIPE,  # its end tells a rank that this process is gone
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _wait(processes: list[subprocess.Popen[bytes]], folder: str, timeout: float, grace: float) -> None:
    deadline = time.monotonic() + timeout
    failed = False
    while None in (codes := [process.poll() for process in processes]):
        if not failed and any(codes):
            failed = True
            deadline = min(deadline, time.monotonic() + grace)
        if time.monotonic() > deadline:
            if failed:
                break
            waiting = [rank for rank, code in enumerate(codes) if code is None]
            raise TimeoutError(
                f"the ranks {waiting} have not ended within {timeout:g} s\n{_outputs(folder, processes)}"
            )
        time.sleep(0.02)
    _raise_first_failure(processes, folder)


def _raise_first_failure(processes: list[subprocess.Popen[bytes]], folder: str) -> None:
    failures = [_file(folder, rank, "error") for rank in range(len(processes))]
    for rank, process in enumerate(processes):
        if process.returncode and process.returncode < 0 and not any(Path(folder).glob("*.native")):
            outputs = _outputs(folder, processes)
            raise FrameworkCrashError(f"rank {rank} of {len(processes)}: signal {-process.returncode}\n{outputs}")
    # The earliest is the cause; what peers of a failed rank report comes later.
    reported = sorted((path for path in failures if path.exists()), key=lambda path: path.stat().st_mtime_ns)
    if reported:
        rank = int(reported[0].name.partition(".")[0])
        crashed = [each for each, process in enumerate(processes) if process.returncode and not failures[each].exists()]
        silent = "".join(f"\nrank {each} has ended with exit code {processes[each].returncode}" for each in crashed)
        shown = f"{silent}\n{_outputs(folder, processes)}" if crashed else ""
        raise RankError(f"rank {rank} of {len(processes)} has failed:\n{reported[0].read_text()}{shown}")
    for rank, process in enumerate(processes):
        if process.returncode:
            outputs = _outputs(folder, processes)
            raise RankError(f"rank {rank} of {len(processes)} has ended with exit code {process.returncode}\n{outputs}")


def _outputs(folder: str, processes: list[subprocess.Popen[bytes]]) -> str:
    texts = [_file(folder, rank, "output").read_text(errors="replace")[-4000:] for rank in range(len(processes))]
    return "\n".join(f"rank {rank} wrote:\n{text}" for rank, text in enumerate(texts) if text)


def _kill(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


def is_running(pid: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def run_rank(folder: str, rank: int, call: Callable[[Callable[[], tuple[Any, ...]]], Any]) -> None:
    """Run the target on this rank and leave its result, or its failure, in the folder.

    Args:
        call: connects the rank with the others, calls what it is given for the function and its arguments, runs that,
            waits for the others, and returns the result.
    """
    end_with_parent()
    faulthandler.enable()
    sys.addaudithook(lambda event, args: _note_kernels(event, args, _file(folder, rank, "native")))
    try:
        result = pickle.dumps(call(lambda: _target(folder)))
    except BaseException:
        _write(_file(folder, rank, "error"), traceback.format_exc().encode())
        sys.stdout.flush()
        os._exit(1)  # without waiting for peers that wait for this rank
    _write(_file(folder, rank, "result"), result)
    sys.stdout.flush()
    time.sleep(FAREWELL)
    os._exit(0)  # the frameworks' threads do not always survive the interpreter's end


def _note_kernels(event: str, args: tuple[Any, ...], note: Path) -> None:
    """Leave a note when compiled kernels of this project are loaded."""
    if event == "import" and args[1] and "/native/" in str(args[1]):
        note.touch()


def _target(folder: str) -> tuple[Any, ...]:
    (path, name), args = pickle.loads(Path(folder, "call.pickle").read_bytes())
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, name), args


def _write(path: Path, content: bytes) -> None:
    unfinished = path.with_suffix(".unfinished" + path.suffix)
    unfinished.write_bytes(content)
    unfinished.replace(path)


def end_with_parent() -> None:
    """End this process when the one that has started it is gone."""
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    os.read(0, 1)  # not sys.stdin, whose lock this thread would hold at the interpreter's end
    os._exit(1)
