# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Starts torch ranks as processes of their own, connected by gloo over the loopback interface.

``run_gloo_ranks(function, world_size, *args)`` in a test; this file is also what every rank runs.
"""

from __future__ import annotations

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
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
GRACE = 3.0  # seconds in which peers of a failed rank may still report their own failure


class RankError(RuntimeError):
    """A rank has failed; the message holds its number and its traceback."""


def run_gloo_ranks(target: str | Callable[..., Any], world_size: int, *args: Any, timeout: float = 120) -> list[Any]:
    """Run a function on ``world_size`` processes and return their results in the order of the ranks.

    Args:
        target: a function at the top level of a test module, or "path/to/module.py:function".
        args: arguments of the function; they and the result are pickled.
        timeout: seconds for everything together, from the start of the processes.

    Raises:
        RankError: the first rank that failed, with its traceback.
        TimeoutError: not all ranks have ended in time; the message holds what they wrote.
    """
    with tempfile.TemporaryDirectory(prefix="gloo-ranks-") as folder:
        call = Path(folder, "call.pickle")
        call.write_bytes(pickle.dumps((_location(target), args)))
        processes = [_start(folder, rank, world_size, port) for port in [free_port()] for rank in range(world_size)]
        try:
            _wait(processes, folder, timeout)
        finally:
            _kill(processes)
        return [pickle.loads(_file(folder, rank, "result").read_bytes()) for rank in range(world_size)]


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


def _file(folder: str, rank: int, kind: str) -> Path:
    return Path(folder, f"{rank}.{kind}")


def _start(folder: str, rank: int, world_size: int, port: int) -> subprocess.Popen[bytes]:
    places = [str(ROOT), str(ROOT / "tests/torch"), str(ROOT / "tests/runtime"), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "HYPER_PARALLEL_PLATFORM": "torch",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(place for place in places if place),
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
    }
    if sys.platform == "linux":
        environment["GLOO_SOCKET_IFNAME"] = "lo"
    with _file(folder, rank, "output").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), folder],
            env=environment,
            stdin=subprocess.PIPE,  # its end tells a rank that this process is gone
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _wait(processes: list[subprocess.Popen[bytes]], folder: str, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    failed = False
    while None in (codes := [process.poll() for process in processes]):
        if not failed and any(codes):
            failed = True
            deadline = min(deadline, time.monotonic() + GRACE)
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
    # The earliest is the cause; what peers of a failed rank report comes later.
    reported = sorted((path for path in failures if path.exists()), key=lambda path: path.stat().st_mtime_ns)
    if reported:
        rank = int(reported[0].name.partition(".")[0])
        raise RankError(f"rank {rank} of {len(processes)} has failed:\n{reported[0].read_text()}")
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


def _run_rank(folder: str) -> None:
    rank = int(os.environ["RANK"])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        result = pickle.dumps(_call_target(folder))
    except BaseException:
        _write(_file(folder, rank, "error"), traceback.format_exc().encode())
        sys.stdout.flush()
        os._exit(1)  # without waiting for peers that wait for this rank
    _write(_file(folder, rank, "result"), result)


def _call_target(folder: str) -> Any:
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    (path, name), args = pickle.loads(Path(folder, "call.pickle").read_bytes())
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    result = getattr(module, name)(*args)
    dist.barrier()
    dist.destroy_process_group()
    return result


def _write(path: Path, content: bytes) -> None:
    unfinished = path.with_suffix(".unfinished" + path.suffix)
    unfinished.write_bytes(content)
    unfinished.replace(path)


def _end_with_parent() -> None:
    os.read(0, 1)  # not sys.stdin, whose lock this thread would hold at the interpreter's end
    os._exit(1)


if __name__ == "__main__":
    _run_rank(sys.argv[1])
