# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A wrong rule, and how it is found."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from textwrap import dedent, indent

from hpgen.diagnostics import Source, SpecError
from hpgen.spec.check import check_spec
from hpgen.spec.load import load_spec
from hpgen.verify.subject import Subject, load_subject
from hpgen.verify.verifier import DEFAULT, Budget, Verifier
from tests.mutants import Mutant as ModuleMutant
from tests.mutants import with_mistake
from tests.operators.test_expansion_mutants import mutated

SPECS = Path(__file__).parents[3] / "specs"
SPEC, RULE, FUNCTION, RUNTIME = "spec", "rule", "function", "runtime"
LSE = "npu_dense_lightning_indexer_softmax_lse"
DENSE = "npu_dense_lightning_indexer_grad_kl_loss"
SPARSE = "npu_sparse_lightning_indexer_grad_kl_loss"
TOP_K = "npu_lightning_indexer"
POST = "npu_mhc_post"
PRE = "npu_mhc_pre_sinkhorn"
CLAMP = "npu_mhc_pre_clamp_sinkhorn"
READING = "reading the spec"


@dataclass(frozen=True)
class Mutant:
    """A mistake in a copy of something that belongs to one operator.

    Attributes:
        mistake: What is wrong, in words; one mistake may be made in several operators.
        op: The operator.
        where: `spec`, the generated `rule` or `function`, or a module of the `runtime`.
        edits: What is replaced by what; each stands there once.
        appended: Text behind the file, for methods that are overridden: with the class as `Op`.
        module: The module of a runtime mutant, by the last part of its name.
    """

    mistake: str
    op: str
    where: str
    edits: Sequence[tuple[str, str]] = ()
    appended: str = ""
    module: str = ""

    def __str__(self) -> str:
        return f"{self.op}: {self.mistake}"


@dataclass(frozen=True)
class Found:
    """How a mutant was found.

    Attributes:
        by: `reading the spec`, or what was wrong in which run; empty if nothing was.
        cases: How many cases were looked at until then, placements that were refused included.
    """

    by: str
    cases: int = 0


def edited(mutant: Mutant, text: str) -> str:
    for old, new in mutant.edits:
        text = with_mistake(text, old, new)
    return text


def subject_of(mutant: Mutant) -> Subject:
    """The operator with its mistake. SpecError if reading finds it."""
    path = SPECS / f"{mutant.op}.yaml"
    text = path.read_text()
    if mutant.where == SPEC:
        text = edited(mutant, text)
    spec = load_spec(Source(f"specs/{path.name}", text))
    check_spec(spec)

    def edit(file: PurePosixPath, rendered: str) -> str:
        stem = {RULE: f"parallel_{mutant.op}.py", FUNCTION: "dfunction.py"}.get(mutant.where)
        if file.name != stem:
            return rendered
        changed = edited(mutant, rendered)
        return f"{changed}\n\n{overridden(changed, mutant.appended)}" if mutant.appended else changed

    return load_subject(spec, SPECS, edit=edit)


def overridden(text: str, methods: str) -> str:
    """A class that takes the place of the generated one, with its own methods."""
    name = next(line.split()[1].split("(")[0] for line in text.splitlines() if line.startswith("class "))
    body = indent(dedent(methods).strip(), "    ")
    return f"class {name}({name}):\n{body}\n"


def find(mutant: Mutant, budget: Budget = DEFAULT) -> Found:
    """Look for the mistake as `hpgen verify` does, until it is found."""
    try:
        subject = subject_of(mutant)
    except SpecError as error:
        return Found(f"{READING}: {error.diagnostics[0].rule}")
    in_runtime = (mutated(ModuleMutant(mutant.mistake, mutant.module, *edit)) for edit in mutant.edits)
    with next(in_runtime) if mutant.where == RUNTIME else nullcontext():
        report = Verifier(subject, budget, most_wrong=1).report(mutant.op)
    if report.passed:
        return Found("", report.cases)
    if not report.claims:
        return Found("", report.cases)  # that nothing is taken is no finding
    claim = report.claims[0]
    what = "a call that fails" if claim.what == "error" else f"{claim.what} {claim.name}".strip()
    return Found(f"{what}, {claim.form}", report.cases)
