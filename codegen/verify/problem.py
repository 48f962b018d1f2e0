# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Whole tensors for a problem, and what the unsharded operator makes of them: the oracle.

Values are small enough that no softmax saturates, and no two slices are equal, so that a mistake cannot hide.
"""

from __future__ import annotations

import inspect
import itertools
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..spec.model import FLOATING, LengthsArgument, Output, Precomputed, Spec, TensorArgument
from .cases import Problem
from .positions import drawn_positions
from .returned import by_name
from .subject import KernelError, Subject, SubjectError, as_kernel
from .tensor_dims import shape_of

SCALE = 0.3
CLOSER = 64
"""By so much a second step is shorter, where the first one may have crossed the kink of a ReLU."""
SLACK = 2e-5
"""How far a derivative may lie from its finite difference in float64, relative to the largest."""


class GradientError(AssertionError):
    """The backward gives other gradients than finite differences of the forward."""


@dataclass(frozen=True)
class Whole:
    """One call on whole tensors in natural order.

    Attributes:
        tensors: Tensor argument -> array, for those that are given.
        others: Every other argument -> value; document ends are those of all groups together.
        outputs: Output -> array.
        cotangents: Output -> the gradient that comes in.
        gradients: Differentiable tensor -> its gradient.
    """

    tensors: Mapping[str, Any]
    others: Mapping[str, Any]
    outputs: Mapping[str, Any]
    cotangents: Mapping[str, Any]
    gradients: Mapping[str, Any]

    @cached_property
    def reduction(self) -> int:
        """More terms than any sum of the operator has: the elements of its largest tensor."""
        return max((tensor.size for tensor in self.tensors.values()), default=1)


class Oracle:
    """Unsharded calls of one operator; the last ones are kept."""

    MOST_KEPT = 64

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._known: dict[str, Whole] = {}
        self._compared: set[tuple[Any, ...]] = set()

    def whole(self, problem: Problem) -> Whole:
        """The call of a problem.

        Raises:
            GradientError: The gradients are wrong already on one device.
            KernelError: The reference refuses the call.
        """
        found = self._known.get(problem.key)
        if found is None:
            found = self._known[problem.key] = self._computed(problem)
            while len(self._known) > self.MOST_KEPT:
                del self._known[next(iter(self._known))]
        return found

    def _computed(self, problem: Problem) -> Whole:
        subject = self.subject
        tensors, others = self.arguments(problem)
        outputs = self.outputs(problem, {**tensors, **others})
        returned = [item.name for item in self.returned(others)]
        cotangents = {
            name: np.where(  # a row that sees nothing has no gradient
                np.isfinite(outputs[name]),
                drawn(problem, f"cotangent of {name}", outputs[name].shape, outputs[name].dtype),
                outputs[name].dtype.type(0),
            )
            for name in subject.with_cotangents
            if name in returned and outputs[name].dtype.kind == "f"
        }
        gradients = {}
        wanted = [name for name in subject.differentiable if name in tensors]
        if cotangents and wanted:
            run = lambda values: subject.function.apply(*self.in_order({**tensors, **others, **values}))  # noqa: E731
            found = local_gradients(run, returned, tensors, wanted, cotangents)
            gradients = dict(zip(wanted, found, strict=True))
            kind = (problem.form, problem.given, tuple(sorted(problem.attributes.items(), key=str)))
            if kind not in self._compared:
                self._compare_with_differences(problem, tensors, others, cotangents, gradients)
                self._compared.add(kind)
        return Whole(tensors, others, outputs, cotangents, gradients)

    def in_order(self, values: Mapping[str, Any]) -> list[Any]:
        """All arguments by position; the absent ones are None."""
        return [values.get(item.name) for item in self.subject.spec.arguments]

    def outputs(self, problem: Problem, values: Mapping[str, Any]) -> dict[str, Any]:
        """What the reference makes of arguments by name: every output, hidden ones too."""
        spec = self.subject.spec
        made = as_kernel(self.subject.reference)(*self.in_order(values))
        counts = {dim: counted(problem, item.of) for dim, item in spec.counts.items()}
        plain = {name: values.get(name) for name, item in spec.by_name.items() if not isinstance(item, TensorArgument)}
        return by_name(spec, problem.form, made, {**plain, **problem.extents, **counts})

    def returned(self, others: Mapping[str, Any]) -> list[Output]:
        """The outputs that the public function returns."""
        outputs = self.subject.spec.outputs
        return [item for item in outputs if not item.hidden and (not item.when or others.get(item.when))]

    def arguments(self, problem: Problem) -> tuple[dict[str, Any], dict[str, Any]]:
        """The tensors and the other arguments of a problem."""
        others = plain_arguments(self.subject.spec, problem)
        tensors = {
            item.name: self._drawn_tensor(problem, item, shape, others)
            for item, shape in shapes(self.subject.spec, problem, others)
        }
        tensors |= self._sampled(problem, tensors, others)
        for tensor in tensors.values():
            tensor.setflags(write=False)  # a reference that writes into its inputs says so itself
        return tensors, others

    def outline(self, problem: Problem) -> Whole:
        """The call without its values: tensors of zeros that take no memory, for whoever asks for shapes only."""
        others = plain_arguments(self.subject.spec, problem)
        tensors = {
            item.name: np.broadcast_to(np.zeros((), self._drawn_dtype(item)), shape)
            for item, shape in shapes(self.subject.spec, problem, others)
        }
        return Whole(tensors, others, {}, {}, {})

    def _sampled(self, problem: Problem, tensors: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
        """The tensors that are not free, made from the others."""
        sample = self.subject.sample
        if sample is None:
            return {}
        values = {**dict.fromkeys(item.name for item in self.subject.spec.tensors), **tensors, **others}
        values["rng"] = np.random.default_rng(problem.seed)
        names = inspect.signature(sample).parameters
        unknown = [name for name in names if name not in values]
        if unknown:
            raise SubjectError(
                f"the sample {self.subject.spec.sample} should take arguments of {self.subject.spec.op} by name, and "
                f"rng, but takes {', '.join(unknown)}"
            )
        try:
            made = sample(**{name: values[name] for name in names})
        except Exception as error:
            raise KernelError(f"the sample {self.subject.spec.sample}: {type(error).__name__}: {error}") from error
        check_sample(self.subject.spec, made, values)
        return {name: value for name, value in made.items() if name in tensors}

    def _drawn_tensor(
        self, problem: Problem, item: TensorArgument, shape: tuple[int, ...], others: Mapping[str, Any]
    ) -> Any:
        dtype = self._dtype(item)
        if dtype not in FLOATING:
            spec, rng = self.subject.spec, generator(problem, item.name)
            if item.positions:
                return drawn_positions(spec, problem, item, shape, others, rng).astype(dtype)
            ratio = spec.context_parallel.ratio if spec.context_parallel else None
            if ratio is not None and ratio.residual == item.name:
                # Packed documents have one each; at fixed length all rows have the same.
                one = () if not problem.documents else shape
                rests = rng.integers(0, others[ratio.by], one)
                return np.broadcast_to(rests, shape).astype(dtype)
            return rng.integers(0, 4, shape).astype(dtype)
        return drawn(problem, item.name, shape, np.float64)

    def _drawn_dtype(self, item: TensorArgument) -> str:
        """Floating-point tensors are drawn in float64, in which mistakes are far above roundings."""
        dtype = self._dtype(item)
        return "float64" if dtype in FLOATING else dtype

    def _dtype(self, item: TensorArgument) -> str:
        """The first dtype that the spec lists, through the tensors that share it."""
        word = item.dtypes[0]
        other = self.subject.spec.by_name.get(word)
        return self._dtype(other) if isinstance(other, TensorArgument) else word

    def _compare_with_differences(
        self,
        problem: Problem,
        tensors: Mapping[str, Any],
        others: Mapping[str, Any],
        cotangents: Mapping[str, Any],
        gradients: Mapping[str, Any],
    ) -> None:
        """GradientError unless each gradient is the derivative of the forward.

        Inputs that are not free may follow the others or be held fixed: a softmax may be rebuilt from its statistics,
        or take them as constants.
        """

        def loss(values: Mapping[str, Any], follows: bool) -> float:
            moved = {**tensors, **values}
            dependent = self._sampled(problem, moved, others) if follows else {}
            outputs = self.outputs(problem, {**moved, **dependent, **others})
            return sum(float(np.sum(outputs[name] * value, where=value != 0)) for name, value in cotangents.items())

        eps = max(float(np.finfo(value.dtype).eps) for value in cotangents.values())
        step, slack = eps ** (1 / 3), max(SLACK, 100 * eps ** (2 / 3))
        for name, gradient in gradients.items():
            direction = drawn(problem, f"direction of {name}", tensors[name].shape, np.float64) / SCALE
            derivative = float(np.sum(gradient * direction))
            differences = []
            ways = (True, False) if self.subject.sample else (False,)
            for width, follows in itertools.product((step, step / CLOSER), ways):
                ahead, behind = (loss({name: tensors[name] + sign * width * direction}, follows) for sign in (1, -1))
                difference = (ahead - behind) / (2 * width)
                scale = max(abs(difference), float(np.linalg.norm(gradient)) * np.sqrt(direction.size) * 0.05, 1e-3)
                if abs(difference - derivative) <= slack * scale:
                    break
                if width == step:
                    differences.append(f"{difference:.6g}")
            else:
                held = " (or, with the sample's tensors held fixed, the second number)" if len(differences) > 1 else ""
                raise GradientError(
                    f"the backward is wrong on one device: along a random direction the derivative of a random "
                    f"combination of the outputs by {name} is {derivative:.6g}, but finite differences of the "
                    f"reference give {' and '.join(differences)}{held}{self._hint()}"
                )

    def _hint(self) -> str:
        backward = self.subject.spec.backward
        if isinstance(backward, Precomputed) and not backward.cotangent:
            return ". 'cotangent: ignored' drops whatever the loss is multiplied by: name the output instead"
        return ""


def generator(problem: Problem, name: str) -> np.random.Generator:
    return np.random.default_rng([problem.seed, zlib.crc32(name.encode())])


def drawn(problem: Problem, name: str, shape: tuple[int, ...], dtype: Any) -> Any:
    """Values of a tensor: normal, of different spread along every dim, so that slices differ in size, too."""
    rng = generator(problem, name)
    values = rng.normal(scale=SCALE, size=shape)
    for dim, extent in enumerate(shape):
        spread = rng.permutation(np.linspace(0.7, 1.3, extent))
        values *= spread.reshape([-1 if at == dim else 1 for at in range(len(shape))])
    return values.astype(dtype)


def check_sample(spec: Spec, made: Any, values: Mapping[str, Any]) -> None:
    """KernelError unless a sample is a dict of tensors with the shapes that were drawn."""
    if not isinstance(made, Mapping):
        raise KernelError(
            f"the sample {spec.sample} should return a dict of tensors, but returned {type(made).__name__}"
        )
    known = [item.name for item in spec.tensors]
    for name, value in made.items():
        if name not in known:
            raise KernelError(f"the sample {spec.sample} returns {name!r}, but the tensors are {', '.join(known)}")
        drawn_one = values[name]
        if drawn_one is not None and np.shape(value) != drawn_one.shape:
            raise KernelError(
                f"the sample {spec.sample} returns {name} with shape {np.shape(value)}, not {drawn_one.shape}"
            )


def plain_arguments(spec: Spec, problem: Problem) -> dict[str, Any]:
    """Every argument that is no tensor, with its value; document ends are those of all groups together."""
    others: dict[str, Any] = {item.name: problem.attributes.get(item.name, item.default) for item in spec.attributes}
    return others | {item.name: joined_ends(item, problem) for item in spec.lengths}


def shapes(spec: Spec, problem: Problem, others: Mapping[str, Any]) -> Iterator[tuple[TensorArgument, tuple[int, ...]]]:
    """The tensors that are given, with their shapes."""
    names = {**others, **problem.extents}
    names |= {dim: counted(problem, item.of) for dim, item in spec.counts.items()}
    for item in spec.tensors:
        if item.required or item.name in problem.given:
            yield item, shape_of(spec, item.name, problem.form, names)


def counted(problem: Problem, packed: str) -> int:
    """The number of documents in all groups."""
    return sum(map(len, problem.documents.get(packed, ())))


def joined_ends(item: LengthsArgument, problem: Problem) -> Any:
    """The document ends of all groups together as the kernel takes them, None if the problem has none of them."""
    groups = problem.documents.get(item.of)
    if groups is None:
        return None
    ends = ends_of(item, [tokens for group in groups for tokens in group])
    return np.array(ends, item.dtype) if item.where == "device" else tuple(ends)


def ends_of(item: LengthsArgument, documents: Sequence[int]) -> list[int]:
    """Cumulative ends in the argument's form."""
    ends: list[int] = np.cumsum(documents, dtype=int).tolist()
    return [0, *ends] if item.leading_zero else ends


def local_gradients(
    run: Any, names: Sequence[str], tensors: Mapping[str, Any], wanted: Sequence[str], cotangents: Mapping[str, Any]
) -> Sequence[Any]:
    """Gradients of the sum of outputs times cotangents, by the tape of the `autograd` package."""
    import autograd
    import autograd.numpy as anp

    def loss(*values: Any) -> Any:
        made = run(dict(zip(wanted, values, strict=True)))
        outputs = dict(zip(names, made if isinstance(made, tuple) else (made,), strict=True))
        return sum(anp.sum(outputs[name] * value) for name, value in cotangents.items())

    return autograd.grad(loss, argnum=tuple(range(len(wanted))))(*(tensors[name] for name in wanted))  # type: ignore[no-any-return]
