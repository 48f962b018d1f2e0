# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The plan of an operator: what the templates lay out and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from ..spec.model import Reference


@dataclass(frozen=True)
class Parameter:
    """One argument as the emitted signatures spell it; `python_default` is empty for a required one."""

    name: str
    kind: str  # tensor, lengths or attribute
    keyword_only: bool
    python_type: str
    python_default: str
    cpp_type: str
    doc: str


@dataclass(frozen=True)
class OutputPlan:
    name: str
    doc: str


@dataclass(frozen=True)
class CppShape:
    """How one output is allocated: its dtype and the variable that holds its shape."""

    name: str
    dtype: str
    shape: str


@dataclass(frozen=True)
class CppFormat:
    """One branch of the shape inference: named dims from the inputs, then the output shapes."""

    name: str
    test: str  # empty if there is only one format
    dims: tuple[tuple[str, str], ...]  # declaration or assignment of a dim, where its extent is read
    shapes: tuple[tuple[str, tuple[str, ...]], ...]  # shape variable, extents


@dataclass(frozen=True)
class CppPlan:
    formats: tuple[CppFormat, ...]
    launch_dims: tuple[str, ...]  # dims that the launch uses, so declared before the branches
    shapes: tuple[str, ...]  # the shape variables, each declared once
    outputs: tuple[CppShape, ...]
    kernel: str
    cpu_kernel: str  # empty if there is no host kernel
    cpu_header: str
    launch: tuple[str, ...]  # arguments in the kernel's order
    format_selector: str
    format_words: str


@dataclass(frozen=True)
class OperatorPlan:
    op: str
    class_name: str  # the common part of the class names: NpuMhcPost
    spec_path: str
    summary: str
    doc: str
    note: str  # what follows from the sharding rule, for the docs
    parameters: tuple[Parameter, ...]
    outputs: tuple[OutputPlan, ...]
    check_body: str
    check_groups: bool  # whether packed documents are counted per data-parallel group
    host_lengths: frozenset[str]
    rule: str
    uses_context_parallel: bool
    reference: Reference
    torch_delegate: str
    cpp: CppPlan

    @property
    def return_type(self) -> str:
        if len(self.outputs) == 1:
            return "Tensor"
        return "tuple[" + ", ".join("Tensor" for _ in self.outputs) + "]"

    @property
    def output_names(self) -> str:
        return ", ".join(output.name for output in self.outputs)


@dataclass(frozen=True)
class LibraryPlan:
    """All operators of a library, ordered by name, and where its specs lie."""

    specs_path: str
    operators: tuple[OperatorPlan, ...]
