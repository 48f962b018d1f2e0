# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""One operator to verify, or one case of it to run again: what a process of its own is told, and what it answers."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..spec.model import Spec

NUMPY = "numpy"
CODE = Path(__file__).parents[1]
WHOLE_MACHINE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Libraries that would start threads for matrices of a few elements."""


@dataclass(frozen=True)
class Task:
    """What to do.

    Attributes:
        spec: Checked.
        folder: Its folder.
        thorough: Whether much more is tried.
        seed: Of all that is drawn.
        rule: `module:Class` of a rule by hand; empty for the generated one.
        reference: `module:function`; empty for the spec's.
        case: The one case to run again, as text; empty for all.
        platform: What the ranks run on: numpy for threads of one process, torch or mindspore for processes.
        nproc: How many processes; a case has as many as its mesh.
        forms: The formats that are looked at; empty for all.
    """

    spec: Spec
    folder: Path
    thorough: bool = False
    seed: int = 0
    rule: str = ""
    reference: str = ""
    case: str = ""
    platform: str = NUMPY
    nproc: int = 0
    forms: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The spec's path as it was given."""
        return self.spec.source.path

    @property
    def words(self) -> list[str]:
        """The task as arguments of the command, without a case."""
        platform = "" if self.platform == NUMPY else self.platform
        given = [("--rule", self.rule), ("--reference", self.reference), ("--platform", platform)]
        return [self.shown, *(word for name, value in given if value for word in (name, value))]


@dataclass(frozen=True)
class Outcome:
    """What became of a task.

    Attributes:
        kind: `done`; `failed` where the operator cannot be verified; `environment` where the machine is to blame;
            `usage` where the case is none of the operator.
        value: Of `done` the answer, else a text.
    """

    kind: str
    value: Any


def on_numpy() -> None:
    """Choose the platform of virtual ranks, whatever the user works with; before NumPy and the runtime are imported."""
    os.environ["HYPER_PARALLEL_PLATFORM"] = "numpy"
    os.environ["HYPER_PARALLEL_KERNELS"] = "reference"
    for name in WHOLE_MACHINE:
        os.environ[name] = "1"


def budget_of(task: Task) -> Any:
    from .verifier import DEFAULT, THOROUGH

    return THOROUGH if task.thorough else DEFAULT


def perform(task: Task, tick: Callable[[], None]) -> Outcome:
    """Do it in this process. Whatever is raised is told in a sentence or two."""
    from .cases import Case
    from .extents import Unsatisfiable
    from .ranks import PlatformError
    from .replay import CaseError, OpenCase
    from .subject import KernelError, SubjectError, load_subject

    try:
        subject = load_subject(task.spec, task.folder, task.rule, task.reference)
        with verifier(task, subject) as found:
            if task.case:
                return Outcome("done", OpenCase(subject, Case.from_text(task.case), found).told())
            return Outcome("done", found.report(task.shown, tick).as_json())
    except PlatformError as error:
        return Outcome("environment", str(error))
    except CaseError as error:
        return Outcome("usage", str(error))
    except SubjectError as error:
        return Outcome("failed", str(error))
    except Unsatisfiable as error:
        advice = "Verification tries small extents only; look at what the spec requires, and whether it can hold."
        return Outcome("failed", f"there is no call to try: {error}. {advice}")
    except KernelError as error:
        return Outcome("failed", f"the reference refuses the call on one device: {error}")
    except SystemExit as error:
        return Outcome("failed", f"the rule or the reference ended the process with exit code {error.code}.")
    except Exception as error:
        return Outcome("failed", f"verification came to an end{place(error)}: {type(error).__name__}: {error}")


@contextmanager
def verifier(task: Task, subject: Any) -> Iterator[Any]:
    """The verifier of a task; ranks that are processes end with the block."""
    from .verifier import Verifier

    if task.platform == NUMPY:
        yield Verifier(subject, budget_of(task), task.seed, forms=task.forms)
        return
    from .platforms import ProcessVerifier, started

    with started(subject, task.folder, task.platform, task.nproc, rule=task.rule, reference=task.reference) as ranks:
        yield ProcessVerifier(subject, ranks, budget_of(task), task.seed)


def place(error: Exception) -> str:
    """Where it was raised: in the innermost file that is not the verifier's own."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not Path(frame.filename).is_relative_to(CODE) and not frame.filename.startswith(sys.prefix)
    ]
    return f" in {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
