# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the command line on one folder after another, each in a child with little time and memory.

`python process.py FOLDER...` prints one line of JSON for each folder. A child is forked from a process that has
imported everything, so a case costs milliseconds.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import traceback
from pathlib import Path

import hpgen.library
import hpgen.output
import hpgen.plan
import hpgen.render
import hpgen.spec.schema
from hpgen.cli import main

SECONDS = 2  # of computing; the kernel ends a child that takes more
UNCAUGHT = 99
PATIENCE = 30  # seconds that a child may wait for something that never comes
ADDRESS_SPACE = 2**30  # far above the resident memory that is allowed, to end what would eat the machine


def run(folder: Path) -> dict[str, object]:
    """Generate folder/specs, or what folder/arguments lists, into folder/out."""
    child = os.fork()
    if child == 0:
        generate(folder)
    _, status, usage = os.wait4(child, 0)
    return {
        "folder": folder.name,
        "exit": os.waitstatus_to_exitcode(status),
        "output": folder.joinpath("output.txt").read_text(encoding="utf-8", errors="replace"),
        "seconds": usage.ru_utime + usage.ru_stime,
        "kilobytes": usage.ru_maxrss,
    }


def generate(folder: Path) -> None:
    """The child: what a user would see goes to folder/output.txt."""
    written = os.open(folder / "output.txt", os.O_CREAT | os.O_WRONLY)
    os.dup2(written, 1)
    os.dup2(written, 2)
    os.chdir(folder)
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    signal.alarm(PATIENCE)
    listed = folder / "arguments"
    arguments = listed.read_text().split() if listed.exists() else ["specs"]
    try:
        main(["ops", *arguments, "-o", "out"])
    except SystemExit as error:
        end(error.code)
    except BaseException:
        traceback.print_exc()
    end(UNCAUGHT)


def end(code: object) -> None:
    """End at once: the interpreter's own end would take longer than most cases."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    hpgen.render.environment()
    hpgen.spec.schema.validator()
    gc.freeze()
    for given in sys.argv[1:]:
        print(json.dumps(run(Path(given))), flush=True)
