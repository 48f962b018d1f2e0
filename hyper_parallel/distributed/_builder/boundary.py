# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What stands in the place of a module's forward: communication at entry and exit around it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
from hyper_parallel.core.dtensor.dtensor import DTensor
from hyper_parallel.distributed._builder.contract import Transition, check_local
from hyper_parallel.distributed._builder.forward_errors import explained
from hyper_parallel.distributed._builder.gradient_flow import Edge
from hyper_parallel.distributed._builder.gradient_sums import (
    with_shared_gradient,
    with_summed_gradients,
)
from hyper_parallel.distributed._builder.input_binding import InputBinding
from hyper_parallel.distributed._builder.outputs import map_outputs
from hyper_parallel.distributed._builder.rank_values import check_values
from hyper_parallel.distributed._builder.region_parameters import RegionParameter, RegionParameters
from hyper_parallel.distributed.recipe_spec import PlacementMismatchError
from hyper_parallel.platform import get_platform


@dataclass(eq=False, repr=False)
class Boundary:
    """A module's forward, with its boundary around it. It lies on the module, under the forward's name.

    Attributes:
        module: the module.
        name: its name in the tree.
        mesh: the mesh.
        validate: keep DTensors, and compare everything with what is declared.
        dispatch: in validate mode, run the forward on DTensors.
        takes_locals: it lies in a region that runs on local tensors, and gives plain tensors for plain ones.
        binding: where the inputs are found.
        inputs: by name, with what happens to their gradients.
        outputs: by name, in order, with what happens to their gradients at exit, and inside of it; None where nothing
            is declared. None: no contract.
        region: the region's parameters.
        original: a forward that lay on the module before; None: that of its class.
    """

    module: Any
    name: str
    mesh: DeviceMesh
    validate: bool
    dispatch: bool
    takes_locals: bool
    binding: InputBinding
    inputs: dict[str, tuple[Transition, Edge]]
    outputs: dict[str, tuple[Transition, Edge, Edge] | None] | None
    region: RegionParameters
    original: Callable[..., Any] | None

    @property
    def parameters(self) -> list[RegionParameter]:
        """The parameters of the region in the plan."""
        return self.region.planned

    @property
    def forward(self) -> Callable[..., Any]:
        """The forward without the boundary."""
        if self.original is not None:
            return self.original
        method: Any = getattr(type(self.module), get_platform().modules.forward_name)
        bound: Callable[..., Any] = method.__get__(self.module)
        return bound

    @property
    def __signature__(self) -> Any:
        return inspect.signature(self.forward)

    @get_platform().uncompiled
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the forward between the communication at entry and that at exit."""
        places = [
            (name, place)
            for name, place in self.binding.locate(args, kwargs)
            if (kwargs[place] if isinstance(place, str) else args[place]) is not None
        ]
        given = [kwargs[place] if isinstance(place, str) else args[place] for _, place in places]
        entered = self._enter([name for name, _ in places], given)
        positional, keywords = list(args), dict(kwargs)
        for (_, place), value in zip(places, entered, strict=True):
            if isinstance(place, str):
                keywords[place] = value
            else:
                positional[place] = value
        dispatched = self.validate and self.dispatch and bool(places)
        try:
            with self.region.in_use(_region_of, as_dtensors=dispatched):
                result = self.forward(*positional, **keywords)
        except Exception as error:
            told = explained(error, self.name, self.parameters, dispatched=dispatched)
            if told is None:
                raise
            raise told from error
        if self.outputs is None:
            return result
        keeps = self.validate and (not self.takes_locals or any(isinstance(value, DTensor) for value in given))
        return map_outputs(
            f"For module {self.name!r}",
            result,
            self.outputs,
            lambda name, declared, value: self._leave(name, *declared, value, dispatched, keeps),
        )

    def _enter(self, names: list[str], given: list[Any]) -> list[Any]:
        """The declared inputs of a call, as the forward takes them."""
        arrived, sums = [], []
        for name, value in zip(names, given, strict=True):
            transition, edge = self.inputs[name]
            if isinstance(value, DTensor):
                if not self.validate:
                    raise TypeError(
                        f"{transition.where} should be this rank's local tensor in production mode, but got a DTensor; "
                        "give its to_local(), or apply the plan with mode='validate'"
                    )
                local = self._unwrapped(value, transition, "in_src", name)
            else:
                check_local(value, transition.where)
                local = value
            if self.validate:
                source = transition.way(local.ndim).source
                check_values(local, source, self.name, "in_src", name, suspect=not isinstance(value, DTensor))
            arrived.append(transition.run(with_shared_gradient(local, edge.shares)))
            # What nothing happens to stays the very tensor, which a forward may change in place.
            sums.append(edge.sums if edge.sums or arrived[-1] is not local else None)
        entered = with_summed_gradients(self.mesh, arrived, sums)
        if not (self.validate and self.dispatch):
            return entered
        return [
            DTensor.from_layout(local, self.inputs[name][0].way(local.ndim).target)
            for name, local in zip(names, entered, strict=True)
        ]

    def _leave(
        self, name: str, transition: Transition, outer: Edge, inner: Edge, value: Any, dispatched: bool, keeps: bool
    ) -> Any:
        """A declared output of the forward, as the module returns it."""
        if isinstance(value, DTensor):
            local = self._unwrapped(value, transition, "out_src", name)
        else:
            check_local(value, transition.where)
            if dispatched:
                raise PlacementMismatchError(
                    self.name,
                    "out_src",
                    name,
                    transition.source,
                    "a plain tensor, which has no placements",
                    "A forward that computes on local tensors needs region_dispatch=False.",
                )
            local = value
        source, target = transition.way(local.ndim)
        if self.validate:
            check_values(local, source, self.name, "out_src", name, suspect=not dispatched)
        left = transition.run(with_shared_gradient(local, inner.shares))
        (left,) = with_summed_gradients(self.mesh, [left], [outer.sums or None])
        return DTensor.from_layout(left, target) if keeps else left

    def _unwrapped(self, value: DTensor, transition: Transition, stage: str, name: str) -> Any:
        expected = transition.way(value.ndim).source
        if value.layout is not expected:
            actual: Any = value.placements
            if value.device_mesh is not self.mesh:
                actual = f"{value.placements} on another mesh, {value.device_mesh} instead of {self.mesh}"
            raise PlacementMismatchError(self.name, stage, name, expected.placements, actual)
        return value.to_local()


def boundary_of(module: Any) -> Boundary | None:
    """Return the boundary of a module, or None."""
    found = module.__dict__.get(get_platform().modules.forward_name)
    return found if isinstance(found, Boundary) else None


def _region_of(module: Any) -> RegionParameters | None:
    found = boundary_of(module)
    return None if found is None else found.region


def set_boundary(boundary: Boundary) -> None:
    """Put a boundary in the place of its module's forward."""
    object.__setattr__(boundary.module, get_platform().modules.forward_name, boundary)


def transitions(
    kind: str, boundary: str, mesh: DeviceMesh, source: Mapping[str, Any], target: Mapping[str, Any]
) -> dict[str, Transition]:
    """Return how every declared input or output (``kind``) of a boundary moves; one without target stays."""
    return {
        name: Transition(f"For module {boundary!r}, {kind} {name!r}", mesh, placements, target.get(name, placements))
        for name, placements in source.items()
    }
