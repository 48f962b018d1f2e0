# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Ranks that are processes of their own, connected over the loopback interface: gloo for torch, mccl for MindSpore.

They stay for many calls. When one has died or does not answer, all are ended, and the next call starts them again.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from math import prod
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any

from .meshes import MESHES, meshes_of
from .rank_process import SCHEDULER, Answer, Recipe, main

INSTALLED_BY = {
    "torch": "pip install 'hpgen[torch]'",
    "mindspore": "pip install 'hpgen[mindspore]', on Python 3.10 to 3.12",
}
"""The platforms whose ranks are processes, and how their frameworks are installed."""
STARTING = 180.0
"""Seconds in which all ranks should have found each other: frameworks are imported from cold disks, too."""
GRACE = 5.0
"""Seconds in which the others may still answer when one rank has failed."""
SHOWN = 2000
"""Characters of what a rank has written that an error shows."""


class PlatformError(Exception):
    """Ranks cannot be had here; the message says why and what to do."""


class RankError(Exception):
    """A rank has died or does not answer."""


@dataclass(frozen=True)
class Running:
    """A process, and the channel to it."""

    process: subprocess.Popen[bytes]
    channel: Connection


def check_platform(platform: str) -> None:
    """PlatformError unless ranks of this platform can be started here."""
    if platform not in INSTALLED_BY:
        raise PlatformError(f"the platform should be one of {', '.join(INSTALLED_BY)}, but got {platform!r}")
    found = find_spec(platform)
    if found is None or found.origin is None:  # a folder of that name has no origin
        raise PlatformError(f"{platform} is not installed in this Python; install it with: {INSTALLED_BY[platform]}")
    if os.name != "posix":
        raise PlatformError("ranks that are processes need a POSIX system; those of numpy are threads")


def check_ranks(ranks: int) -> None:
    """PlatformError unless there is a mesh for so many ranks."""
    if not meshes_of(ranks):
        known = sorted({prod(mesh.values()) for mesh in MESHES})
        raise PlatformError(f"no mesh has {ranks} ranks: there are meshes of {', '.join(map(str, known))}")


class Ranks:
    """The processes of one operator. They end with the block, or by `stop`.

    Args:
        recipe: How they load the operator.
        platform: `torch` or `mindspore`.
        count: How many.
        timeout: Seconds for each call.

    Attributes:
        stops: How often they had to be ended, because one died or did not answer.

    Raises:
        PlatformError: The platform is unknown or not installed.
    """

    def __init__(self, recipe: Recipe, platform: str, count: int, timeout: float) -> None:
        check_platform(platform)
        self.recipe = recipe
        self.platform = platform
        self.count = count
        self.timeout = timeout
        self.stops = 0
        self._ranks: list[Running] = []
        self._server: Running | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pids(self) -> list[int]:
        """The processes that run now."""
        return [one.process.pid for one in self._all]

    @property
    def _all(self) -> list[Running]:
        return [*self._ranks, *([self._server] if self._server else [])]

    def start(self) -> None:
        """Start the ranks if they do not run, and wait until each has loaded the operator.

        Raises:
            PlatformError: They did not find each other, or one cannot load the operator.
        """
        if self._ranks:
            return
        for is_last in (False, True):
            try:
                self._start()
                return
            except RankError as error:
                # Frameworks crash at the start now and then; twice is no chance.
                crashed = any((one.process.poll() or 0) < 0 for one in self._all)
                self.stop()
                if is_last or not crashed:
                    text = f"the {self.count} processes of {self.platform} could not be started: {error}"
                    raise PlatformError(text) from None
            except BaseException:
                self.stop()
                raise

    def _start(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="hpgen-ranks-")
        if self.platform == "torch":
            number, common = "RANK", {"WORLD_SIZE": str(self.count)}
            common |= {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}
        else:
            number, common = "MS_NODE_ID", {**self._cluster(), "MS_ROLE": "MS_WORKER"}
            self._server = self._started(SCHEDULER, {**common, number: "scheduler", "MS_ROLE": SCHEDULER})
        for rank in range(self.count):
            self._ranks.append(self._started(str(rank), {**common, number: str(rank)}))
        for rank, answer in enumerate(self._asked(self.recipe, STARTING)):
            if answer.failed:
                raise RankError(f"rank {rank}: {answer.text}")

    def _cluster(self) -> dict[str, str]:
        """How MindSpore's processes find each other, and how long they wait."""
        patience = str(max(1, int(self.timeout)))
        return {
            "GLOG_v": "3",  # errors only
            "MS_CPU_COMM_OP_TIMEOUT": patience,
            "MS_RECEIVE_MSG_TIMEOUT": patience,
            "MS_RETRY_INTERVAL_LOWER": "1",  # seconds between attempts to reach the scheduler
            "MS_RETRY_INTERVAL_UPPER": "1",
            "MS_SCHED_HOST": "127.0.0.1",
            "MS_SCHED_PORT": str(free_port()),
            "MS_TOPO_TIMEOUT": str(int(STARTING)),
            "MS_WORKER_NUM": str(self.count),
        }

    def _started(self, name: str, environment: Mapping[str, str]) -> Running:
        """A process with these variables besides those that all have."""
        assert self._folder is not None
        ours, theirs = Pipe()
        program = main.__module__
        with theirs, Path(self._folder.name, f"{name}.output").open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-c", f"import {program}; {program}.main({theirs.fileno()})"],
                cwd=self._folder.name,  # for what a framework leaves behind
                env={**inherited(), "HYPER_PARALLEL_PLATFORM": self.platform, **environment},
                stdin=subprocess.PIPE,  # its end tells them that this process is gone
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        return Running(process, ours)

    def ask(self, *request: Any) -> list[Answer]:
        """Ask every rank the same, and give their answers in the order of the ranks.

        Raises:
            RankError: A rank has died, or did not answer in time; all are ended.
            PlatformError: The ranks had to be started, and could not be.
        """
        self.start()
        try:
            return self._asked(request, self.timeout)
        except RankError:
            self.stops += 1
            self.stop()
            raise
        except BaseException:
            self.stop()
            raise

    def _asked(self, request: Any, timeout: float) -> list[Answer]:
        for one in self._ranks:
            with suppress(OSError):  # of one that has died; it is seen below
                one.channel.send(request)
        found: dict[int, Answer] = {}
        deadline = time.monotonic() + timeout
        while len(found) < self.count:
            waiting = {self._ranks[rank].channel: rank for rank in range(self.count) if rank not in found}
            ready = wait(list(waiting), max(0.0, deadline - time.monotonic()))
            if not ready:
                raise self._silence(found, timeout)
            for rank in (rank for channel, rank in waiting.items() if channel in ready):
                try:
                    found[rank] = self._ranks[rank].channel.recv()
                except (EOFError, OSError):
                    raise self._death(rank) from None
                if found[rank].failed:  # others may wait for it in a collective
                    deadline = min(deadline, time.monotonic() + GRACE)
        return [found[rank] for rank in range(self.count)]

    def _silence(self, found: Mapping[int, Answer], timeout: float) -> RankError:
        """Of a rank that has failed while others wait for it, or if none has, of those that do not answer."""
        silent = [rank for rank in range(self.count) if rank not in found]
        others = ", ".join(map(str, silent))
        for rank, answer in sorted(found.items()):
            if answer.failed:
                return RankError(
                    f"rank {rank} has failed: {answer.text}; after that, no answer came from rank {others}"
                )
        return RankError(f"no answer came from rank {others} within {timeout:g} s{self._written(silent[0])}")

    def _death(self, rank: int) -> RankError:
        process = self._ranks[rank].process
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
        code = process.returncode
        ended = f"died of {signal.Signals(-code).name}" if code and code < 0 else f"ended with exit code {code}"
        return RankError(f"rank {rank} {ended}{self._written(rank)}")

    def _written(self, rank: int) -> str:
        """The end of what a rank has written."""
        assert self._folder is not None
        text = Path(self._folder.name, f"{rank}.output").read_text(errors="replace").strip()
        return f"; it wrote: {text[-SHOWN:]}" if text else ""

    def stop(self) -> None:
        """End all processes, and wait until they are gone."""
        for one in self._all:
            if one.process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(one.process.pid, signal.SIGKILL)
        for one in self._all:
            one.process.wait()
            one.channel.close()
            assert one.process.stdin is not None
            one.process.stdin.close()
        self._ranks, self._server = [], None
        if self._folder is not None:
            with suppress(OSError):
                self._folder.cleanup()
            self._folder = None


def inherited() -> dict[str, str]:
    """The environment of a rank but for what its platform needs: this process's path, and one thread for each."""
    path = os.pathsep.join(str(Path(place or ".").resolve()) for place in sys.path)
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**os.environ, "PYTHONPATH": path, "HYPER_PARALLEL_KERNELS": "reference", **threads}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
