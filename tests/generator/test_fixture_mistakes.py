# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Edits of the fixture specs that describe what no operator can do, each with the message that says so."""

from __future__ import annotations

import pytest

from hpgen.diagnostics import Source, SpecError
from hpgen.spec.check import check_spec
from hpgen.spec.load import load_spec
from tests.fixtures.library import SPECS

EDITS = {
    "an output inside an expression": (
        "head_mix",
        ("out, mask, norms, peak)\n", "out, mask, norms if return_norms else mask, peak)\n"),
        "HP401",
        "the kernel writes 'norms', so it cannot stand in an expression",
    ),
    "an adapted output": (
        "project",
        ("aclnnProject(x, w, y)", "aclnnProject(x, w, flatten(y, 0, 1))"),
        "HP401",
        "the kernel writes 'y', so it cannot stand in an expression",
    ),
    "an adapted gradient": (
        "project",
        ("F, H, grad(w))", "F, H, transpose(grad(w), 0, 1))"),
        "HP401",
        "the kernel writes 'grad(w)', so it cannot stand in an expression",
    ),
    "a temporary before it is written": (
        "pad_and_cast",
        ("out_dtype, plan)", "out_dtype, flatten(plan, 0, 0), plan)"),
        "HP401",
        "the kernel writes 'plan', so it cannot stand in an expression",
    ),
    "an output that moves": (
        "head_mix",
        ("    like: norms\n    when: return_norms\n", "    like: norms\n"),
        "HP204",
        "'peak' stands behind 'norms', which is returned only with return_norms",
    ),
    "hidden and conditional": (
        "head_mix",
        ("    hidden: true\n", "    hidden: true\n    when: return_norms\n"),
        "HP204",
        "'mask' is hidden, so it is never returned",
    ),
    "the gradient of a hidden output": (
        "document_sum",
        ("grad(out), starts,", "grad(out), grad(starts), starts,"),
        "HP403",
        "'starts' is hidden, so no gradient comes in for it",
    ),
    "the dtype of a tensor that may be missing": (
        "distance_step",
        ("    dtype: x\n    dims: D\n", "    dtype: [x, float32]\n    dims: D\n"),
        "HP203",
        "the dtype of 'shift' is unknown where it is None",
    ),
    "a reduced dim that an output has": (
        "project",
        ("reduce: {H: sum}", "reduce: {H: sum, F: sum}"),
        "HP301",
        "'F' is not contracted: the output 'y' has it",
    ),
    "the number of documents sharded": (
        "document_sum",
        ("shard: [B, T]", "shard: [B, T, M]"),
        "HP301",
        "'M' cannot be sharded: it is the number of documents, which every group has of its own",
    ),
    "the chosen axis sharded": (
        "swi_glu",
        ("shard: [...]", "shard: [..., split]"),
        "HP301",
        "'split' cannot be sharded: 'dim' chooses it",
    ),
    "resizing what is no axis": (
        "rms_norm",
        ("    like: x\n", "    like: x\n    resize: {C: C*2}\n"),
        "HP204",
        "'C' is no axis of 'y' that can be resized",
    ),
    "a maximum with a gradient": (
        "grouped_scores",
        ("grad(total), q", "grad(total), grad(highest), q"),
        "HP403",
        "'highest' is combined by 'max', so it has no gradient",
    ),
}


def findings(text: str) -> list[tuple[str, str]]:
    try:
        check_spec(load_spec(Source("x.yaml", text)))
    except SpecError as error:
        return [(item.rule, item.message) for item in error.diagnostics]
    return []


@pytest.mark.parametrize("op", sorted(path.stem for path in SPECS.glob("*.yaml")))
def test_the_fixtures_themselves_are_right(op: str) -> None:
    assert findings((SPECS / f"{op}.yaml").read_text()) == []


@pytest.mark.parametrize(("op", "edit", "rule", "message"), EDITS.values(), ids=EDITS)
def test_mistake(op: str, edit: tuple[str, str], rule: str, message: str) -> None:
    text = (SPECS / f"{op}.yaml").read_text()
    assert edit[0] in text
    assert (rule, message) in findings(text.replace(*edit))
