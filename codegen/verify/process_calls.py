# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The calls of one rank that is a process, and what all ranks bring together then."""

from __future__ import annotations

from typing import Any

from hyper_parallel import DeviceMesh, DTensor
from hyper_parallel.context_parallel import sequence_order
from hyper_parallel.core.shard.gradients import reduce_gradient

from .cases import Case, Placed
from .execute import REFUSALS, Claim, RankCalls, order_of
from .frameworks import framework_of
from .placing import layout_of
from .problem import Whole
from .rank_process import ERROR, KERNEL, REFUSED, SEEN, WHOLE, Answer
from .subject import KernelError, Subject


class ProcessCalls(RankCalls):
    """One rank's answers."""

    def __init__(self, subject: Subject, platform: str) -> None:
        super().__init__(subject, framework_of(platform))
        self._meshes: dict[tuple[tuple[str, int], ...], DeviceMesh] = {}
        self._last: tuple[DeviceMesh, Claim, dict[str, DTensor], dict[str, Any]] | None = None

    def mesh(self, case: Case) -> DeviceMesh:
        """Made once: process groups are no small thing."""
        axes = tuple(case.mesh.items())
        if axes not in self._meshes:
            self._meshes[axes] = super().mesh(case)
        return self._meshes[axes]

    def answer(self, kind: str, *request: Any) -> Answer:
        """Do what is asked. Whatever is raised is an answer, too."""
        try:
            return Answer(SEEN, self._run(*request)) if kind == SEEN else Answer(WHOLE, self._brought_together())
        except BaseException as error:
            self.framework.recover()
            return failure(error)

    def _run(self, case: Case, whole: Whole, claim: Claim) -> Any:
        """The call on this rank's part. Nothing but the mesh is made in common."""
        self._last = None
        with sequence_order(order_of(case)):
            seen, outputs, gradients = self.made(case, whole, claim)
        self._last = self.mesh(case), claim, outputs, gradients
        return seen

    def _brought_together(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The whole outputs and gradients of the last call, through the collectives of the framework."""
        assert self._last is not None
        mesh, claim, outputs, gradients = self._last
        array = self.framework.array
        whole = {name: array(output.full_tensor()) for name, output in outputs.items()}
        found = {}
        for name, gradient in gradients.items():
            placed = claim.gradients[name]
            reduced = reduce_gradient(gradient, layout_of(placed, mesh))
            shards = DTensor.from_layout(reduced, layout_of(Placed(placed.dims), mesh))
            found[name] = array(shards.full_tensor())
        return whole, found


def failure(error: BaseException) -> Answer:
    """What was raised, in words; frameworks may wrap what a kernel has raised."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, KernelError):
            return Answer(KERNEL, text=str(cause))
        cause = cause.__cause__
    if isinstance(error, REFUSALS):
        return Answer(REFUSED, type(error).__name__, str(error))
    return Answer(ERROR, text=f"{type(error).__name__}: {error}")
