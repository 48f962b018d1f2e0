# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A library of specs: which files belong to it, all of them read and checked together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .diagnostics import Diagnostic, Findings, Note, Source, Span, SpecError
from .spec.check import check_spec
from .spec.load import load_spec, read_source
from .spec.model import BackwardCall, Spec
from .spec.names import camel_case


@dataclass(frozen=True)
class Library:
    """All specs of one folder. `selected` are those that were asked for; `whole` tells that it is all of them."""

    folder: Path
    shown: str  # the folder as the generated headers name it: relative to its parent
    specs: tuple[Spec, ...]
    selected: frozenset[str]
    whole: bool


def load_library(arguments: Sequence[Path]) -> Library:
    """Read the specs of a folder, or of the folder around single files.

    Raises:
        SpecError: With the findings of every file.
    """
    folder, chosen = choose(arguments)
    paths = sorted(folder.glob("*.yaml"))
    if not folder.name.isprintable():
        raise SpecError(
            Diagnostic("HP503", Span(Source(repr(folder.name), ""), 0, 0), "a folder's name is one line of text")
        )
    findings, specs = Findings(), []
    shown_folder = next((path for path in arguments if path.is_dir()), arguments[0].parent)
    for path in paths:
        try:
            source = read_source(path, str(shown_folder / path.name))
            spec = load_spec(source)
            check_spec(spec)
            check_file_name(spec, path)
            specs.append(spec)
        except SpecError as error:
            findings.extend(error)
    for path in sorted(folder.glob("*.yml")):
        nowhere = Span(Source(str(shown_folder / path.name), ""), 0, 0)
        findings.add("HP502", nowhere, "a spec's file name ends in .yaml, not .yml", f"rename it to {path.stem}.yaml")
    if not paths and not findings.diagnostics:
        nowhere = Span(Source(str(shown_folder), ""), 0, 0)
        findings.add("HP503", nowhere, "no spec (*.yaml) in this folder")
    check_unique(specs, findings)
    findings.raise_if_any()
    selected = frozenset(spec.op for spec in specs) if chosen is None else frozenset(path.stem for path in chosen)
    return Library(folder, folder.resolve().name, tuple(specs), selected, chosen is None)


def choose(arguments: Sequence[Path]) -> tuple[Path, list[Path] | None]:
    """The library's folder, and the files chosen from it (None for all)."""
    folders = {(path if path.is_dir() else path.parent).resolve() for path in arguments}
    if len(folders) > 1:
        names = ", ".join(sorted(str(folder) for folder in folders))
        place = Span(Source(str(arguments[1]), ""), 0, 0)
        raise SpecError(Diagnostic("HP503", place, f"specs of one library lie in one folder, but these are: {names}"))
    folder = folders.pop()
    if any(path.is_dir() for path in arguments):
        return folder, None
    wrong = next((path for path in arguments if path.suffix != ".yaml"), None)
    if wrong is not None:
        place = Span(Source(str(wrong), ""), 0, 0)
        raise SpecError(Diagnostic("HP502", place, "a spec's file name ends in .yaml", "rename it"))
    return folder, list(arguments)


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
