# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Specs are rendered in several processes: the result is that of one, and nobody is left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hpgen.cache import Cache
from hpgen.generate import generate
from hpgen.progress import untracked
from hpgen.spec_folder import read_folder
from hpgen.workers import FEWEST, WorkerError, spread

from .spec_texts import LSE, hpgen, lse_text, write_spec

COUNT = 3 * FEWEST


def square(number: int) -> tuple[int, int]:
    return number * number, os.getpid()


def test_every_result_comes_once_with_its_number() -> None:
    found = list(spread(square, range(1, COUNT + 1), jobs=3))
    assert sorted((number, value) for number, (value, _) in found) == [(n, (n + 1) ** 2) for n in range(COUNT)]
    assert len({process for _, (_, process) in found} - {os.getpid()}) == 3


@pytest.mark.parametrize(("count", "jobs"), [(0, 4), (1, 4), (FEWEST, 4), (2 * FEWEST - 1, 4), (COUNT, 1)])
def test_few_items_need_no_further_process(count: int, jobs: int) -> None:
    assert {process for _, (_, process) in spread(square, range(count), jobs)} <= {os.getpid()}


def die(number: int) -> int:
    if number == COUNT // 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_process_that_is_killed_is_an_error_and_nobody_waits() -> None:
    with pytest.raises(WorkerError, match="was killed"):
        list(spread(die, range(COUNT), jobs=2))
    assert multiprocessing.active_children() == []


def fail(number: int) -> int:
    if number == COUNT // 2:
        raise LookupError(f"the fault of item {number}")
    return number


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_is_the_one_of_the_function(jobs: int) -> None:
    with pytest.raises(LookupError, match=f"the fault of item {COUNT // 2}"):
        list(spread(fail, range(COUNT), jobs))
    assert multiprocessing.active_children() == []


def test_without_further_processes_one_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a limit of the user, of processes or of open files, has it: also if it is met half way."""
    forks = iter([os.fork])

    def refused() -> int:
        fork = next(forks, None)
        if fork is None:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return fork()

    monkeypatch.setattr(os, "fork", refused)
    found = list(spread(square, range(COUNT), jobs=3))
    assert [number for number, _ in found] == list(range(COUNT))
    assert {process for _, (_, process) in found} == {os.getpid()}
    assert multiprocessing.active_children() == []


def test_processes_end_with_whoever_stops_listening() -> None:
    results = spread(square, range(COUNT), jobs=2)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []


def many_specs(folder: Path, wrong: int = 0) -> Path:
    for number in range(COUNT):
        op = f"npu_copy_{number}x"
        mistake = [("T1 N1 D", "T9 N1 D")] if number < wrong else []
        specs = write_spec(folder, lse_text((LSE, op), *mistake), op)
    return specs


def test_several_processes_give_what_one_gives(tmp_path: Path) -> None:
    folder = read_folder([many_specs(tmp_path)])
    one, three = (generate(folder, Cache(None), untracked, jobs) for jobs in (1, 3))
    assert list(one.items()) == list(three.items())


def test_messages_come_in_the_order_of_the_files(tmp_path: Path) -> None:
    many_specs(tmp_path, wrong=COUNT // 2)
    one, three = (hpgen("ops", "specs", "-j", jobs, cwd=tmp_path) for jobs in ("1", "3"))
    assert (one.returncode, one.stderr) == (three.returncode, three.stderr)
    assert one.stderr.count("error[HP102]") == COUNT // 2


RUN = """
import signal, sys, time
# Started under nohup or in the background of a script, a process would ignore these.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
import hpgen.render_file
from hpgen.cli import main
inner = hpgen.render_file.checked_spec
def slowly(file):
    time.sleep(0.2)
    return inner(file)
hpgen.render_file.checked_spec = slowly
main(sys.argv[1:])
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_stopped_leaves_no_process_and_no_file(tmp_path: Path, how: signal.Signals) -> None:
    many_specs(tmp_path)
    command = [sys.executable, "-c", RUN, "ops", "specs", "-j", "2", "--no-cache"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True)
    wait_until(lambda: len(members(process.pid)) == 3)
    if how == signal.SIGINT:
        os.killpg(process.pid, how)  # as a terminal does
    else:
        process.send_signal(how)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == {signal.SIGINT: 130}.get(how, -how)
    assert errors == ("interrupted\n" if how == signal.SIGINT else "")
    wait_until(lambda: not members(process.pid))
    assert not (tmp_path / "generated").exists()


def members(group: int) -> list[int]:
    """The processes of a group that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def wait_until(condition: object) -> None:
    deadline = time.monotonic() + 20
    assert callable(condition)
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
