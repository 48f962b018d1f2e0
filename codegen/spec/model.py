# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""An operator as its spec describes it. Frozen; every object keeps its place only to make messages good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from ..diagnostics import Source, Span
from .dims import Dim
from .expression import Expression
from .kernel_call import KernelCall
from .yaml_nodes import Scalar

FLOATING = ("float16", "bfloat16", "float32", "float64")
DTYPES = (*FLOATING, "int8", "int16", "int32", "int64", "uint8", "bool")
AttributeType: TypeAlias = Literal["int", "float", "bool", "str"]
Combine: TypeAlias = Literal["sum", "max", "min", "same"]
Value: TypeAlias = "int | float | bool | str"


@dataclass(frozen=True)
class Dims:
    """A tensor's dims in every format of the operator."""

    per_format: Mapping[str, tuple[Dim, ...]]
    scalars: Mapping[str, Scalar] = field(compare=False, repr=False)


@dataclass(frozen=True)
class TensorArgument:
    """`dtypes` are those of the NPU kernel, or names of tensors whose dtype is shared."""

    name: str
    doc: str
    dtypes: tuple[str, ...]
    dims: Dims
    optional: bool
    positional: bool
    at: Span = field(compare=False, repr=False)

    @property
    def required(self) -> bool:
        return not self.optional


@dataclass(frozen=True)
class LengthsArgument:
    """Cumulative document ends of the packed dim `of`."""

    name: str
    doc: str
    of: str
    optional: bool
    positional: bool
    at: Span = field(compare=False, repr=False)
    of_at: Span = field(compare=False, repr=False)

    @property
    def required(self) -> bool:
        return not self.optional


@dataclass(frozen=True)
class Attribute:
    """A plain value. `default` is None where the caller must give one."""

    name: str
    doc: str
    type: AttributeType
    default: Value | None
    choices: tuple[Value, ...]
    positional: bool
    at: Span = field(compare=False, repr=False)
    default_at: Span | None = field(compare=False, repr=False)
    choices_at: Span | None = field(compare=False, repr=False)

    @property
    def required(self) -> bool:
        return self.default is None


Argument: TypeAlias = "TensorArgument | LengthsArgument | Attribute"


@dataclass(frozen=True)
class Output:
    """`dtype` is a dtype or the name of an argument; `like` has been resolved into dims and dtype."""

    name: str
    doc: str
    dtype: str
    dims: Dims
    like: str
    combine: Combine | None
    at: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class Requirement:
    """`condition` must hold wherever `applies` does (everywhere if it is None)."""

    condition: Expression
    applies: Expression | None
    text: str
    scalar: Scalar = field(compare=False, repr=False)


@dataclass(frozen=True)
class Format:
    """How a call's format is known: from an attribute, from the rank of a tensor, or always the same."""

    kind: Literal["attribute", "rank", "fixed"]
    selector: str  # the attribute, or the tensor whose rank decides; empty if fixed
    names: tuple[str, ...]
    at: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class Sharding:
    shard: tuple[str, ...]
    places: Mapping[str, Span] = field(compare=False, repr=False)


@dataclass(frozen=True)
class ContextParallel:
    query: tuple[str, ...]
    key: tuple[str, ...]
    mask: Literal["causal", "full"]
    lengths: Mapping[str, str]  # packed dim -> lengths argument
    places: Mapping[str, Span] = field(compare=False, repr=False)


@dataclass(frozen=True)
class Kernel:
    call: KernelCall
    cpu_header: str  # empty if there is no host kernel
    unused: tuple[str, ...]
    scalar: Scalar = field(compare=False, repr=False)
    unused_at: Mapping[str, Span] = field(compare=False, repr=False)


@dataclass(frozen=True)
class Reference:
    """The NumPy oracle: `module` under specs/reference/, and its function."""

    module: str
    function: str


@dataclass(frozen=True)
class Spec:
    op: str
    summary: str
    doc: str
    format: Format
    dim_docs: Mapping[str, str]
    arguments: tuple[Argument, ...]
    outputs: tuple[Output, ...]
    requirements: tuple[Requirement, ...]
    sharding: Sharding
    context_parallel: ContextParallel | None
    kernel: Kernel
    reference: Reference
    torch_delegate: str  # empty if the torch entry point runs the kernel itself
    source: Source = field(compare=False, repr=False)
    op_at: Span = field(compare=False, repr=False)
    dims_at: Mapping[str, Span] = field(compare=False, repr=False)

    @cached_property
    def tensors(self) -> tuple[TensorArgument, ...]:
        return tuple(argument for argument in self.arguments if isinstance(argument, TensorArgument))

    @cached_property
    def lengths(self) -> tuple[LengthsArgument, ...]:
        return tuple(argument for argument in self.arguments if isinstance(argument, LengthsArgument))

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        return tuple(argument for argument in self.arguments if isinstance(argument, Attribute))

    def fresh(self, name: str) -> str:
        """`name`, with underscores behind it if an argument, dim or output has it already."""
        while name in self.by_name or name in self.dim_docs or any(name == output.name for output in self.outputs):
            name += "_"
        return name

    @cached_property
    def by_name(self) -> Mapping[str, Argument]:
        return {argument.name: argument for argument in self.arguments}
