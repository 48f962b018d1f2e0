# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Whoever waits at a terminal sees how far a run is; nobody else sees anything."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from .spec_texts import LSE, lse_text, write_spec

RUN = """
import sys
import hpgen.progress
from hpgen.cli import main
hpgen.progress.PATIENCE = hpgen.progress.PACE = float(sys.argv[1])
main(sys.argv[2:])
"""


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    for number in range(3):
        op = f"npu_copy_{number}x"
        write_spec(tmp_path, lse_text((LSE, op)), op)
    return tmp_path


def command(patience: float) -> list[str]:
    return [sys.executable, "-c", RUN, str(patience), "ops", "specs", "--no-cache"]


def at_a_terminal(folder: Path, patience: float) -> str:
    """What appears on the terminal of a run that has standard error there."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command(patience), cwd=folder, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        try:
            while data := os.read(ours, 4096):
                shown += data
        except OSError:  # how a terminal says that nobody writes any more
            pass
        assert process.stdout
        assert b"3 operators: 26 files written in generated\n" in process.stdout.read()
    os.close(ours)
    assert process.returncode == 0
    return shown.decode()


def test_each_step_of_a_long_run_is_shown(specs: Path) -> None:
    shown = at_a_terminal(specs, patience=0)
    for step in ("rendering operators: 0 of 3", "comparing files: 0 of 26", "writing files: 0 of 26"):
        assert step in shown
    assert "\x1b" not in shown, "a terminal that knows no escapes shows it too"
    assert shown.rsplit("\r", 2)[1].strip() == "", "the last line is erased"


def test_a_narrow_terminal_gets_a_short_line(specs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "12")
    shown = at_a_terminal(specs, patience=0)
    assert "\rrendering o" in shown
    assert max(map(len, shown.split("\r"))) == 11


def test_a_short_run_shows_nothing(specs: Path) -> None:
    assert at_a_terminal(specs, patience=60) == ""


def test_a_log_gets_no_line(specs: Path) -> None:
    result = subprocess.run(command(0), cwd=specs, capture_output=True, text=True, check=True)
    assert result.stderr == ""


def test_a_mistake_is_told_below_the_line(specs: Path) -> None:
    write_spec(specs, lse_text((LSE, "npu_copy_1x"), ("T1 N1 D", "T9 N1 D")), "npu_copy_1x")
    ours, theirs = pty.openpty()
    process = subprocess.run(command(0), cwd=specs, stdout=subprocess.PIPE, stderr=theirs, check=False)
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert process.returncode == 1
    lines = shown.replace("\r", "\n").splitlines()
    assert any(line.startswith("specs/npu_copy_1x.yaml:") and "error[HP102]" in line for line in lines)
