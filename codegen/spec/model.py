# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""An operator as its spec describes it. Frozen; every object keeps its place only to make messages good."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from ..diagnostics import Source, Span
from .dims import Dim
from .expression import Expression, names_in
from .kernel_call import KernelCall
from .yaml_nodes import Scalar

FLOATING = ("float16", "bfloat16", "float32", "float64")
DTYPES = (*FLOATING, "int8", "int16", "int32", "int64", "uint8", "bool")
AttributeType: TypeAlias = Literal["int", "float", "bool", "str", "dtype", "ints"]
Combine: TypeAlias = Literal["sum", "max", "min", "same"]
Value: TypeAlias = "int | float | bool | str | tuple[int, ...]"


@dataclass(frozen=True)
class Dims:
    """A tensor's dims in every format of the operator."""

    per_format: Mapping[str, tuple[Dim, ...]]
    scalars: Mapping[str, Scalar] = field(compare=False, repr=False)

    def bare(self, form: str) -> Set[str]:
        """The names that stand alone as a dim in a format."""
        return self.bare_names[form]

    @cached_property
    def bare_names(self) -> Mapping[str, Set[str]]:
        return {form: frozenset(dim.name for dim in dims if dim.name) for form, dims in self.per_format.items()}

    @property
    def any_rank(self) -> bool:
        """Whether the tensor may have any number of dims."""
        return any(dim.is_rest for dims in self.per_format.values() for dim in dims)


@dataclass(frozen=True)
class TensorArgument:
    """`dtypes` are those of the NPU kernel, or names of tensors whose dtype is shared."""

    name: str
    doc: str
    dtypes: tuple[str, ...]
    dims: Dims
    optional: bool
    positional: bool
    differentiable: bool
    positions: str  # the key dim whose positions it holds, or empty
    at: Span = field(compare=False, repr=False)
    dtypes_at: Mapping[str, Span] = field(compare=False, repr=False)

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
    leading_zero: bool
    where: Literal["host", "device"]
    dtype: str  # of the tensor that a kernel on the device reads
    missing: Literal["empty", "absent"]
    count: str  # the dim that is the number of documents, or empty
    at: Span = field(compare=False, repr=False)
    of_at: Span = field(compare=False, repr=False)

    @property
    def required(self) -> bool:
        return not self.optional


@dataclass(frozen=True)
class Attribute:
    """A plain value. `default` is None where the caller must give one, unless it is `optional`."""

    name: str
    doc: str
    type: AttributeType
    default: Value | None
    choices: tuple[Value, ...]
    optional: bool
    positional: bool
    axis: str  # the dim that it chooses among those of a tensor of any rank, or empty
    at: Span = field(compare=False, repr=False)
    default_at: Span | None = field(compare=False, repr=False)
    choices_at: Span | None = field(compare=False, repr=False)

    @property
    def required(self) -> bool:
        return self.default is None and not self.optional


Argument: TypeAlias = "TensorArgument | LengthsArgument | Attribute"


@dataclass(frozen=True)
class Output:
    """`dtype` is a dtype or the name of an argument; `like` has been resolved into dims and dtype."""

    name: str
    doc: str
    dtype: str
    dims: Dims
    like: str
    resize: Mapping[str, Expression]
    combine: Combine | None
    hidden: bool
    when: str  # the attribute without which it is not returned, or empty
    positions: str
    at: Span = field(compare=False, repr=False)
    dtype_at: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class Requirement:
    """`condition` must hold wherever `applies` does (everywhere if it is None)."""

    condition: Expression
    applies: Expression | None
    text: str
    scalar: Scalar = field(compare=False, repr=False)

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name that it uses."""
        parts = (self.condition,) if self.applies is None else (self.condition, self.applies)
        return frozenset(name.id for part in parts for name in names_in(part))


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
    linear: tuple[tuple[str, ...], ...]
    reduce: Mapping[str, Literal["sum"]]
    together: tuple[tuple[str, ...], ...]
    places: Mapping[str, Span] = field(compare=False, repr=False)

    @property
    def allowed(self) -> tuple[str, ...]:
        """Every dim that may lie on mesh axes."""
        return (*self.shard, *self.reduce)


@dataclass(frozen=True)
class Ratio:
    """Compressed keys: one key row for `by` tokens, and the argument that holds what is left over."""

    by: str
    residual: str


@dataclass(frozen=True)
class ContextParallel:
    query: tuple[str, ...]
    key: tuple[str, ...]
    mask: Expression  # the names causal and full, and expressions of them
    lengths: Mapping[str, str]  # packed dim -> lengths argument
    ratio: Ratio | None
    requirements: tuple[Requirement, ...]
    mask_scalar: Scalar = field(compare=False, repr=False)
    places: Mapping[str, Span] = field(compare=False, repr=False)


@dataclass(frozen=True)
class Temporary:
    """A tensor that only the kernels see."""

    name: str
    dtype: str
    dims: Dims
    at: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class Launch:
    """One kernel call of a spec, with the text it was read from."""

    call: KernelCall
    scalar: Scalar = field(compare=False, repr=False)


@dataclass(frozen=True)
class Kernel:
    launches: tuple[Launch, ...]
    temporaries: tuple[Temporary, ...]
    cpu_header: str  # empty if there is no host kernel
    unused: tuple[str, ...]
    unused_at: Mapping[str, Span] = field(compare=False, repr=False)


@dataclass(frozen=True)
class Precomputed:
    """The forward kernel's outputs are gradients already, to be multiplied by the incoming gradient of `cotangent`."""

    gradients: Mapping[str, str]  # input -> output
    cotangent: str  # an output; empty: ignored
    at: Span = field(compare=False, repr=False)
    places: Mapping[str, Span] = field(compare=False, repr=False)


@dataclass(frozen=True)
class BackwardCall:
    """A second kernel computes the gradients."""

    launches: tuple[Launch, ...]
    temporaries: tuple[Temporary, ...]
    grads_unused: Literal["ignored", "error"] | None
    at: Span = field(compare=False, repr=False)


Backward: TypeAlias = "Precomputed | BackwardCall | None"


@dataclass(frozen=True)
class Reference:
    """A NumPy function: `module` under specs/reference/, and its name."""

    module: str
    function: str

    def __str__(self) -> str:
        return f"{self.module}:{self.function}"


@dataclass(frozen=True)
class Spec:
    op: str
    aliases: tuple[str, ...]
    summary: str
    doc: str
    format: Format
    dim_docs: Mapping[str, str]
    arguments: tuple[Argument, ...]
    outputs: tuple[Output, ...]
    requirements: tuple[Requirement, ...]
    sharding: Sharding
    context_parallel: ContextParallel | None
    backward: Backward
    kernel: Kernel | None  # None: the platform has the operator, only its layout rule is described
    reference: Reference | None
    backward_reference: Reference | None
    sample: Reference | None
    torch_delegate: str  # empty if the torch entry point runs the kernel itself
    source: Source = field(compare=False, repr=False)
    op_at: Span = field(compare=False, repr=False)
    dims_at: Mapping[str, Span] = field(compare=False, repr=False)
    aliases_at: Mapping[str, Span] = field(compare=False, repr=False)

    @cached_property
    def tensors(self) -> tuple[TensorArgument, ...]:
        return tuple(argument for argument in self.arguments if isinstance(argument, TensorArgument))

    @cached_property
    def lengths(self) -> tuple[LengthsArgument, ...]:
        return tuple(argument for argument in self.arguments if isinstance(argument, LengthsArgument))

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        return tuple(argument for argument in self.arguments if isinstance(argument, Attribute))

    @cached_property
    def by_name(self) -> Mapping[str, Argument]:
        return {argument.name: argument for argument in self.arguments}

    @cached_property
    def output_by_name(self) -> Mapping[str, Output]:
        return {output.name: output for output in self.outputs}

    @cached_property
    def temporaries(self) -> tuple[Temporary, ...]:
        """Those of the forward and of the backward kernels."""
        forward = self.kernel.temporaries if self.kernel else ()
        return (*forward, *(self.backward.temporaries if isinstance(self.backward, BackwardCall) else ()))

    @cached_property
    def axes(self) -> Mapping[str, Attribute]:
        """Dim names that an attribute chooses: the name -> the attribute."""
        return {attribute.axis: attribute for attribute in self.attributes if attribute.axis}

    @cached_property
    def counts(self) -> Mapping[str, LengthsArgument]:
        """Dim names that are a number of documents: the name -> the lengths."""
        return {lengths.count: lengths for lengths in self.lengths if lengths.count}

    def bound(self, form: str) -> Set[str]:
        """The dim names whose extent the inputs give in a format."""
        return self.bound_names[form]

    @cached_property
    def bound_names(self) -> Mapping[str, Set[str]]:
        found = {}
        for form in self.format.names:
            bare = frozenset().union(*(tensor.dims.bare(form) for tensor in self.tensors))
            present = {name for name, lengths in self.counts.items() if lengths.of in bare}
            found[form] = bare | present | (set(self.axes) if self.rest_owner(form) else set())
        return found

    def uncertain(self, form: str) -> frozenset[str]:
        """The dims that only optional arguments give: their extents are unknown where these are absent."""
        return self.uncertain_dims[form]

    @cached_property
    def uncertain_dims(self) -> Mapping[str, frozenset[str]]:
        """Format -> the dims that only optional arguments give."""
        return {form: frozenset(self.find_uncertain(form)) for form in self.format.names}

    def find_uncertain(self, form: str) -> set[str]:
        given = {name for tensor in self.tensors if not tensor.optional for name in tensor.dims.bare(form)}
        perhaps = {name for tensor in self.tensors if tensor.optional for name in tensor.dims.bare(form)}
        counted = {name for name, lengths in self.counts.items() if lengths.of in self.bound(form)}
        return ((perhaps - counted) | {name for name in counted if self.counts[name].optional}) - given

    def format_value(self, form: str) -> str | int:
        """What tells a format: the attribute's value, or the tensor's rank."""
        if self.format.kind != "rank":
            return form
        return len(next(tensor for tensor in self.tensors if tensor.name == self.format.selector).dims.per_format[form])

    def dtype_source(self, holder: TensorArgument | Output) -> str:
        """The tensor whose dtype is shared, the tensor itself if it shares none; empty for an output with its own."""
        name = holder.dtype if isinstance(holder, Output) else holder.name
        item = self.by_name.get(name)
        while isinstance(item, TensorArgument) and len(item.dtypes) == 1 and item.dtypes[0] in self.by_name:
            item = self.by_name[item.dtypes[0]]
        return item.name if isinstance(item, TensorArgument) else ""

    def dtype_owner(self, name: str) -> str:
        """Who tells a shared dtype: `name`, or what that shares its own with if it is optional and may be missing."""
        item = self.by_name.get(name)
        while isinstance(item, TensorArgument) and item.optional and item.dtypes[0] in self.by_name:
            if len(item.dtypes) > 1:
                break
            item = self.by_name[item.dtypes[0]]
        return item.name if item else name

    @cached_property
    def has_any_rank(self) -> bool:
        """Whether some input has any number of dims, so that `...` has a meaning."""
        return any(tensor.dims.any_rank for tensor in self.tensors)

    def rest_owner(self, form: str) -> TensorArgument | None:
        """The first tensor that tells what `...` is in a format: none if no required one has it there."""
        return self.rest_owners[form]

    @cached_property
    def rest_owners(self) -> Mapping[str, TensorArgument | None]:
        required = [tensor for tensor in self.tensors if not tensor.optional]
        return {
            form: next((item for item in required if any(dim.is_rest for dim in item.dims.per_format[form])), None)
            for form in self.format.names
        }

    def fresh(self, name: str) -> str:
        """`name`, with underscores behind it if an argument, dim or output has it already."""
        while name in self.names:
            name += "_"
        return name

    @cached_property
    def names(self) -> Set[str]:
        """Every dim, argument, output and temporary."""
        return {*self.by_name, *self.dim_docs, *self.output_by_name, *(item.name for item in self.temporaries)}
