# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The C++ compiler: which one, and a build run by it with its progress, its log and its end."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import IO

from hpgen.progress import Progress
from hyper_parallel.native.errors import REFERENCE_INSTEAD, EnvironmentFault, KernelBuildError

MOST_SECONDS = 1800.0
POLL_SECONDS = 0.1
SHOWN_LINES = 3
MOST_SHOWN = 1000  # characters
FOUND_FALSE = "evaluates to false"
ERRORS = (re.compile(r"\berror:"), re.compile(r"undefined reference|cannot find -l|[Kk]illed|No space left"))
"""What an error looks like; those of the compiler before those of the linker and the system."""


def words_of(variable: str) -> list[str]:
    """An environment variable as a shell would split it. EnvironmentFault if its quotes do not match."""
    try:
        return shlex.split(os.environ.get(variable, ""))
    except ValueError as error:
        raise EnvironmentFault(f"{variable} should be words, as in a shell: {error}") from None


def compiler() -> tuple[str, ...] | None:
    """The C++ compiler and its first arguments: `$CXX`, such as "ccache g++", else g++; None if there is none."""
    program, *arguments = words_of("CXX") or ["g++"]
    path = shutil.which(program)
    return (path, *arguments) if path else None


@functools.cache
def compiler_identity(command: tuple[str, ...]) -> str:
    """A short hash by which a compiler and its version are told from others."""
    try:
        version = subprocess.run([*command, "--version"], capture_output=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError) as error:
        reason = str(error).rstrip(".")
        raise EnvironmentFault(f"the C++ compiler {command[0]} does not run ({reason}); {REFERENCE_INSTEAD}") from None
    names = [os.path.realpath(command[0]), *command[1:]]
    return hashlib.sha256(version + os.fsencode("\0".join(names))).hexdigest()[:12]


def search_path() -> str:
    """Where programs are looked for: also beside Python, where pip puts ninja whether or not that is on the PATH."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), os.path.dirname(sys.executable)])


def needed_compiler() -> tuple[str, ...]:
    """The compiler. EnvironmentFault if there is none."""
    found = compiler()
    if found is None:
        wanted = os.environ.get("CXX", "").strip()
        named = f"{wanted} ($CXX)" if wanted else "g++"
        raise EnvironmentFault(
            f"the kernels have to be compiled, and there is no C++ compiler {named}: install one (apt install g++), "
            f"build on another machine and copy the cache folder, or {REFERENCE_INSTEAD}"
        )
    return found


def run_build(command: Sequence[str], what: str, expected: str, log: Path) -> None:
    """Run a compiler to its end, and say how long it has been at it; `expected` is about how long that takes.

    Raises:
        KernelBuildError: If it fails, with its first error and where its log is, or takes longer than half an hour.
    """
    started = time.monotonic()
    try:
        with log.open("wb") as output:
            process = _started(command, output)
            try:
                _wait(process, what, expected, started + MOST_SECONDS)
            finally:
                _end(process)
    except OSError as error:
        raise EnvironmentFault(f"{error.filename or log}: {error.strerror}; {REFERENCE_INSTEAD}") from None
    if process.returncode:
        raise KernelBuildError(first_error(log.read_text(encoding="utf-8", errors="replace")))


def _started(command: Sequence[str], output: IO[bytes]) -> subprocess.Popen[bytes]:
    # A session of its own, so that what the compiler starts ends with it.
    return subprocess.Popen(
        command,
        stdout=output,
        stderr=output,
        stdin=subprocess.DEVNULL,
        cwd=Path(output.name).parent,
        start_new_session=True,
        env={**os.environ, "LC_ALL": "C", "PATH": search_path()},  # errors in plain ASCII
    )


def _wait(process: subprocess.Popen[bytes], what: str, expected: str, deadline: float) -> None:
    progress = Progress()
    if not progress.is_shown and sys.stderr is not None:
        print(f"hyper_parallel: {what}; this takes about {expected}, once", file=sys.stderr, flush=True)
    started = time.monotonic()
    try:
        while process.poll() is None:
            now = time.monotonic()
            if now > deadline:
                raise KernelBuildError(f"the compiler has not ended within {MOST_SECONDS / 60:.0f} minutes")
            if progress.is_shown and now >= progress.next:
                progress.draw(f"{what}: {now - started:.0f} s")
                progress.next = now + 1
            time.sleep(POLL_SECONDS)
    finally:
        if progress.is_shown:
            progress.draw("")


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def first_error(log: str) -> str:
    """The first error in a compiler's output, with the lines that show the place, and what an assertion has found; else
    its end."""
    lines = log.strip().splitlines()
    found = next((place for error in ERRORS for place, line in enumerate(lines) if error.search(line)), None)
    shown = lines[found : found + SHOWN_LINES] if found is not None else lines[-SHOWN_LINES:]
    if found is not None and "static assertion failed" in lines[found]:
        further = takewhile(lambda line: not ERRORS[0].search(line), lines[found + SHOWN_LINES :])
        shown += [line for line in further if line.endswith(FOUND_FALSE)][:1]
    return "\n".join(shown)[:MOST_SHOWN] or "the compiler said nothing"
