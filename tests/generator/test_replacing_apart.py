# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Files are put in place by a process of its own: what ends the run meanwhile does not leave half of them."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from hpgen import journal
from hpgen.folder_lock import locked
from hpgen.journal import Change, apply

from .spec_texts import LSE, hpgen, lse_text, tree, write_spec

RUN = """
import signal, time
# Started under nohup or in the background of a script, a process would ignore these.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
import hpgen.journal
from hpgen.cli import main
inner = hpgen.journal.commit
def slowly(root, staging, changes):
    print("replacing", flush=True)
    for change in range(len(changes)):
        time.sleep(0.02)
    inner(root, staging, changes)
hpgen.journal.commit = slowly
main(["ops", "specs"])
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_run_that_ends_while_it_replaces_leaves_the_new_files(tmp_path: Path, how: signal.Signals) -> None:
    write_spec(tmp_path, lse_text())
    assert hpgen("ops", "specs", cwd=tmp_path).returncode == 0
    write_spec(tmp_path, lse_text(("Row maximum", "Line maximum")))
    write_spec(tmp_path, lse_text((LSE, "npu_other")), "npu_other")
    process = subprocess.Popen(
        [sys.executable, "-c", RUN],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout
    assert process.stdout.readline() == b"replacing\n"
    os.killpg(process.pid, how)
    process.communicate(timeout=20)
    assert process.returncode != 0
    with locked(tmp_path / "generated", writing=False):
        found = tree(tmp_path / "generated")
    assert hpgen("ops", "specs", "-o", "fresh", cwd=tmp_path).returncode == 0
    assert found == tree(tmp_path / "fresh")
    assert hpgen("ops", "specs", "--check", cwd=tmp_path).returncode == 0


def changes() -> list[Change]:
    return [Change(PurePosixPath(f"npu_x/{name}"), "create", name.encode()) for name in ("api.py", "dfunction.py")]


def test_without_a_further_process_this_one_replaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refused)
    apply(tmp_path, changes())
    assert tree(tmp_path) == {"npu_x/api.py": b"api.py", "npu_x/dfunction.py": b"dfunction.py"}


def test_if_that_process_is_killed_the_run_takes_back_what_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, replace = os.getpid(), os.replace

    def killed(source: str | Path, target: str | Path) -> None:
        if os.getpid() != own and Path(target).name == "dfunction.py":
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target)

    monkeypatch.setattr(journal.os, "replace", killed)
    with pytest.raises(OSError, match="the process that replaces the files was killed"):
        apply(tmp_path, changes())
    assert list(tmp_path.iterdir()) == []


def test_an_error_there_is_an_error_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def full(source: str | Path, target: str | Path) -> None:
        if Path(target).name == "dfunction.py":
            raise OSError(errno.ENOSPC, "No space left on device", str(target))
        replace(source, target)

    monkeypatch.setattr(journal.os, "replace", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        apply(tmp_path, changes())
    assert (caught.value.errno, Path(caught.value.filename).name) == (errno.ENOSPC, "dfunction.py")
    assert list(tmp_path.iterdir()) == []
