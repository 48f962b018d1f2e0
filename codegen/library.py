# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A library of specs, all of them read and checked together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .diagnostics import Diagnostic, Findings, Note, SpecError
from .spec.check import check_spec
from .spec.load import load_spec
from .spec.model import BackwardCall, Spec
from .spec.names import camel_case
from .spec_folder import SpecFile, read_folder


@dataclass(frozen=True)
class Library:
    """The checked specs of one folder; for the fields see SpecFolder."""

    folder: Path
    shown: str
    specs: tuple[Spec, ...]
    selected: frozenset[str]
    whole: bool


def load_library(arguments: Sequence[Path]) -> Library:
    """Read the specs of a folder, or of the folder around single files.

    Raises:
        SpecError: With the findings of every file.
    """
    folder, findings, specs = read_folder(arguments), Findings(), []
    for file in folder.files:
        try:
            specs.append(checked_spec(file))
        except SpecError as error:
            findings.extend(error)
    for diagnostic in folder.misnamed:
        findings.keep(diagnostic)
    check_unique(specs, findings)
    findings.raise_if_any()
    return Library(folder.folder, folder.shown, tuple(specs), folder.selected, folder.whole)


def checked_spec(file: SpecFile) -> Spec:
    """The spec in a file. Raises SpecError with everything that is wrong with it by itself."""
    if file.fault:
        raise file.fault
    spec = load_spec(file.source)
    check_spec(spec)
    check_file_name(spec, file.path)
    return spec


def check_file_name(spec: Spec, path: Path) -> None:
    if path.stem != spec.op:
        message = f"the file of operator '{spec.op}' should be called {spec.op}.yaml, but is {path.name}"
        raise SpecError(Diagnostic("HP502", spec.op_at, message, "rename the file or the operator"))


def check_unique(specs: Iterable[Spec], findings: Findings) -> None:
    """No two operators give one class (npu_a_1b and npu_a1b would), one registered name, or one kernel function."""
    seen: dict[str, Spec] = {}
    check_names_differ(specs, findings)
    for spec in specs:
        name = camel_case(spec.op)
        if name in seen:
            note = Note(seen[name].op_at, "the other one")
            message = f"'{spec.op}' and '{seen[name].op}' would both give the class {name}DFunction"
            findings.add("HP501", spec.op_at, message, "rename one", [note])
        seen.setdefault(name, spec)


def check_names_differ(specs: Iterable[Spec], findings: Findings) -> None:
    owner: dict[str, Spec] = {}
    for spec in specs:
        backward = [f"{spec.op}_backward"] if isinstance(spec.backward, BackwardCall) else []
        for name in (spec.op, *spec.aliases, *backward):
            if name in owner and owner[name] is not spec:
                at = spec.aliases_at.get(name, spec.op_at)
                note = Note(owner[name].op_at, "the other one")
                message = f"'{name}' is a name of '{owner[name].op}' already"
                findings.add("HP501", at, message, "rename one", [note])
            owner.setdefault(name, spec)
