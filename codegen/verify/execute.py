# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A case through the rule and the dispatcher: first whether the rule takes it, then on every rank."""

from __future__ import annotations

import dis
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from hyper_parallel import DeviceMesh, DTensor, get_platform, init_device_mesh
from hyper_parallel.context_parallel import SequenceOrder, sequence_order
from hyper_parallel.core.shard._op_dispatch import _OP_DISPATCHER
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks

from .cases import Case, Placed
from .frameworks import NUMPY, Framework
from .placing import held, layout_of, part, placed_of
from .problem import Whole
from .sequence import keywords_on, own_values
from .subject import Subject, place

REFUSALS = (ValueError, TypeError)
"""How a rule says that it does not take a call."""


@dataclass(frozen=True)
class Claim:
    """What a rule says of a case.

    Attributes:
        refusal: Why the rule does not take it; empty if it does.
        failure: How the rule itself has failed; empty if it has not.
        outputs: Output -> how it will lie.
        gradients: Tensor argument -> how its gradient will lie; empty if the rule does not tell.
    """

    refusal: str
    outputs: Mapping[str, Placed]
    gradients: Mapping[str, Placed]
    failure: str = ""


@dataclass(frozen=True)
class Seen:
    """What one rank holds after a call. `shapes` are the global ones of the outputs, as the rank believes."""

    outputs: Mapping[str, Any]
    placed: Mapping[str, Placed]
    shapes: Mapping[str, tuple[int, ...]]
    gradients: Mapping[str, Any]


class RankCalls:
    """The calls of one operator in this process, whatever its platform: it says which kernels the platform loads."""

    def __init__(self, subject: Subject, framework: Framework) -> None:
        def load_kernel(name: str) -> Any:
            return framework.kernel(subject.kernel(name))

        get_platform().load_kernel = load_kernel  # type: ignore[method-assign, assignment]
        self.subject = subject
        self.framework = framework
        self.op = subject.rule(subject.spec.op)

    def on_rank(self, case: Case, whole: Whole, claim: Claim) -> Seen:
        """The rank's own part of a case."""
        return self.made(case, whole, claim)[0]

    def mesh(self, case: Case) -> DeviceMesh:
        """The mesh of a case, made by all ranks together."""
        return init_device_mesh("cpu", tuple(case.mesh.values()), mesh_dim_names=tuple(case.mesh))

    def made(self, case: Case, whole: Whole, claim: Claim) -> tuple[Seen, dict[str, DTensor], dict[str, Any]]:
        """What the rank holds after the call, and the framework's outputs and gradients themselves."""
        spec, rank, framework = self.subject.spec, get_platform().rank, self.framework
        mesh = self.mesh(case)
        own = own_values(spec, case.problem.form)
        local = {
            name: framework.tensor(held(case, name, tensor, case.placed[name], rank))
            for name, tensor in whole.tensors.items()
            if name not in own
        }
        layouts = {name: layout_of(case.placed[name], mesh) for name in local}
        others = {
            name: framework.tensor(value) if isinstance(value, np.ndarray) else value
            for name, value in keywords_on(spec, case, whole, rank).items()
        }
        cotangents = {
            name: framework.tensor(part(case, value, claim.outputs[name].dims, rank))
            for name, value in whole.cotangents.items()
        }
        wanted = [name for name in whole.gradients if name in local] if claim.gradients else []
        seen: dict[str, Any] = {}

        def loss(*values: Any) -> Any:
            held_now = {**local, **dict(zip(wanted, values, strict=True))}
            given = {name: DTensor.from_layout(value, layouts[name]) for name, value in held_now.items()}
            made = self.call({**others, **given}, omits_defaults=case.problem.seed % 2 == 0)
            outputs = dict(zip(claim.outputs, made if isinstance(made, tuple) else (made,), strict=True))
            seen.update(outputs)
            return sum(framework.total(outputs[name].to_local(), value) for name, value in cotangents.items())

        if wanted:
            gradients = dict(zip(wanted, framework.gradients(loss, [local[name] for name in wanted]), strict=True))
        else:
            loss()
            gradients = {}
        found = Seen(
            {name: framework.array(output.to_local()) for name, output in seen.items()},
            {name: placed_of(output.layout) for name, output in seen.items()},
            {name: tuple(output.shape) for name, output in seen.items()},
            {name: framework.array(gradient) for name, gradient in gradients.items()},
        )
        return found, seen, gradients

    def call(self, given: Mapping[str, Any], omits_defaults: bool = False) -> Any:
        """The operator with required arguments by position and the others by keyword, as people write it."""
        arguments = self.subject.spec.arguments
        args = tuple(given[item.name] for item in arguments if item.required)
        optional = [item.name for item in arguments if not item.required]
        kwargs = {name: given[name] for name in optional if given.get(name) is not None}
        if omits_defaults:
            defaults = {item.name: item.default for item in self.subject.spec.attributes}
            kwargs = {name: value for name, value in kwargs.items() if name not in defaults or value != defaults[name]}
        if self.subject.function is not None:
            return self.subject.function.apply(*args, **kwargs)
        return _OP_DISPATCHER.dispatch(self._plain(), args, kwargs)

    def _plain(self) -> Any:
        """The reference under the operator's name, for a rule without a generated function."""
        reference = self.framework.kernel(self.subject.reference)

        def run(*args: Any, **kwargs: Any) -> Any:
            return reference(*args, **kwargs)

        run.__name__ = self.subject.spec.op
        return run


class Executor(RankCalls):
    """Runs the cases of one operator on virtual ranks, one at a time."""

    def __init__(self, subject: Subject) -> None:
        platform = get_platform()
        if platform.name != "numpy":
            raise RuntimeError(f"virtual ranks are those of the NumPy platform, but this process has {platform.name}")
        super().__init__(subject, NUMPY)

    def claim(self, case: Case, whole: Whole, names: tuple[str, ...]) -> Claim:
        """Ask the rule about a case, without running anything. `names` are the outputs that the call returns."""
        mesh = described_mesh(tuple(case.mesh.items()))
        given: dict[str, Any] = keywords_on(self.subject.spec, case, whole, 0)
        own = own_values(self.subject.spec, case.problem.form)
        try:
            for name, tensor in whole.tensors.items():
                if name not in own:
                    layout = described_layout(case.placed[name], mesh)
                    shape = layout.get_local_shape(tensor.shape)
                    given[name] = DTensor.from_layout(np.broadcast_to(tensor.dtype.type(0), shape), layout)
            args = tuple(given.get(item.name) for item in self.subject.spec.arguments)
            with sequence_order(order_of(case)):
                cache_values = self.op.preprocess(args, {})[2]
                layouts = self.op.infer_layout(cache_values)[0]
        except Exception as error:
            if isinstance(error, REFUSALS) and is_raised_on_purpose(error):
                return Claim(str(error), {}, {})
            return Claim("", {}, {}, f"the rule fails with {type(error).__name__}: {error}{place(error)}")
        if len(layouts) != len(names):
            return Claim("", {}, {}, f"infer_layout gives {len(layouts)} layouts for {len(names)} outputs")
        outputs = dict(zip(names, map(placed_of, layouts), strict=True))
        return self._with_gradients(outputs, args)

    def _with_gradients(self, outputs: dict[str, Placed], args: tuple[Any, ...]) -> Claim:
        """The claim with how gradients lie; a rule by hand may leave that open."""
        try:
            layouts = self.op.grad_layouts(*args)
        except NotImplementedError:
            return Claim("", outputs, {})
        except Exception as error:
            return Claim("", {}, {}, f"grad_layouts fails with {type(error).__name__}: {error}{place(error)}")
        given = dict(zip((item.name for item in self.subject.spec.arguments), args, strict=True))
        placed = [name for name in self.subject.differentiable if isinstance(given[name], DTensor)]
        missing = [name for name in placed if name not in layouts]
        if missing:
            return Claim("", {}, {}, f"grad_layouts says nothing of {', '.join(missing)}")
        return Claim("", outputs, {name: placed_of(layout) for name, layout in layouts.items()})

    def run(self, case: Case, whole: Whole, claim: Claim) -> list[Seen]:
        """Run a case on its ranks; `whole` is in the order in which it was dealt.

        Raises:
            KernelError: The operator is given something on a rank that the reference refuses.
            ValueError, TypeError: The checks of the call refuse it.
        """
        with sequence_order(order_of(case)):
            found = run_ranks(self._seen_or_refusal, case.ranks, case, whole, claim)
        refusals = [one for one in found if isinstance(one, Exception)]
        if refusals and len(refusals) < case.ranks:
            alone = next(rank for rank, one in enumerate(found) if isinstance(one, Exception))
            raise RuntimeError(f"rank {alone} refuses alone, so that the others would wait for it: {refusals[0]}")
        if refusals:
            raise refusals[0]
        return [one for one in found if isinstance(one, Seen)]

    def _seen_or_refusal(self, case: Case, whole: Whole, claim: Claim) -> Seen | Exception:
        try:
            return self.on_rank(case, whole, claim)
        except REFUSALS as error:
            return error


def is_raised_on_purpose(error: Exception) -> bool:
    """Whether a `raise` stands where an error comes from; else Python or a library has found a mistake there."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and dis.opname[trace.tb_frame.f_code.co_code[trace.tb_lasti]] == "RAISE_VARARGS"


@lru_cache(maxsize=64)
def described_mesh(axes: tuple[tuple[str, int], ...]) -> DeviceMesh:
    """A mesh for layouts, without communication."""
    names, sizes = zip(*axes, strict=True)
    return init_device_mesh("cpu", sizes, mesh_dim_names=names, init_backend=False)


described_layout = lru_cache(maxsize=8192)(layout_of)
"""Layouts on meshes that are only described: each is made once."""


def order_of(case: Case) -> SequenceOrder:
    return SequenceOrder(case.order.name, case.order.keys, case.order.per_document)
