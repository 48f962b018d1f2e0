# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What runs on each rank that is a process: it loads the operator, and then makes the calls that it is sent.

Started by `Ranks` with the number of the descriptor through which it is talked to. It ends with the process that has
started it, whatever it waits for.
"""

from __future__ import annotations

import faulthandler
import os
import shutil
import signal
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..spec.model import Spec
    from .subject import Subject

READY, SEEN, WHOLE, REFUSED, KERNEL, ERROR = "ready", "seen", "whole", "refused", "kernel", "error"
SCHEDULER = "MS_SCHED"


@dataclass(frozen=True)
class Recipe:
    """How a rank loads the operator.

    Attributes:
        spec: Checked.
        folder: Its folder.
        rule: `module:Class` of a rule by hand; empty for the generated one.
        reference: `module:function`; empty for the spec's.
        files: The generated code, by path.
        patience: Seconds that a rank waits for the others.
    """

    spec: Spec
    folder: Path
    rule: str
    reference: str
    files: dict[str, str]
    patience: float

    def load(self) -> Subject:
        from .subject import load_subject

        return load_subject(self.spec, self.folder, self.rule, self.reference, lambda path, _: self.files[str(path)])


@dataclass(frozen=True)
class Answer:
    """What a rank says.

    Attributes:
        kind: `ready`; `seen` with what the rank holds after a call; `whole` with the outputs and gradients that the
            ranks have brought together; `refused` by the rule or the checks of a call; `kernel` where the reference
            has refused it; `error` for whatever else was raised.
        value: What the rank holds.
        text: What was raised.
    """

    kind: str
    value: Any = None
    text: str = ""

    @property
    def failed(self) -> bool:
        return self.kind in (REFUSED, KERNEL, ERROR)


def main(descriptor: int) -> None:
    """Answer requests until the starter is gone."""
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the starter decides
    end_with_starter(descriptor)
    if os.environ.get("MS_ROLE") == SCHEDULER:
        from mindspore import communication

        communication.init("mccl")  # serves the ranks
        signal.pause()
    channel = Connection(descriptor)
    recipe: Recipe = channel.recv()
    try:
        calls = connected(recipe)
    except BaseException as error:
        channel.send(Answer(ERROR, text=f"{type(error).__name__}: {error}"))
        raise
    channel.send(Answer(READY))
    while True:
        channel.send(calls.answer(*channel.recv()))


def end_with_starter(descriptor: int) -> None:
    """Let a process of its own wait for the end of standard input, which the starter holds open, and end this one.

    A thread would not do: where frameworks wait for other ranks, they may keep the interpreter to themselves.
    """
    watched = os.getpid()
    if os.fork():
        return
    os.close(descriptor)  # else nobody would see that this rank is gone
    os.read(0, 1)
    if os.getppid() == watched:
        os.kill(watched, signal.SIGKILL)
    with suppress(OSError):
        shutil.rmtree(Path.cwd())  # made for the ranks alone; each tries to remove it
    os._exit(0)


def connected(recipe: Recipe) -> Any:
    """Find the other ranks, and load the operator."""
    from hyper_parallel import get_platform

    from .process_calls import ProcessCalls

    platform = get_platform()
    connect(platform.name, recipe.patience)
    return ProcessCalls(recipe.load(), platform.name)


def connect(platform: str, patience: float) -> None:
    if platform == "torch":
        from datetime import timedelta

        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        store = f"file://{Path('store').resolve()}"  # no port that somebody else could take
        dist.init_process_group(
            "gloo", init_method=store, rank=rank, world_size=size, timeout=timedelta(seconds=patience)
        )
    else:
        import mindspore as ms
        from mindspore import communication

        ms.set_device("CPU")
        communication.init("mccl")
