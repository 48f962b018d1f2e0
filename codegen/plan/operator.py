# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The plan of an operator: what the templates lay out and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from ..spec.model import Reference
from ..text.python_layout import Item


@dataclass(frozen=True)
class Parameter:
    """One argument as the emitted signatures spell it; `python_default` is empty for a required one."""

    name: str
    keyword_only: bool
    python_type: str
    python_default: Item
    bound: Item  # the expression that bind_arguments returns for it
    doc: str


@dataclass(frozen=True)
class OutputPlan:
    name: str
    doc: str


@dataclass(frozen=True)
class CppFormat:
    """One branch of the shape inference: named dims from the inputs, then the shapes of what is allocated."""

    test: str  # empty if there is only one format
    statements: tuple[str, ...]


@dataclass(frozen=True)
class CppTensor:
    """A tensor that a function allocates."""

    name: str
    type: str
    initial: str  # what stands in the brackets of its declaration


@dataclass(frozen=True)
class CppLaunch:
    runner_class: str
    runner: str  # the variable
    kernel: str
    cpu_kernel: str  # empty if there is no host kernel
    arguments: tuple[str, ...]  # in the kernel's order


@dataclass(frozen=True)
class CppFunction:
    """One exported function: parameters in API order, shapes, allocations, launches."""

    name: str
    parameters: tuple[str, ...]
    declarations: tuple[str, ...]  # dims and shapes that the branches set
    formats: tuple[CppFormat, ...]
    unknown_format: str  # the statement for a format that is none
    tensors: tuple[CppTensor, ...]
    launches: tuple[CppLaunch, ...]
    returns: tuple[str, ...]


@dataclass(frozen=True)
class CppPrototype:
    """An aclnn kernel and the header of the toolkit that declares it."""

    kernel: str
    header: str


@dataclass(frozen=True)
class CppPlan:
    functions: tuple[CppFunction, ...]
    prototypes: tuple[CppPrototype, ...]  # of every kernel that is launched, once
    cpu_header: str


@dataclass(frozen=True)
class BackwardPlan:
    """How the gradients come about.

    `cotangents` are the parameters of backward(), one per returned output. `saved` and `kept` are what forward leaves:
    tensors, and attributes of the context. `arguments` go to the backward kernel, which gives `produced`.
    """

    cotangents: tuple[str, ...]
    conditional_cotangents: tuple[str, ...]  # those of outputs that are not always returned
    optional_cotangents: tuple[tuple[str, str], ...]  # cotangent that may be missing, the saved output it is zeros of
    refused: tuple[tuple[str, str], ...]  # output, cotangent that must be zero
    saved: tuple[str, ...]
    kept: tuple[str, ...]
    measured: tuple[tuple[str, Item], ...]  # dims that forward measures, because backward cannot
    dims: tuple[tuple[str, Item], ...]  # dims that shape adapters use, and where they are read
    adapters: tuple[str, ...]  # the shape adapters in use
    arguments: tuple[Item, ...]
    produced: tuple[str, ...]
    returns: tuple[tuple[Item, str], ...]  # the gradient of each argument, and the argument
    doc: str


@dataclass(frozen=True)
class TorchBackwardPlan:
    """The torch.library operator of the backward kernel; `parameters` are what the function with `body` takes."""

    arguments: tuple[str, ...]  # as the schema declares them
    outputs: tuple[str, ...]
    refused: tuple[str, ...]  # outputs whose incoming gradients, the last arguments, must be zero
    parameters: tuple[tuple[str, str], ...]  # names and types
    body: str


@dataclass(frozen=True)
class TorchLibraryPlan:
    """The torch.library operator of the kernel; `parameters` are what the function with `body` takes."""

    arguments: tuple[str, ...]  # as the schema declares them
    outputs: tuple[str, ...]
    parameters: tuple[tuple[str, str], ...]  # names and types
    body: str
    used: tuple[str, ...]  # what the bodies of both functions use and the file imports
    backward: TorchBackwardPlan | None


@dataclass(frozen=True)
class OperatorPlan:
    op: str
    names: tuple[str, ...]  # the operator's name and its aliases
    class_name: str  # the common part of the class names: NpuMhcPost
    spec_path: str
    summary: str
    doc: str
    note: str  # what follows from the sharding rule, for the docs
    has_kernel: bool
    parameters: tuple[Parameter, ...]
    kernel_outputs: tuple[str, ...]  # every output, hidden ones too
    outputs: tuple[OutputPlan, ...]  # those that are returned
    conditional: tuple[str, tuple[str, ...]]  # the attribute that adds outputs, and the ones before; or empty
    non_differentiable: tuple[str, ...]
    backward: BackwardPlan | None
    check_body: str
    check_groups: bool  # whether packed documents are counted per data-parallel group
    check_ranks: bool  # whether checks depend on how many ranks share a sequence
    mask_function: str  # the body of the function that gives a call's mask; empty if it has the same one always
    rule: str
    uses_context_parallel: bool
    reference: Reference | None
    backward_reference: Reference | None
    sample: Reference | None
    torch_delegate: str
    cpp: CppPlan | None
    torch_library: TorchLibraryPlan | None


@dataclass(frozen=True)
class LibraryPlan:
    """All operators of a library, ordered by name (digits as numbers), and where its specs lie."""

    specs_path: str
    operators: tuple[OperatorPlan, ...]
