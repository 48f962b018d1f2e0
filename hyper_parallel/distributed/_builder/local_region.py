# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Functions on local tensors in a program on DTensors: unwrapped on the way in, wrapped on the way out."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, overload

from hyper_parallel.core.dtensor.dtensor import DTensor
from hyper_parallel.core.dtensor.layout import Layout
from hyper_parallel.core.dtensor.placement_map import check_mesh
from hyper_parallel.core.dtensor.placement_types import Placement
from hyper_parallel.core.dtensor.redistribute import redistribute_local
from hyper_parallel.distributed._builder.declared_placements import (
    Outputs,
    Placements,
    checked_inputs,
    checked_outputs,
)
from hyper_parallel.distributed._builder.parameters import Parameters, name_of
from hyper_parallel.platform import get_platform

if TYPE_CHECKING:
    from hyper_parallel.core.dtensor.device_mesh import DeviceMesh

P = ParamSpec("P")


@overload
def local_region(
    func: Callable[P, Any],
    *,
    device_mesh: DeviceMesh,
    in_placements: Mapping[str, Placements | None] | None = None,
    out_placements: Placements | Sequence[Placements | None] | None = None,
    redistribute_inputs: bool = False,
) -> Callable[P, Any]: ...


@overload
def local_region(
    func: None = None,
    *,
    device_mesh: DeviceMesh,
    in_placements: Mapping[str, Placements | None] | None = None,
    out_placements: Placements | Sequence[Placements | None] | None = None,
    redistribute_inputs: bool = False,
) -> Callable[[Callable[P, Any]], Callable[P, Any]]: ...


def local_region(
    func: Callable[..., Any] | None = None,
    *,
    device_mesh: DeviceMesh,
    in_placements: Mapping[str, Placements | None] | None = None,
    out_placements: Placements | Sequence[Placements | None] | None = None,
    redistribute_inputs: bool = False,
) -> Callable[..., Any]:
    """Wrap a function on local tensors so that it takes DTensors and returns DTensors. Forward only.

    Either ``local_region(func, device_mesh=mesh, ...)`` or, above a function, ``@local_region(device_mesh=mesh, ...)``.
    ``func`` is a function, a method (``self`` is a parameter like any other where a class defines it), a module, or
    anything else that is called and returns. It runs on this rank's parts, and says itself what it communicates.

    Gradients land on the local tensors that the DTensors hold, this rank's part of them; nothing is reduced (see
    ``reduce_gradient``). The gradient of a redistributed input takes the way back. On a mesh axis over which the input
    has been made whole, the ranks' gradients are added up if no output is replicated there, since each rank has the
    share of its own outputs; they are taken to be equal if all outputs are, or without ``out_placements``. Some
    outputs replicated and some not is a ValueError in the backward.

    ``dtensor_dispatch`` concerns operators: a region unwraps and wraps with the dispatcher on or off. Regions nest.
    What the function returns is taken as every rank's part of one shape, as by ``DTensor.from_local``.

    Args:
        func: what to wrap; not given in the decorator form.
        device_mesh: the mesh of the placements, made on this rank.
        in_placements: parameter -> its placements, one per mesh axis. A DTensor passed for that parameter, by position
            or by keyword, is unwrapped; for ``*rest`` each one. None: unwrapped however it lies, on whatever mesh.
            Nothing else is touched: parameters that are not listed, values that are no DTensors (lists of them, say),
            defaults that the call does not pass. A parameter passed by position and by keyword as well has the
            keyword's value. Where the signature of ``func`` cannot be read, only keywords are known by name.
        out_placements: for one output its placements, as in ``(Partial(), Replicate())``; for several, which only a
            tuple is (also a named one, also one of length 1), an entry per output: placements, or None for what is no
            tensor. Outputs that are DTensors already, or no tensors, stay as they are, whatever is in them: the tensors
            in a dict or a list stay plain ones, also if placements are declared for it.
        redistribute_inputs: whether a listed input with other placements is redistributed first, on every rank of the
            mesh. Without it such an input is a ValueError, since the function would read another part than it expects.

    Returns:
        The wrapped function, with the name, doc and signature of ``func``. It returns what ``func`` returns, without
        wrapping, if ``out_placements`` is None or no DTensor has been unwrapped.

    Raises:
        TypeError: here, for something that is not called or does not return (a generator, a coroutine function) and
            for arguments of other types; in a call, for a tensor output whose entry is None, and for a listed input
            that is a DTensor of torch.distributed.tensor.
        ValueError: here, for empty ``out_placements`` and for placements that do not fit the mesh; in a call, for a
            listed name that is no parameter, an input on another mesh or with other placements, a dimension that it
            does not have or that cannot be cut evenly, and outputs of another count or form than ``out_placements``.
            Inputs are checked, all of them, before anything is communicated or the function runs.
    """
    try:
        check_mesh(device_mesh)
    except TypeError as error:
        raise TypeError(f"local_region, device_mesh: {error}") from None
    inputs = checked_inputs(device_mesh, in_placements)
    outputs = checked_outputs(device_mesh, out_placements)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        return _wrapped(function, _Region(function, device_mesh, inputs, outputs, bool(redistribute_inputs)))

    return decorate if func is None else decorate(func)


def _wrapped(function: Callable[..., Any], region: _Region) -> Callable[..., Any]:
    # The attributes of an object that is called, such as a module, are its own affair.
    updated = functools.WRAPPER_UPDATES if inspect.isroutine(function) else ()

    @functools.wraps(function, updated=updated)
    def call(*args: Any, **kwargs: Any) -> Any:
        local_args = list(args)
        has_unwrapped = region.unwrap(local_args, kwargs)
        result = function(*local_args, **kwargs)
        return region.wrap(result) if has_unwrapped else result

    return call


class _Region:
    """What surrounds one function. Both ways are kept out of compilers; the function between them is not."""

    def __init__(
        self,
        function: Callable[..., Any],
        mesh: DeviceMesh,
        inputs: Mapping[str, tuple[Placement, ...] | None],
        outputs: Outputs | None,
        redistributes: bool,
    ) -> None:
        _check_returns(function)
        self._name = name_of(function)
        self._parameters = Parameters(function)
        self._mesh = mesh
        self._inputs = inputs
        self._outputs = outputs
        self._redistributes = redistributes

    @get_platform().uncompiled
    def unwrap(self, args: list[Any], kwargs: dict[str, Any]) -> bool:
        """Put local tensors in the place of listed DTensors; return whether there was one."""
        found = []
        for name, placements in self._inputs.items():
            for holder, place in self._parameters.places(name, args, kwargs):
                value = holder[place]
                if isinstance(value, DTensor):
                    found.append((name, holder, place, value, self._target(name, value, placements)))
                elif get_platform().is_foreign(type(value)):
                    raise TypeError(
                        f"For {self._name}, {name} should be a DTensor of hyper_parallel, but got one of "
                        "torch.distributed.tensor, whose gradient needs placements that a region does not have. Use "
                        "torch's local_map, or DTensor.from_local(x.to_local(grad_placements=...), mesh, placements)."
                    )
        # Only when all are known to be right: a rank that fails alone would leave the others in a collective.
        for name, holder, place, value, target in found:
            local = value.to_local()
            if target is not value.layout:
                gradient = functools.partial(self._gradient_layout, name, value.layout, target)
                local = redistribute_local(local, value.layout, target, gradient)
            holder[place] = local
        return bool(found)

    def _target(self, name: str, value: DTensor, placements: tuple[Placement, ...] | None) -> Layout:
        """The layout in which the function takes an input."""
        if placements is None:
            return value.layout
        self._mesh.check_current_rank()
        if value.device_mesh is not self._mesh:
            other = f"{value.device_mesh}"
            if other == f"{self._mesh}":
                other += ", made under another process group"
            raise ValueError(
                f"For {self._name}, {name} should be on the device_mesh {self._mesh}, but got one on {other}. Give the "
                f"region that mesh, or list {name} with None to take it as it lies."
            )
        try:
            target = Layout.from_placements(self._mesh, placements, value.ndim)
            if target is not value.layout and self._redistributes:
                target.get_local_shape(value.shape)
        except ValueError as error:
            raise ValueError(f"For {self._name}, in_placements of {name}: {error}") from None
        if target is not value.layout and not self._redistributes:
            raise ValueError(
                f"For {self._name}, {name} should have the placements {target.placements}, but got "
                f"{value.placements}. Redistribute it, give redistribute_inputs=True, or list it with None to take it "
                "as it lies."
            )
        return target

    def _gradient_layout(self, name: str, source: Layout, target: Layout) -> Layout:
        """How the gradient of a redistributed input lies; asked for in the backward only.

        On an axis where the outputs are replicated, every rank has the whole gradient. Where they are not, each rank
        has the share of its own outputs. Where some are and some are not, it has something of both.
        """
        partial: list[str | None] = [None] * self._mesh.ndim
        for axis, (before, after) in enumerate(zip(source.placements, target.placements, strict=True)):
            # Where the input was replicated all along, nothing is reduced, as without a redistribution.
            is_made_whole = after.is_replicate() and not before.is_replicate() and self._mesh.mesh_shape[axis] > 1
            if self._outputs is None or not is_made_whole:
                continue
            replicated = {entry[axis].is_replicate() for entry in self._outputs.entries if entry is not None}
            if len(replicated) > 1:
                raise ValueError(
                    f"For {self._name}, the gradient of {name} was asked for, which has been redistributed over the "
                    f"mesh axis {self._mesh.axis_names[axis]}. There some outputs are replicated and some are not, so "
                    "that the ranks' gradients are neither equal nor to be added up. Return outputs of one kind, in "
                    f"two regions if need be, or list {name} with None and gather it in the function, by a collective "
                    "whose backward does what you mean."
                )
            if False in replicated:
                partial[axis] = "sum"
        return Layout.from_tensor_map(self._mesh, target.tensor_map, partial)

    @get_platform().uncompiled
    def wrap(self, result: Any) -> Any:
        """What the function has returned, as DTensors where `out_placements` says so."""
        outputs = self._outputs
        if outputs is None:
            return result
        if not isinstance(result, tuple):
            self._check_count(1, outputs)
            return self._distributed("the output", result, outputs.entries[0])
        if outputs.is_flat:
            raise ValueError(
                f"For {self._name}, out_placements should have one entry per output, but got the placements of one, "
                f"{outputs.entries[0]}, and a tuple of {len(result)}. Write "
                f"({', '.join(['(...)'] * len(result))}{',' * (len(result) == 1)})."
            )
        self._check_count(len(result), outputs)
        pairs = enumerate(zip(result, outputs.entries, strict=True))
        return _like(result, [self._distributed(f"output {number}", *pair) for number, pair in pairs])

    def _check_count(self, count: int, outputs: Outputs) -> None:
        if count != len(outputs.entries):
            raise ValueError(
                f"For {self._name}, out_placements should have one entry per output, but got {len(outputs.entries)} "
                f"entries and {count} output{'s' * (count != 1)}. Only a tuple is several outputs."
            )

    def _distributed(self, which: str, value: Any, placements: tuple[Placement, ...] | None) -> Any:
        tensor = get_platform().as_tensor(value)
        if tensor is None:  # a DTensor, of whatever kind, is none of the framework's plain tensors
            return value
        if placements is None:
            raise TypeError(
                f"For {self._name}, {which} is a tensor, so its entry in out_placements should be its placements, but "
                "got None. None is for outputs that are no tensors."
            )
        try:
            return DTensor.from_local(tensor, self._mesh, placements)
        except ValueError as error:
            raise ValueError(f"For {self._name}, out_placements of {which}: {error}") from None


def _like(result: tuple[Any, ...], items: list[Any]) -> tuple[Any, ...]:
    """A tuple of the same kind: named tuples, those of torch too, stay what they are."""
    kind: Any = type(result)
    if kind is tuple:
        return tuple(items)
    made: tuple[Any, ...] = kind._make(items) if hasattr(kind, "_make") else kind(items)
    return made


def _check_returns(function: Any) -> None:
    if not callable(function):
        raise TypeError(
            f"local_region wraps a function, but got {function!r} ({type(function).__name__}); everything but the "
            "function is given by keyword"
        )
    if (
        inspect.isgeneratorfunction(function)
        or inspect.iscoroutinefunction(function)
        or inspect.isasyncgenfunction(function)
    ):
        raise TypeError(
            f"local_region wraps a function that returns its outputs, but {name_of(function)} is a generator or "
            "coroutine function, whose outputs come later. Wrap the functions that it calls."
        )
