# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What a module's boundary declares: the placements of its parameters, inputs and outputs."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from hyper_parallel.core.dtensor.placement_types import Partial, Placement

NamedPlacements = Mapping[str, Placement]
"""Mesh axis -> placement. An axis that is not named is replicated."""

Contract = Mapping[str, NamedPlacements | None]
"""Name of a parameter, input or output -> its placements. None: nothing is declared for this one."""


class PlacementMismatchError(ValueError):
    """A tensor at a module's boundary does not lie as the boundary declares. Raised in validate mode.

    Attributes:
        module: the module's name in the tree.
        stage: the declaration that does not hold: "params", "in_src" or "out_src".
        name: the parameter, input or output.
        expected: the declared placements, one per mesh axis.
        actual: the placements found, or what was found in words.
    """

    def __init__(self, module: str, stage: str, name: str, expected: Any, actual: Any, advice: str = "") -> None:
        super().__init__(module, stage, name, expected, actual, advice)
        self.module = module
        self.stage = stage
        self.name = name
        self.expected = expected
        self.actual = actual
        self.advice = advice

    def __str__(self) -> str:
        text = (
            f"For module {self.module!r}, {self.stage} declares {self.expected} for {self.name!r}, "
            f"but got {self.actual}."
        )
        return f"{text} {self.advice}" if self.advice else text


SpecType = TypeVar("SpecType")


def _suggests_fields(cls: type[SpecType]) -> type[SpecType]:
    """Have a dataclass name the field that an unknown keyword was meant to be."""
    init = cls.__init__

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        known = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        for name in kwargs:
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                meant = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(map(repr, known))}"
                raise TypeError(f"{cls.__name__} has no field {name!r}: {meant}")
        init(self, *args, **kwargs)

    cls.__init__ = checked  # type: ignore[method-assign]
    return cls


@_suggests_fields
@dataclass(frozen=True)
class ModuleShardingSpec:
    """The boundary of one module. Every contract maps a name to ``{mesh axis: placement}``; None is no contract.

    Attributes:
        params: parameters of the module, below it as well (``"q_proj.weight"``). Each becomes this rank's part. A
            parameter that is not named is replicated.
        region_dispatch: in validate mode, run the forward on DTensors through the dispatcher. False: run it on local
            tensors and take the placements of its outputs from the declaration, as a custom autograd function needs.
            In production mode the forward runs on local tensors in any case.
        in_src: how the inputs arrive, by the name of the forward's parameter.
        in_dst: how the forward takes them; communication leads there. An input that is not named stays as it arrives.
        out_src: how the forward yields its outputs, in the order of the keys.
        out_dst: how the module returns them. An output that is not named stays as it was yielded.
        in_grad: how the gradient of an input lies when the forward's backward yields it: Partial() on the axes over
            which it is still to be summed. Derived for an input that is not named.
        params_grad: the same for parameters.

    Raises:
        TypeError: something that is not such a mapping, or no field.
        ValueError: an in_dst without in_src (or out_dst without out_src), Partial parameters, another gradient
            placement than Replicate and Partial("sum").
    """

    params: Contract | None = None
    region_dispatch: bool = True
    in_src: Contract | None = None
    in_dst: Contract | None = None
    out_src: Contract | None = None
    out_dst: Contract | None = None
    in_grad: Contract | None = None
    params_grad: Contract | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.region_dispatch, bool):
            raise TypeError(f"region_dispatch should be True or False, but got {self.region_dispatch!r}")
        for field in fields(self):
            if field.name != "region_dispatch":
                object.__setattr__(self, field.name, _copied(field.name, getattr(self, field.name)))
        for later, earlier in (("in_dst", "in_src"), ("out_dst", "out_src"), ("in_grad", "in_src")):
            known = declared(getattr(self, earlier))
            for name in declared(getattr(self, later)):
                if name not in known:
                    raise ValueError(
                        f"{later} names {name!r}, which {earlier} should declare too: where it comes from is not known"
                    )
        for name, placements in declared(self.params).items():
            if any(placement.is_partial() for placement in placements.values()):
                raise ValueError(f"params: {name!r} should be sharded or replicated, but got {dict(placements)}")
        for field_name in ("in_grad", "params_grad"):
            for name, placements in declared(getattr(self, field_name)).items():
                if any(not item.is_replicate() and item != Partial("sum") for item in placements.values()):
                    raise ValueError(
                        f"{field_name}: {name!r} should be Partial() on the axes over which its gradient is summed, "
                        f"but got {dict(placements)}"
                    )


def declared(contract: Contract | None) -> dict[str, NamedPlacements]:
    """Return the names for which a contract declares something, in its order."""
    return {name: placements for name, placements in (contract or {}).items() if placements is not None}


def _copied(field: str, contract: Any) -> Contract | None:
    if contract is None:
        return None
    if not isinstance(contract, Mapping):
        raise TypeError(f"{field} should map names to {{mesh axis: placement}}, but got {contract!r}")
    return {_checked_name(field, name): _checked_axes(field, name, value) for name, value in contract.items()}


def _checked_name(field: str, name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{field} should map names to {{mesh axis: placement}}, but has the key {name!r}")
    return name


def _checked_axes(field: str, name: str, placements: Any) -> NamedPlacements | None:
    if placements is None:
        return None
    if not isinstance(placements, Mapping) or not all(isinstance(item, Placement) for item in placements.values()):
        raise TypeError(
            f"{field}: {name!r} should be {{mesh axis: placement}}, such as {{'tp': Shard(0)}}, but got {placements!r}"
        )
    return dict(placements)
