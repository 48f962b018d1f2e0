# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What launchers say in environment variables."""

from __future__ import annotations

import os
from typing import NamedTuple

from hyper_parallel.platform.selection import PLATFORM_VARIABLE


class _Launcher(NamedTuple):
    name: str
    variable: str
    """Holds how many ranks it has started."""
    command: str


_LAUNCHERS = {
    "torch": _Launcher("torchrun", "WORLD_SIZE", "torchrun --nproc-per-node {ranks} script.py"),
    "mindspore": _Launcher(
        "msrun", "MS_WORKER_NUM", "msrun --worker_num={ranks} --local_worker_num={ranks} --join=True script.py"
    ),
}


def number_from_environment(name: str, default: int) -> int:
    """Return the number in a variable. ValueError if it holds something else; `default` if it is empty or missing."""
    word = os.environ.get(name, "")
    if not word:
        return default
    if not word.isdecimal():
        raise ValueError(f"the environment variable {name} should be a number, but is {word!r}")
    return int(word)


def unseen_ranks(platform: str) -> str:
    """Return what to say of ranks that another platform's launcher has started; empty if it has started one or none."""
    for other, launcher in _LAUNCHERS.items():
        word = os.environ.get(launcher.variable, "")
        if other != platform and word.isdecimal() and int(word) > 1:
            return (
                f"; {launcher.name} has started {int(word)} ranks, which {platform} does not see: set "
                f"{PLATFORM_VARIABLE}={other}"
            )
    return ""


def how_to_start(platform: str, ranks: int) -> str:
    """Return the command that starts so many ranks of a platform on one machine."""
    if platform not in _LAUNCHERS:
        return f"run_ranks(function, {ranks})"
    return _LAUNCHERS[platform].command.format(ranks=ranks)
