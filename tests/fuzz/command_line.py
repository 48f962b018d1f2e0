# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The same examples through the command line: its exit code, what it says and what it writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from hpgen.cli import main

from .judge import Finding, Verdict

ARGUMENTS = ["ops", "specs", "-o", "out"]


def in_process(folder: Path, verdict: Verdict) -> None:
    """Run `hpgen ops` on folder/specs in this process and compare with what the library functions said.

    Raises:
        Finding: For another exit code than 0 or 1, or one that does not fit; for files outside of folder/out.
    """
    specs, out = folder / "specs", folder / "out"
    before = listing(folder)
    done = CliRunner().invoke(main, ["ops", str(specs), "-o", str(out)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise Finding(f"the command raises {type(done.exception).__name__}", repr(done.exception))
    compare(folder, verdict, done.exit_code, done.output, before)


def in_its_own(folder: Path, verdict: Verdict) -> None:
    """The same as a user does it."""
    before = listing(folder)
    command = [sys.executable, "-m", "hpgen", *ARGUMENTS]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=60, check=False)
    compare(folder, verdict, done.returncode, (done.stdout + done.stderr).decode(errors="replace"), before)


def compare(folder: Path, verdict: Verdict, code: int, said: str, before: set[str]) -> None:
    expected = 0 if verdict.files is not None else 1
    if code != expected or "Traceback" in said:
        raise Finding(f"exit code {code} where {expected} is due", said)
    outside = {name for name in listing(folder) - before if not name.startswith("out/")}
    written = {name.removeprefix("out/") for name in listing(folder) if name.startswith("out/")}
    wanted = {path.as_posix() for path in verdict.files or ()}
    if outside or written != wanted:
        raise Finding("other files are written than were rendered", f"{sorted(outside)} {sorted(written ^ wanted)}")
    for name in sorted(written):
        (folder / "out" / name).unlink()


def listing(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
